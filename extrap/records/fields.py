"""Bounds and checks that records of studies and analyses share."""

from __future__ import annotations

from numbers import Real

from extrap.errors import argument

ROUNDING = 1e-9
"""What a product or a ratio of sizes, steps or fractions may be off by, relative."""
SMALLEST_LOSS, LARGEST_LOSS = 1e-100, 1e100
"""Squares of losses beyond this are no finite floats."""


def require_level(level: float) -> None:
    """Raise a `ValueError` for a level of intervals outside (0, 1), a `TypeError` for text."""
    if not isinstance(level, Real):
        raise TypeError(f"{argument('level')} is a number in (0, 1), got {level!r}; write 0.95.")
    if not 0 < level < 1:
        meant = level / 100 if 1 < level < 100 else 0.95
        raise ValueError(
            f"{argument('level')} must lie in (0, 1), got {level:g}; write {meant:g} for "
            f"{100 * meant:g} %."
        )


def require_name(name: str) -> None:
    """Raise a `ValueError` for a study's name that is no name of a file beside others."""
    if not name.strip(".") or not all(c.isalnum() or c in "-_." for c in name):
        raise ValueError(
            "a study's name may hold letters, digits, '-', '_' and '.', and not dots alone, "
            f"got {name!r}; it names a file, write 'my-study'."
        )
