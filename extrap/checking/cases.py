"""Every run to judge beside what the forecast expects of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from extrap.checking.spikes import Spike, climbs_steadily, find_spike
from extrap.errors import DataError
from extrap.fitting import LossPrediction
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, Runs, condition_text

__all__ = ["Case", "build_cases", "known_number"]

FARTHEST = 100.0
"""Octaves beyond which a distance no longer matters."""
DRAWS = 512
"""Draws of where the optimum may lie, for what not knowing it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run beside its forecast.

    Attributes:
        row: The run as it was given.
        size: Size column → value.
        tuned: Tuned column → value; None where it is not known.
        expected: Tuned column → the forecast of its optimum here.
        extrapolation_ratio: How many times larger its size is than those fitted.
        prediction: Of the log loss of a run at the forecast's values.
        predicted_pi: Its interval at the forecast's level.
        octaves: log2(value / optimum), one a tuned column; empty where one is unknown.
        excess: What being so far off is expected to cost, in log loss; None where unknown.
        log_deviation: Log of observed / predicted; None without a loss.
        differing: Condition → (own, the sweep's), where they differ.
        spike: The worst spike of its curve, if it has one.
        off_before_spike: How far its curve was off the reference before that, in log loss; None
            where there is no reference.
        overfits: Whether its curve turns up and climbs steadily.
    """

    row: Mapping[str, Any]
    size: Mapping[str, float]
    tuned: Mapping[str, float | None]
    expected: Mapping[str, Estimate]
    extrapolation_ratio: float
    prediction: LossPrediction
    predicted_pi: Interval
    octaves: tuple[float, ...]
    excess: float | None
    log_deviation: float | None
    differing: Mapping[str, tuple[str, str]]
    spike: Spike | None
    off_before_spike: float | None
    overfits: bool

    @property
    def is_plain(self) -> bool:
        """Whether nothing is known that sets it apart from the sweep's runs but tuned values."""
        return (
            self.excess is not None
            and self.log_deviation is not None
            and not self.differing
            and self.spike is None
        )


def build_cases(forecast: Forecast, runs: Runs) -> list[Case]:
    """One case a row, in row order.

    Raises:
        DataError: The forecast has no loss to hold a run against.
    """
    recipe = _sweep_recipe(forecast.runs)
    spikes, climbing = _shapes(runs, forecast)
    frame = runs.to_frame()
    cases: dict[int, Case] = {}
    for key, group in frame.groupby(list(runs.sizes), sort=False):
        size = dict(zip(runs.sizes, map(float, key), strict=True))
        prediction, expected = _predict(forecast, size), forecast.predict_tuned(size)
        predicted_pi = prediction.interval(forecast.level, new_run=True)
        octaves = _octaves(group, expected)
        excess, ratio = _excess(forecast, octaves, size), forecast.extrapolation_ratio(size)
        for i, row in enumerate(group.to_dict("records")):
            loss = row["loss"] if row["status"] == "complete" else None
            known = bool(np.isfinite(octaves[i]).all())
            cases[int(group.index[i])] = Case(
                row=row,
                size=size,
                tuned={name: known_number(row.get(name)) for name in expected},
                expected=expected,
                extrapolation_ratio=ratio,
                prediction=prediction,
                predicted_pi=predicted_pi,
                octaves=tuple(map(float, octaves[i])) if known else (),
                excess=float(excess[i]) if known and np.isfinite(excess[i]) else None,
                log_deviation=None if loss is None else math.log(loss) - prediction.log_loss,
                differing=_differing(row, recipe),
                spike=(spike := spikes.get(int(group.index[i]))),
                off_before_spike=_off_before(forecast, spike, prediction.log_loss),
                overfits=int(group.index[i]) in climbing,
            )
    return [cases[i] for i in range(len(frame))]


def known_number(value: object) -> float | None:
    """A finite number, or None for whatever else a cell may hold."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _predict(forecast: Forecast, size: Mapping[str, float]) -> LossPrediction:
    """The forecast of a run at the forecast's tuned values, which may not be the best ones."""
    prediction = forecast.predict_loss(size)
    if prediction is None:
        where = ", ".join(f"{c}={v:g}" for c, v in size.items())
        raise DataError(
            f"the forecast has no loss to hold a run at {where} against "
            f"({'; '.join(forecast.flags)}); extend the sweep first."
        )
    fits = [fit for fit in forecast.tuned_laws.values() if fit is not None]
    if forecast.valley is None or not fits or len(fits) < len(forecast.tuned_laws):
        return prediction
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((DRAWS, len(fits)))
    spread = [forecast.octave_sd(name, size) for name in forecast.runs.tuned]
    cost = forecast.valley.excesses(draws * spread, size)
    dof = min(fit.dof for fit in fits)
    return replace(prediction, curve=(*prediction.curve, (float(np.mean(cost**2)), dof)))


def _octaves(group: pd.DataFrame, expected: Mapping[str, Estimate]) -> Array:
    """log2(value / optimum), shape (n_runs, n_tuned); NaN where one is unknown."""
    columns = []
    for name, estimate in expected.items():
        values = [known_number(v) or math.nan for v in group.get(name, [math.nan] * len(group))]
        best = estimate.value or math.nan
        known = np.array([v if v > 0 else math.nan for v in values])
        columns.append(np.clip(np.log2(known) - math.log2(best), -FARTHEST, FARTHEST))
    return np.column_stack(columns) if columns else np.zeros((len(group), 0))


def _excess(forecast: Forecast, octaves: Array, size: Mapping[str, float]) -> Array:
    if not forecast.runs.tuned:
        return np.zeros(len(octaves))
    if forecast.valley is None:
        return np.full(len(octaves), math.nan)
    return forecast.valley.excesses(octaves, size)


def _sweep_recipe(sweep: Runs) -> dict[str, str]:
    """The one value of each condition in the sweep, as text."""
    frame = sweep.to_frame()
    return {name: condition_text(frame[name].iloc[0]) for name in sweep.conditions}


def _differing(row: Mapping[str, Any], recipe: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    own = {name: condition_text(row[name]) for name in recipe if name in row}
    return {name: (text, recipe[name]) for name, text in own.items() if text != recipe[name]}


def _off_before(forecast: Forecast, spike: Spike | None, log_loss: float) -> float | None:
    """How far a curve was off the reference curves just before its spike."""
    if spike is None or forecast.curves is None or not math.isfinite(spike.before):
        return None
    return spike.before - forecast.curves.mean_at(spike.fraction, log_loss)


def _shapes(runs: Runs, forecast: Forecast) -> tuple[dict[int, Spike], set[int]]:
    """Row → its worst spike; rows whose curve climbs steadily after its minimum."""
    curves = runs.curves()
    spikes: dict[int, Spike] = {}
    climbing: set[int] = set()
    length = (forecast.curves and forecast.curves.total_steps) or 0.0
    for run, curve in [] if curves is None else curves.groupby("run"):
        step, loss = curve["step"].to_numpy(float), curve["loss"].to_numpy(float)
        spike = find_spike(step, loss, length=length)
        if spike is not None:
            spikes[int(run)] = spike
        if climbs_steadily(step, loss):
            climbing.add(int(run))
    return spikes, climbing
