"""Is a larger run on the law, and if not, why?

The cause is looked for in a fixed order: instability, mistuned, recipe, data, batch, law, unknown.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting import LossPrediction
from extrap.forecasting import Forecast
from extrap.records import Interval, Runs, Verdict, condition_text

__all__ = ["check"]

IRRELEVANT = 0.005
"""A deviation below this fraction is no alarm, however significant."""
MISTUNED_OCTAVES = 0.5
"""A value closer than this to the forecast, or inside its interval, is tuned."""
MISTUNED_SHARE = 0.5
"""Mistuning is the cause if it explains at least this share of the log excess."""
REPEATED_EPOCHS = 4.0
"""Repeating data more often than this costs loss (Muennighoff et al. 2023, arXiv 2305.16264)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One run beside its forecast; deviation and excess (the cost of mistuning) in log loss."""

    row: Mapping[str, Any]
    size: Mapping[str, float]
    tuned: Mapping[str, float | None]
    prediction: LossPrediction
    excess: float | None
    log_deviation: float | None
    p_value: float | None


def check(forecast: Forecast, runs: Runs) -> tuple[Verdict, ...]:
    """Judge every run against the forecast of its size.

    A run deviates when its loss lies outside the predictive distribution (laws, noise, structural
    discrepancy; Holm's correction over all judged runs at level `1 − forecast.level`) and is off
    by more than half a percent. Both directions count.

    Args:
        forecast: The forecast.
        runs: Runs with the forecast's size and tuned columns, whatever their stage; every row
            gets a verdict, and those without a final loss or below the sweep's sizes an open one.

    Returns:
        One verdict a row, in row order.

    Raises:
        TypeError: `runs` are not `Runs`.
        DataError: A size or tuned column is missing, or the forecast has no point estimate to
            hold a run against.
    """
    if not isinstance(runs, Runs):
        raise TypeError(f"a check needs Runs, got {type(runs).__name__}; use extrap.read_runs.")
    if set(runs.sizes) != set(forecast.runs.sizes):
        raise DataError(
            f"the runs must have the forecast's size column(s) {', '.join(forecast.runs.sizes)}, "
            f"got {', '.join(runs.sizes)}; read them with the same size=…."
        )
    recipe = _sweep_recipe(forecast.runs)
    rows = runs.to_frame().to_dict("records")
    held = [_hold(forecast, row) for row in rows]
    flagged = _holm([h.p_value for h in held], 1 - forecast.level)
    verdicts = [
        _judge(forecast, h, significant=flag, recipe=recipe)
        for h, flag in zip(held, flagged, strict=True)
    ]
    return _replicated(verdicts)


def _hold(forecast: Forecast, row: Mapping[str, Any]) -> _Held:
    size = {c: float(row[c]) for c in forecast.runs.sizes}
    tuned = {name: _known(row.get(name)) for name in forecast.runs.tuned}
    prediction = forecast.predict_loss(size)
    if prediction is None:
        where = ", ".join(f"{c}={v:g}" for c, v in size.items())
        raise DataError(
            f"the forecast has no loss to hold a run at {where} against "
            f"({'; '.join(forecast.flags)}); extend the sweep first."
        )
    known = {name: value for name, value in tuned.items() if value is not None}
    excess = forecast.predict_excess(size, known) if len(known) == len(tuned) else None
    deviation = p_value = None
    if row["status"] == "complete":
        deviation = math.log(row["loss"]) - prediction.log_loss
        p_value = prediction.p_value(row["loss"])
    return _Held(
        row=row,
        size=size,
        tuned=tuned,
        prediction=prediction,
        excess=excess if tuned else 0.0,
        log_deviation=deviation,
        p_value=p_value,
    )


def _judge(
    forecast: Forecast, held: _Held, *, significant: bool, recipe: Mapping[str, str]
) -> Verdict:
    prediction, row = held.prediction, held.row
    predicted = math.exp(prediction.log_loss)
    deviation = None if held.log_deviation is None else math.expm1(held.log_deviation)
    off = row["status"] == "diverged" or (
        deviation is not None and significant and abs(deviation) > IRRELEVANT
    )
    unjudged = _why_unjudged(forecast, held)
    cause, advice = (
        _explain(forecast, held, deviates=off, recipe=recipe)
        if unjudged is None
        else (None, unjudged)
    )
    return Verdict(
        size=held.size,
        tuned=held.tuned,
        seed=row["seed"],
        loss=None if deviation is None else float(row["loss"]),
        status=row["status"],
        predicted=predicted,
        predicted_pi=prediction.interval(forecast.level, new_run=True),
        expected=None if held.excess is None else predicted * math.exp(held.excess),
        on_law=None if unjudged else not off,
        deviation=deviation,
        p_value=held.p_value,
        cause=cause,
        advice=advice,
    )


def _why_unjudged(forecast: Forecast, held: _Held) -> str | None:
    """Why nothing can be said of a run, or None."""
    if held.row["status"] in ("pruned", "failed"):
        return f"The run is {held.row['status']} and has no final loss: nothing can be said yet."
    for column, value in held.size.items():
        smallest = min(optimum.size[column] for optimum in forecast.optima)
        if value < smallest:
            return (
                f"{column} {value:g} lies below the smallest tuned one, {smallest:g}, and laws "
                "are not extrapolated downwards: nothing can be said."
            )
    return None


def _explain(
    forecast: Forecast, held: _Held, *, deviates: bool, recipe: Mapping[str, str]
) -> tuple[str | None, str]:
    """Cause and advice of one run, in the documented order."""
    row, status = held.row, held.row["status"]
    if status == "diverged":
        return "instability", (
            "The run diverged: lower the learning rate or lengthen the warm-up, and look at the "
            f"gradient norm before the step where it broke.{_rate_hint(forecast, held)}"
        )
    differing = [
        f"{name} {value} instead of {recipe[name]}" for name, value in _differs(row, recipe)
    ]
    if not deviates:
        if differing:
            return "recipe", (
                f"The loss agrees with the law, but the recipe differs ({'; '.join(differing)}): "
                "the forecast speaks of the sweep's recipe only."
            )
        return None, "On the law: nothing to do."
    assert held.log_deviation is not None
    if held.log_deviation > 0 and _is_mistuned(forecast, held):
        return "mistuned", _mistuned_advice(forecast, held)
    if differing:
        return "recipe", (
            f"The recipe differs from the sweep's ({'; '.join(differing)}): run one small size "
            "with it, or repeat this run with the sweep's recipe."
        )
    if held.log_deviation > 0 and _repeats_data(forecast.runs, row):
        return "data", (
            f"The run saw its data {row['epochs']:g} times, more often than the sweep: expect "
            "less from each repetition, or add data."
        )
    if held.log_deviation > 0 and _above_noise_scale(row):
        return "batch", (
            f"The batch of {row['batch_size']:g} exceeds the noise scale {row['noise_scale']:g}: "
            "a smaller batch reaches this loss with less data."
        )
    direction = "worse" if held.log_deviation > 0 else "better"
    return "unknown", (
        f"The run is {direction} than the law and nothing recorded explains it: repeat it with "
        "another seed; if it stays, the law itself may bend here."
    )


def _is_mistuned(forecast: Forecast, held: _Held) -> bool:
    octaves = _octaves(forecast, held)
    if held.excess is None or not octaves or held.log_deviation is None:
        return False
    expected = forecast.predict_tuned(held.size)
    far = any(
        abs(u) >= MISTUNED_OCTAVES and held.tuned[name] not in expected[name].pi
        for name, u in octaves.items()
    )
    return far and held.excess >= MISTUNED_SHARE * held.log_deviation


def _mistuned_advice(forecast: Forecast, held: _Held) -> str:
    name, u = max(_octaves(forecast, held).items(), key=lambda item: abs(item[1]))
    estimate = forecast.predict_tuned(held.size)[name]
    assert held.excess is not None
    assert held.log_deviation is not None
    direction = "high" if u > 0 else "low"
    share = min(held.excess / held.log_deviation, 1.0)
    return (
        f"{name} {held.tuned[name]:.3g} is {abs(u):.1f} octaves too {direction} and explains "
        f"about {share:.0%} of the excess: use {estimate.value:.3g} ({_range(estimate.pi)}) and "
        f"expect a loss of {math.exp(held.prediction.log_loss):.4g}."
    )


def _octaves(forecast: Forecast, held: _Held) -> dict[str, float]:
    """Distance of each tuned value from its forecast, in octaves; empty if any is unknown."""
    if held.excess is None or not held.tuned:
        return {}
    centre = forecast.predict_tuned(held.size)
    octaves = {}
    for name, value in held.tuned.items():
        best = centre[name].value
        if value is None or best is None:
            return {}
        octaves[name] = math.log2(value / best)
    return octaves


def _rate_hint(forecast: Forecast, held: _Held) -> str:
    octaves = _octaves(forecast, held)
    high = [
        f"{name} is {u:.1f} octaves above its forecast" for name, u in octaves.items() if u > 0.5
    ]
    return f" {'; '.join(high)}." if high else ""


def _range(interval: Interval) -> str:
    lower = "…" if interval.lower is None else f"{interval.lower:.3g}"
    upper = "…" if interval.upper is None else f"{interval.upper:.3g}"
    return f"{lower} to {upper}"


def _sweep_recipe(sweep: Runs) -> dict[str, str]:
    """The one value of each condition in the sweep, as text."""
    frame = sweep.to_frame()
    return {name: condition_text(frame[name].iloc[0]) for name in sweep.conditions}


def _differs(row: Mapping[str, Any], recipe: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, condition_text(row[name]))
        for name, value in recipe.items()
        if name in row and condition_text(row[name]) != value
    ]


def _known(value: object) -> float | None:
    if value is None or value is pd.NA:
        return None
    number = float(str(value))
    return number if math.isfinite(number) else None


def _repeats_data(sweep: Runs, row: Mapping[str, Any]) -> bool:
    epochs = _known(row.get("epochs"))
    if epochs is None or epochs <= REPEATED_EPOCHS:
        return False
    frame = sweep.to_frame()
    seen = float(frame["epochs"].max()) if "epochs" in frame else 1.0
    return epochs > seen


def _above_noise_scale(row: Mapping[str, Any]) -> bool:
    batch, scale = _known(row.get("batch_size")), _known(row.get("noise_scale"))
    return batch is not None and scale is not None and batch > scale


def _holm(p_values: Sequence[float | None], alpha: float) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects; None is never rejected here.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    known = [i for i, p in enumerate(p_values) if p is not None]
    order = sorted(known, key=lambda i: p_values[i] or 0.0)
    rejected = [False] * len(p_values)
    for rank, i in enumerate(order):
        if (p_values[i] or 0.0) > alpha / (len(order) - rank):
            break
        rejected[i] = True
    return rejected


def _replicated(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """An unexplained deviation that every replicate of a run shares is the law's.

    Replicates are the judged runs of one size and one choice of tuned values.
    """
    groups: dict[object, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.deviation is not None:
            groups[_setting(verdict)].append(verdict)
    bent = {
        setting
        for setting, group in groups.items()
        if len({v.seed for v in group}) > 1
        and all(v.cause == "unknown" for v in group)
        and len({np.sign(v.deviation or 0.0) for v in group}) == 1
    }
    advice = (
        "Several seeds deviate alike and nothing recorded explains it: the law bends here. Add "
        "this size to the sweep, tune it, and fit again."
    )
    return tuple(
        replace(v, cause="law", advice=advice) if _setting(v) in bent else v for v in verdicts
    )


def _setting(verdict: Verdict) -> object:
    return (*verdict.size.items(), *verdict.tuned.items())
