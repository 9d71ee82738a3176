"""How far the forecast at one size can be trusted, by its own numbers: high, medium or low."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from extrap.records.flags import Flag
from extrap.records.numbers import format_percent, format_quantity

LOW_HALF_WIDTH, HIGH_HALF_WIDTH = 0.05, 0.02
"""Half width of a log loss beyond which the confidence is low, and up to which it can be high."""
MOST_COST, LOW_COST, HIGH_COST = 0.03, 0.01, 0.003
"""Expected log excess of a recommended value beyond which it is not given, beyond which the
confidence is low, and up to which it can be high."""
MOST_CHANCE, LOW_CHANCE, HIGH_CHANCE = 0.1, 0.05, 0.02
"""Probability of divergence at a recommended value beyond which the value is not given, beyond
which the confidence is low, and up to which it can be high."""
NOT_FINISHED = "no-finished-runs"
"""The flag of a size of which no run was finished."""
LOW_FLAGS = (
    "no-loss-law",
    "accuracy-refused",
    "imprecise-loss",
    "far-extrapolation",
    "runs-missing",
    "optimum-not-bracketed-anywhere",
    "size-without-effect",
    "columns-collinear",
    "lack-of-fit",
    "too-few-sizes-for-a-floor",
    "too-few-sizes",
    "starts-disagree",
)
"""Flags that make the confidence low, the gravest first."""
NEUTRAL_FLAGS = ("flat", "published-prior", "floor-matters", "follows-size")
"""Flags that cost no confidence."""


class Confidence(NamedTuple):
    """How far an answer can be trusted, and why.

    Attributes:
        level: `"high"`, `"medium"` or `"low"`.
        reason: A clause with the number that decided, or the flag.
        is_flag: Whether the reason is a flag, `name: detail`.
    """

    level: str
    reason: str
    is_flag: bool = False


def grade(
    *,
    refusals: Mapping[str, str],
    half_width: float | None,
    cost: float | None,
    chance: float | None,
    flags: Sequence[str],
    extrapolation_ratio: float,
) -> Confidence:
    """The confidence in a forecast, with the first and gravest reason.

    Low: something is refused, the loss is not bounded on both sides or its half width exceeds 5 %,
    the value costs more than 1 % or diverges with a chance above 5 %, or a grave flag. High: no
    flag, a half width up to 2 %, a cost up to .3 % and a chance up to 2 %. All else is medium.

    Args:
        refusals: What is not given → why.
        half_width: Half of ln(upper / lower) of the loss's 90 % interval; None without one.
        cost: Expected log excess of the recommended values; None where it is not known.
        chance: Of divergence at these values; None where it is not modelled.
        flags: Named reasons to doubt the forecast.
        extrapolation_ratio: Target size over the largest fitted one.

    References:
        Ours.
    """
    doubts = [flag for flag in map(Flag, flags) if flag.code not in NEUTRAL_FLAGS]
    by_name = {flag.name: flag for flag in reversed(doubts)}
    if NOT_FINISHED in by_name:
        return Confidence("low", by_name[NOT_FINISHED], is_flag=True)
    for name, why in refusals.items():
        return Confidence("low", f"no {name} is given, as {why.partition(';')[0]}")
    if half_width is None or not math.isfinite(half_width):
        return Confidence("low", "the sweep does not bound the loss on both sides")
    numbers = (
        ("the 90 % interval of the loss is ± ", half_width, LOW_HALF_WIDTH, HIGH_HALF_WIDTH),
        ("the cost of not knowing the best value is ", cost or 0.0, LOW_COST, HIGH_COST),
        ("the chance of divergence is ", chance or 0.0, LOW_CHANCE, HIGH_CHANCE),
    )
    for text, number, low, _ in numbers:
        if number > low:
            return Confidence("low", f"{text}{_percent(number)}, more than {_percent(low)}")
    for grave in LOW_FLAGS:
        if grave in by_name:
            return Confidence("low", by_name[grave], is_flag=True)
    if doubts:
        return Confidence("medium", doubts[0], is_flag=True)
    for text, number, _, high in numbers:
        if number > high:
            return Confidence("medium", f"{text}{_percent(number)}, more than {_percent(high)}")
    times = format_quantity(extrapolation_ratio, digits=2)
    half = _percent(half_width)
    return Confidence("high", f"{numbers[0][0]}{half} at {times} times the largest size")


def _percent(number: float) -> str:
    return format_percent(number, signed=False, digits=2)
