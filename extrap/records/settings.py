"""Settings of a sweep that follow its sizes, such as the tokens of every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ONE_AMOUNT = 1.1
"""Amounts of data within this factor are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A column of the runs that is no size and not tuned: `amount · Π size^power`.

    Attributes:
        role: What it is: `tokens` (or examples), `steps`, `batch`, `decay`, `rate`, `width`
            or `params`.
        column: Its name.
        amount: The factor; None where the values follow no powers of the sizes, or are several
            at one size; 0 of a decay that no run has.
        powers: Size column → power; empty where all runs have one value.
    """

    role: str
    column: str
    amount: float | None
    powers: Mapping[str, float] = field(default_factory=dict)

    def value(self, size: Mapping[str, float]) -> float | None:
        """At a size; None where the values follow no powers of the sizes."""
        if self.amount is None:
            return None
        return self.amount * math.prod(size[column] ** p for column, p in self.powers.items())

    def is_at(self, size: Mapping[str, float], value: float) -> bool:
        """Whether a value is that of the sweep at a size, within `ONE_AMOUNT`."""
        of_sweep = self.value(size)
        if not of_sweep or not (math.isfinite(value) and value > 0):
            return False
        return abs(math.log(value / of_sweep)) <= math.log(ONE_AMOUNT)


def horizon_of(settings: Iterable[Setting]) -> Setting | None:
    """The setting that says how long runs train: tokens before steps; None without either."""
    by_role = {setting.role: setting for setting in settings}
    return by_role.get("tokens") or by_role.get("steps")
