"""How likely runs diverge, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.fitting import DivergenceModel, largest_chance
from extrap.forecasting import Forecast
from extrap.records.numbers import (
    NBSP,
    format_level,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
)

CHANCES = (0.1, 0.5)
"""Chances of divergence whose thresholds are drawn and named."""
FARTHEST = 20.0
"""Octaves from the best value beyond which a threshold says nothing."""


def divergence_sentence(
    forecast: Forecast, size: Mapping[str, float], tuned: Mapping[str, float]
) -> str:
    """How likely a run of this size diverges, or what a sweep without any leaves open.

    Args:
        forecast: The forecast.
        size: Size column → value.
        tuned: The tuned values to speak of; columns whose best value is unknown are missing.
    """
    counts = forecast.runs.counts()
    gone, n = counts["diverged"], counts["complete"] + counts["diverged"]
    if not gone:
        most = format_percent(largest_chance(n, forecast.level), signed=False)
        return (
            f"None of the {n} runs diverged; at {format_level(forecast.level)} that leaves a "
            f"chance of at most {most} for one more like them."
        )
    seen = f"{gone} of {n} runs diverged"
    model = forecast.divergence
    if model is None or set(tuned) != set(model.tuned):
        return f"{seen}."
    chance = model.chance(size, tuned)
    words = "less than 0.1 %" if chance < 5e-4 else format_percent(chance, signed=False)
    sentence = (
        f"{seen}; from these, a run of {name_size(size)} at {name_tuned(tuned)} diverges with a "
        f"chance of {words.replace(' %', NBSP + '%')}"
    )
    limits = _thresholds(model, size, tuned)
    return f"{sentence}{', ' + limits if limits else ''} (logistic regression on logarithms)."


def _thresholds(
    model: DivergenceModel, size: Mapping[str, float], tuned: Mapping[str, float]
) -> str:
    """Where one in ten and one in two diverge, in the column on which divergence depends most."""
    weights = dict(zip(model.tuned, model.weights[len(model.columns) :], strict=True))
    name = max(weights, key=lambda column: abs(weights[column]))
    found = [model.threshold(size, tuned, name, chance) for chance in CHANCES]
    known = [v for v in found if v is not None]
    if len(known) < len(found) or any(abs(math.log2(v / tuned[name])) > FARTHEST for v in known):
        return ""
    parts = (
        f"{format_level(c)} at {format_quantity(v)}" for c, v in zip(CHANCES, known, strict=True)
    )
    return f"rising to {' and '.join(parts)} as {name} {'rises' if weights[name] > 0 else 'falls'}"
