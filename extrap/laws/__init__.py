"""Formulas, one family per file. A law cannot fit, plot or read files.

What to use when:

* `power` — few sizes, far from any floor; extrapolates optimistically.
* `power_floor` — the default for a loss that saturates; with two sizes it is the Chinchilla form.
* `chinchilla_tied` — parameters and tokens, one exponent: extrapolates better than two.
* `skaling_tied` — parameters and tokens whose terms add less than fully.
* `log_linear` — one size; a local description to compare with.
* `optimum_power` — where a tuned value's optimum lies; never for a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from extrap.laws.base import Law, LossLaw, Range
from extrap.laws.joint import SkalingTied
from extrap.laws.logarithmic import LogLinear
from extrap.laws.optimum import OptimumPower
from extrap.laws.power import ChinchillaTied, Power, PowerFloor
from extrap.laws.repeated import effective_epochs

__all__ = [
    "FAMILY",
    "JOINT_FAMILY",
    "LAWS",
    "LOSS_LAWS",
    "ChinchillaTied",
    "Law",
    "LogLinear",
    "LossLaw",
    "Member",
    "OptimumPower",
    "Power",
    "PowerFloor",
    "Range",
    "SkalingTied",
    "effective_epochs",
]

LOSS_LAWS: dict[str, LossLaw] = {
    law.key: law
    for law in (
        Power(),
        PowerFloor(),
        ChinchillaTied(),
        LogLinear(),
        SkalingTied(),
    )
}
LAWS: dict[str, Law] = {**LOSS_LAWS, OptimumPower.key: OptimumPower()}


class Member(NamedTuple):
    """One law of a mixture: its key, and the shape parameters at which it is held."""

    law: str
    held: Mapping[str, float] = MappingProxyType({})


FAMILY = (Member(Power.key), Member(LogLinear.key), Member(PowerFloor.key))
"""The laws a forecast mixes over one size column."""
JOINT_FAMILY = tuple(Member(SkalingTied.key, {"k": k}) for k in (0.35, 0.5, 0.7, 1.0))
"""… over parameters and tokens: no sweep tells how their terms add up, so k is mixed over.
At k = 1 it is the Chinchilla law with one exponent; published fits of k lie between .3 and .9."""
