"""An interval whose sides may be open."""

from __future__ import annotations

import math
from typing import NamedTuple

LARGEST_LOG = 709.0
"""`exp` of more than this is no finite float."""


class Interval(NamedTuple):
    """An interval `(lower, upper)`; an open side is `None` (JSON: `null`)."""

    lower: float | None = None
    upper: float | None = None

    @classmethod
    def around_log(cls, centre: float, half: float) -> Interval:
        """`exp(centre ± half)`; a side beyond the largest float is open."""
        upper = None if centre + half > LARGEST_LOG else math.exp(centre + half)
        return cls(math.exp(min(centre - half, LARGEST_LOG)), upper)

    def __contains__(self, value: object) -> bool:
        """Whether a number lies inside; open sides hold everything."""
        if not isinstance(value, int | float):
            return False
        above = self.lower is None or value >= self.lower
        below = self.upper is None or value <= self.upper
        return above and below

    def __repr__(self) -> str:
        sides = (f"{s:.6g}" if isinstance(s, int | float) else repr(s) for s in self)
        return f"Interval({', '.join(sides)})"


NOWHERE = Interval()
"""Interval of which neither side is known."""
