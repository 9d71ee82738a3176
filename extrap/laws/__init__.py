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

from extrap.laws.base import LossLaw, Range
from extrap.laws.optimum_power import OPTIMUM_POWER, OptimumLaw
from extrap.laws.power import CHINCHILLA_TIED, LOG_LINEAR, POWER, POWER_FLOOR, SKALING_TIED
from extrap.laws.repeated import effective_epochs

__all__ = [
    "FAMILY",
    "JOINT_FAMILY",
    "LAWS",
    "LOSS_LAWS",
    "OPTIMUM_POWER",
    "Law",
    "LossLaw",
    "Member",
    "OptimumLaw",
    "Range",
    "effective_epochs",
]

Law = LossLaw | OptimumLaw
LOSS_LAWS: dict[str, LossLaw] = {
    law.key: law for law in (POWER, POWER_FLOOR, CHINCHILLA_TIED, LOG_LINEAR, SKALING_TIED)
}
LAWS: dict[str, Law] = {**LOSS_LAWS, OPTIMUM_POWER.key: OPTIMUM_POWER}


class Member(NamedTuple):
    """One law of a mixture: its key, and the shape parameters at which it is held."""

    law: str
    held: Mapping[str, float] = MappingProxyType({})


FAMILY = (Member("power"), Member("log_linear"), Member("power_floor"))
"""The laws a forecast mixes over one size column."""
JOINT_FAMILY = tuple(Member("skaling_tied", {"k": k}) for k in (0.35, 0.5, 0.7, 1.0))
"""… over parameters and tokens: no sweep tells how their terms add up, so k is mixed over.
At k = 1 it is the Chinchilla law with one exponent; published fits of k lie between .3 and .9."""
