"""Which tuned value to use: the recommended one, or one that is kept."""

from __future__ import annotations

from dataclasses import replace

from extrap.forecasting import Forecast
from extrap.records import Point, Recommendation
from extrap.records.numbers import (
    NBSP,
    format_cost,
    format_interval,
    format_level,
    format_octaves,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
    over,
)
from extrap.reporting.tables import Table, tabulated

WORTH_TELLING = 0.01
"""Relative difference from which a recommended value is explained."""


def differs(recommended: Recommendation) -> bool:
    """Whether a recommendation is far enough from the optimum to be explained."""
    return any(abs(2**off - 1) > WORTH_TELLING for off in recommended.octaves.values())


def recommendation_sentence(forecast: Forecast, recommended: Recommendation | None) -> str:
    """The recommended values, how far from the optimum they are and why, and what both cost.

    Nothing where they are unknown, or closer to it than `WORTH_TELLING`.
    """
    if recommended is None or not differs(recommended):
        return ""
    moves = {
        name: f"{format_percent(abs(2**off - 1), signed=False)} {'below' if off < 0 else 'above'}"
        for name, off in recommended.octaves.items()
    }
    named = (
        [f"{name} {move}" for name, move in moves.items()] if len(moves) > 1 else moves.values()
    )
    return (
        f"The recommended {name_tuned(recommended.tuned)} is {', '.join(named)} the optimum of "
        f"the law, because {_reason(forecast, recommended)}. As the optimum is uncertain, the "
        f"expected extra loss is {format_cost(recommended.expected_excess)} at the recommended "
        f"value and {format_cost(recommended.at_optimum)} at that optimum."
    )


def _reason(forecast: Forecast, recommended: Recommendation) -> str:
    """Divergence where it moves the recommendation, else the steeper side of the curve."""
    below = [off < 0 for off in recommended.octaves.values()]
    steep = "the loss rises faster on one side of the optimum than on the other"
    if all(below) or not any(below):
        dear, cheap = ("high", "low") if all(below) else ("low", "high")
        steep = f"a value too {dear} costs more than one too {cheap}"
    if forecast.divergence is None:
        return steep
    safe = replace(forecast, divergence=None).point(recommended.size).recommendation
    if safe is None or not differs(safe):
        return "runs may diverge beyond it"
    moved = any(
        abs(2 ** (off - safe.octaves[name]) - 1) > WORTH_TELLING
        for name, off in recommended.octaves.items()
    )
    return f"{steep}, and runs may diverge" if moved else steep


def transfer_table(point: Point, level: float) -> Table:
    """How well the values of the largest swept size would do at a size untuned."""
    return tabulated(
        f"Values of the largest swept size, kept at {name_size(point.size)} "
        f"({format_level(level)} intervals)",
        point.transfer,
        {
            "kept": lambda q: f"{q.tuned}{NBSP}= {format_quantity(q.kept)}",
            "tuned at": lambda q: name_size(q.kept_from),
            "octaves from forecast": lambda q: format_octaves(q.octaves),
            "extra loss": lambda q: over(
                format_cost(q.penalty), format_interval(q.penalty_pi, format_cost)
            ),
        },
        note="What keeping the value costs (Kalra, Barkeshli 2026, arXiv 2605.21486). An octave "
        "is a factor of two.",
    )
