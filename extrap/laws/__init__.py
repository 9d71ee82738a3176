"""Formulas, one family a file. A law cannot fit, plot or read files.

What to use when:

* `power` — few sizes, far from any floor; extrapolates optimistically.
* `power_floor` — the default for a loss that saturates; with two sizes it is the Chinchilla form.
* `optimum_power` — where a tuned value's optimum lies; never for a loss.
"""

from __future__ import annotations

from extrap.laws.base import ConditionallyLinearLaw, Law
from extrap.laws.optimum import OptimumPower
from extrap.laws.power import Power, PowerFloor

__all__ = [
    "LAWS",
    "LOSS_LAWS",
    "ConditionallyLinearLaw",
    "Law",
    "OptimumPower",
    "Power",
    "PowerFloor",
]

LOSS_LAWS: dict[str, ConditionallyLinearLaw] = {law.key: law for law in (Power(), PowerFloor())}
LAWS: dict[str, Law] = {**LOSS_LAWS, OptimumPower.key: OptimumPower()}
