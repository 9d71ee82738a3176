"""Which tuned value to use: the recommended one, or one that is kept; in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extrap.fitting import Recommendation
from extrap.forecasting import Forecast
from extrap.reporting.numbers import (
    NBSP,
    format_cost,
    format_cost_interval,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
)

__all__ = ["differs", "recommendation_sentence", "transfer_sentence"]

WORTH_TELLING = 0.01
"""Relative difference from which a recommended value is shown beside the optimal one."""


def differs(recommended: Recommendation | None) -> bool:
    """Whether a recommendation is far enough from the optimum to be told apart."""
    if recommended is None:
        return False
    return any(abs(2**off - 1) > WORTH_TELLING for off in recommended.octaves.values())


def recommendation_sentence(forecast: Forecast, recommended: Recommendation) -> str:
    """The recommended values, how far from the optimum they are and why, and what both cost."""
    moves = {
        name: f"{format_percent(abs(2**off - 1), signed=False)} {'below' if off < 0 else 'above'}"
        for name, off in recommended.octaves.items()
    }
    named = (
        [f"{name} {move}" for name, move in moves.items()] if len(moves) > 1 else moves.values()
    )
    return (
        f"Recommended is {name_tuned(recommended.tuned)}, {', '.join(named)} the optimum, because "
        f"{_reason(forecast, recommended)}. The true optimum is known only within its interval, "
        f"so either is expected to cost loss: {format_cost(recommended.expected_excess)} at the "
        f"recommended value, {format_cost(recommended.at_optimum)} at the optimum."
    )


def _reason(forecast: Forecast, recommended: Recommendation) -> str:
    """Divergence where it moves the recommendation, else the steeper side of the valley."""
    below = [off < 0 for off in recommended.octaves.values()]
    steep = "the loss rises faster on one side of the optimum than on the other"
    if all(below) or not any(below):
        dear, cheap = ("high", "low") if all(below) else ("low", "high")
        steep = f"a value too {dear} costs more than one too {cheap}"
    if forecast.divergence is None:
        return steep
    safe = replace(forecast, divergence=None).recommend(**recommended.size)
    if safe is None or not differs(safe):
        return "runs may diverge beyond it"
    moved = any(
        abs(2 ** (off - safe.octaves[name]) - 1) > WORTH_TELLING
        for name, off in recommended.octaves.items()
    )
    return f"{steep}, and runs may diverge" if moved else steep


def transfer_sentence(forecast: Forecast, size: Mapping[str, float]) -> str:
    """What keeping the values of the largest swept size costs, and whether errors get dearer."""
    found = forecast.transfer(**size)
    if not found:
        return ""
    parts = [
        f"{q.tuned}{NBSP}={NBSP}{format_quantity(q.kept)} of {name_size(q.kept_from)} "
        f"is expected to cost {format_cost(q.penalty)} of loss "
        f"({format_cost_interval(q.penalty_pi)})"
        for q in found
    ]
    grows = found[0].steepening
    way = "dearer" if grows > 0 else "cheaper"
    return (
        f"Keeping {'; keeping '.join(parts)} at {name_size(size)}. An error of one octave gets "
        f"{format_percent(abs(2**grows - 1), signed=False)} {way} with every doubling of size."
    )
