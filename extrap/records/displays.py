"""Numbers and names in the `repr` of records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from extrap.files import as_written

MOST_TEXT = 200
"""Characters of a text that comes from a file."""

Side = tuple[float | None, float | None]
"""Lower and upper end, None where it is open."""


def number(value: float | None, *, digits: int = 4) -> str:
    """A number as a person types it; `unknown` where there is none."""
    return "unknown" if value is None or math.isnan(value) else f"{value:.{digits}g}"


def quantity(value: float | None) -> str:
    """A size or a tuned value: whole numbers to six digits, others to three."""
    return number(value, digits=6 if value is None or value == round(value, 0) else 3)


def between(interval: Side, *, digits: int = 4) -> str:
    """`1.67 to 1.83`, `at most 1.83`, or `unknown` where both sides are open."""
    lower, upper = interval
    if lower is None and upper is None:
        return "unknown"
    if lower is None:
        return f"at most {number(upper, digits=digits)}"
    if upper is None:
        return f"at least {number(lower, digits=digits)}"
    return f"{number(lower, digits=digits)} to {number(upper, digits=digits)}"


def estimated(value: float | None, interval: Side, *, digits: int = 4) -> str:
    """`1.75 (1.67 to 1.83)`; the interval alone where there is no point estimate."""
    if value is None:
        return between(interval, digits=digits)
    return f"{number(value, digits=digits)} ({between(interval, digits=digits)})"


def to_use(value: float | None, optimum: Side) -> str:
    """A tuned value to use, and where its optimum is: `0.002 (optimum 0.001 to 0.003)`."""
    where = f"optimum {between(optimum)}"
    return where if value is None else f"{quantity(value)} ({where})"


def named(values: Mapping[str, float | None]) -> str:
    """Column and value in pairs: `width 1024, depth 8`."""
    return ", ".join(f"{plain(name)} {quantity(v)}" for name, v in values.items())


def spanned(name: str, values: Iterable[float]) -> str:
    """A column, or without a name what it ranges over: `width 16–192 (8 values)`."""
    found = sorted(set(values))
    if len(found) < 2:
        return f"{plain(name)} {quantity(found[0]) if found else 'empty'}".strip()
    low, high = (quantity(value) for value in (found[0], found[-1]))
    return f"{plain(name)} {low}–{high} ({len(found)} values)".strip()


def percent(fraction: float | None) -> str:
    """A relative difference with its sign: `+1.2 %`."""
    return "unknown" if fraction is None else f"{100 * fraction:+.3g} %"


def duration(seconds: float) -> str:
    """A time in its largest sensible unit, never below zero: `40 s`, `12 min`, `3.5 h`."""
    left = max(0.0, seconds)
    if left < 90:
        return f"{left:.0f} s"
    if left < 5_400:
        return f"{left / 60:.0f} min"
    return f"{left / 3_600:.1f} h" if left < 172_800 else f"{left / 86_400:.1f} days"


def plural(n: int, noun: str) -> str:
    """`1 size`, `8 sizes`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def plain(text: object) -> str:
    """Text from a file on one line, hidden characters spelled out, cut where it is long."""
    words = " ".join(as_written(str(text)).split())
    return words if len(words) <= MOST_TEXT else f"{words[: MOST_TEXT - 1]}…"
