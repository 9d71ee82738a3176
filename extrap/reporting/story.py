"""The story in words: how far each law is off."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.forecasting import Forecast
from extrap.reporting.answer import AnswerRow, loss_at_values
from extrap.reporting.figures import FIXED_SPAN, FixedLaw
from extrap.reporting.groups import RunGroup, group_near
from extrap.reporting.numbers import (
    NBSP,
    compared,
    format_estimate,
    format_percent,
    format_value,
    name_size,
    name_tuned,
)

__all__ = ["fixed_law_sentences"]


def fixed_law_sentences(
    forecast: Forecast, row: AnswerRow, groups: Sequence[RunGroup], fixed: FixedLaw
) -> list[str]:
    """How far off the law at fixed values and the law of the optimum are at one size."""
    fitted = fixed.points[fixed.points["fitted"]]
    residual = max(
        abs(loss / fixed.at({fixed.fit.columns[0]: x}) - 1)
        for x, loss in zip(fitted["x"], fitted["loss"], strict=True)
    )
    predicted = fixed.at(row.size)
    sentences = [
        "Metz' way: keep what was tuned at the smallest size, look at the sizes up to "
        f"{FIXED_SPAN:g} times that, and trust the line. The dashed law was fitted to those "
        f"{len(fitted)} sizes at {name_tuned(fixed.tuned)}, the sweep's nearest value, and misses "
        f"none of them by more than {format_percent(residual, signed=False)}.",
    ]
    beyond = fixed.points[~fixed.points["fitted"]]
    if len(beyond):
        x, loss = beyond.iloc[-1][["x", "loss"]]
        left = float(loss) / fixed.at({fixed.fit.columns[0]: float(x)}) - 1
        sentences.append(
            f"At the sweep's largest size, which it was not fitted to, the loss is already "
            f"{compared(left)} it."
        )
    kept = group_near(groups, row.size, fixed.tuned)
    if kept is not None and kept.mean_loss is not None:
        off = kept.mean_loss / predicted - 1
        seen = format_value(kept.mean_loss, kept.loss_se(forecast.noise.log_sd))
        sentences.append(
            f"At {name_size(row.size)} it promises {format_value(predicted)}; the runs at "
            f"{name_tuned(kept.tuned)} reached {seen}, {compared(off)} it."
        )
    else:
        sentences.append(f"At {name_size(row.size)} it promises {format_value(predicted)}.")
    if row.error is not None and row.observed is not None:
        sentences.append(
            "The law of the optimum promises "
            f"{format_estimate(row.point.loss, row.point.loss_pi)} there; the runs at its tuned "
            f"values reached {format_value(row.observed, row.observed_se)}, "
            f"{compared(row.error)} it."
        )
    kept_there = loss_at_values(forecast, row.size, fixed.tuned)
    if kept_there is not None:
        expected, interval = kept_there
        level = f"{100 * forecast.level:g}{NBSP}%"
        sentences.append(
            "The dotted curve adds to the law of the optimum what the sweep says a mistuned value "
            "costs, wherever the optimum may lie: before any larger run it puts the loss there at "
            f"{format_estimate(expected, interval)}, {compared(expected / predicted - 1)} the "
            f"dashed law; lightly shaded, its {level} interval."
        )
    return sentences
