"""How likely runs diverge, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from extrap.fitting import largest_chance
from extrap.forecasting import Forecast
from extrap.records.numbers import (
    NBSP,
    format_level,
    format_percent,
    name_size,
    name_tuned,
)


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
    return (
        f"{seen}; from these, a run of {name_size(size)} at {name_tuned(tuned)} diverges with a "
        f"chance of {words.replace(' %', NBSP + '%')} (logistic regression on logarithms)."
    )
