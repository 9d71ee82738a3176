"""Formulas, one family per file. A law cannot fit, plot or read files.

What to use when:

* `power` — few sizes, far from any floor; extrapolates optimistically.
* `power_floor` — the default for a loss that saturates; with two sizes it is the Chinchilla form.
* `chinchilla_tied` — parameters and tokens, one exponent: extrapolates better than two.
* `skaling` — parameters and tokens whose terms add less than fully.
* `log_linear` — one size; a local description to compare with.
* `optimum_power` — where a tuned value's optimum lies; never for a loss.
"""

from __future__ import annotations

from extrap.laws.base import LossLaw, Range
from extrap.laws.optimum_power import OPTIMUM_POWER, OptimumLaw
from extrap.laws.power import CHINCHILLA_TIED, LOG_LINEAR, POWER_FLOOR, POWER_LAW, SKALING
from extrap.laws.repeated import effective_epochs

__all__ = [
    "FAMILY",
    "LAWS",
    "LOSS_LAWS",
    "OPTIMUM_POWER",
    "Law",
    "LossLaw",
    "OptimumLaw",
    "Range",
    "effective_epochs",
]

Law = LossLaw | OptimumLaw
LOSS_LAWS: dict[str, LossLaw] = {
    law.key: law for law in (POWER_LAW, POWER_FLOOR, CHINCHILLA_TIED, LOG_LINEAR, SKALING)
}
LAWS: dict[str, Law] = {**LOSS_LAWS, OPTIMUM_POWER.key: OPTIMUM_POWER}


FAMILY = ("power", "log_linear", "power_floor")
"""The laws that are mixed where the data cannot distinguish them."""
