"""Configurations to judge, each beside what the forecast expects of it.

A configuration is all runs of one size, one choice of tuned values and one recipe: they differ in
their seeds, and their mean log loss is one measurement. A run that diverged, whose curve
spiked or turned up, or whose seed is not known is one by itself, and so is a replicate that
disagrees with the others by far more than seeds do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from extrap.checking.spikes import Spike, climbs_steadily, find_spike
from extrap.errors import DataError
from extrap.fitting import NEW_SEED, LossPrediction, MeanNoise
from extrap.fitting.distributions import t_quantile
from extrap.fitting.spread import predict_optimum
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.reading.columns import find_column
from extrap.records import WITHOUT_SEED, Estimate, Interval, Runs, condition_text

FARTHEST = 100.0
"""Octaves beyond which a distance no longer matters."""
PART_OF_RECIPE = ("epochs", "batch_size")
"""Columns that tell two configurations apart though nobody declared them a condition."""
MANY_RUNS = 256
"""Of one size, from which on like distances from the optimum are priced once."""
DISAGREE_P, DISAGREE = 0.001, 0.01
"""Replicates are no replicates where noise explains their difference no better than this, and it
is larger than this log loss."""
MANY = 1e12
"""Degrees of freedom of a normal distribution, near enough."""
NOISIER = 0.05
"""Log excess at which the noise of runs is twice that at the optimum, see `docs/methods.md`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One configuration beside its forecast.

    Attributes:
        row: Its first run as it was given.
        members: Numbers of the rows it is made of.
        seeds: One per distinct loss; runs that agree to the last digit are one.
        size: Size column → value.
        tuned: Tuned column → value; None where it is not known.
        expected: Tuned column → the forecast of its optimum here.
        recommended: Tuned column → the value to use here.
        extrapolation_ratio: How many times larger its size is than those fitted.
        log_loss: Of the forecast, before anything is known of the seeds.
        law: Predictive distribution of its mean log loss at the optimum.
        prediction: The same at the forecast's values, with what they may cost.
        predicted_pi: Its interval at the forecast's level, which of one new run is the sealed one.
        octaves: log2(value / optimum), one per tuned column; empty where one is unknown.
        excess: What being so far off costs, in log loss, if the optimum is where the forecast has
            it; None where unknown.
        cost: What its values are expected to cost over where the optimum may lie, in log loss.
        log_deviation: Mean of log(observed / predicted); None without a loss.
        off_replicates: How far it is from its replicates, in log loss, where it differs from
            them by more than noise and is farther from the law; else None.
        differing: Condition → (own, the sweep's), where they differ.
        spike: The worst spike of its curve, if it has one.
        off_before_spike: How far its curve was off the reference before that, in log loss; None
            where there is no reference.
        overfits: Whether its curve turns up and climbs steadily.
        refusal: Why the forecast gives no loss at its size; empty where it does.
    """

    row: Mapping[str, Any]
    members: tuple[int, ...]
    seeds: tuple[object, ...]
    size: Mapping[str, float]
    tuned: Mapping[str, float | None]
    expected: Mapping[str, Estimate]
    recommended: Mapping[str, float | None]
    extrapolation_ratio: float
    log_loss: float
    law: LossPrediction
    prediction: LossPrediction
    predicted_pi: Interval
    octaves: tuple[float, ...]
    excess: float | None
    cost: float
    log_deviation: float | None
    off_replicates: float | None
    differing: Mapping[str, tuple[str, str]]
    spike: Spike | None
    off_before_spike: float | None
    overfits: bool
    refusal: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is known that sets it apart from the sweep's runs but tuned values."""
        return (
            self.excess is not None
            and self.log_deviation is not None
            and self.off_replicates is None
            and not self.differing
            and self.spike is None
        )

    @property
    def recommended_octaves(self) -> tuple[float, ...]:
        """log2(recommended / optimum), one per tuned column; 0 where one of them is not known."""
        pairs = [(self.recommended[name], best.value) for name, best in self.expected.items()]
        return tuple(math.log2(own / best) if own and best else 0.0 for own, best in pairs)

    @property
    def key(self) -> tuple[float, ...]:
        """Its size, to sort by."""
        return tuple(self.size.values())


def build_cases(forecast: Forecast, runs: Runs) -> list[Case]:
    """One case per configuration, in the order of their first rows.

    Raises:
        DataError: The forecast predicts no loss at a run's size.
    """
    recipe = _sweep_recipe(forecast.runs)
    spikes, climbing = _shapes(runs, forecast)
    frame = runs.to_frame()
    spelled = {find_column(name, list(frame), runs.source): name for name in recipe}
    frame = frame.rename(columns=spelled)
    settings = dict.fromkeys([*forecast.runs.tuned, *recipe, *runs.conditions, *PART_OF_RECIPE])
    parts = [_texts(frame, name) for name in settings]
    frame = frame.assign(**{CONFIGURATION: list(zip(*parts, strict=True)) or ()})
    cases: list[Case] = []
    for key, group in frame.groupby(list(runs.sizes), sort=False):
        here = _AtSize.of(forecast, dict(zip(runs.sizes, map(float, key), strict=True)))
        octaves = _octaves(group, here.expected)
        excess, costs = _excess(forecast, octaves, here.size), here.costs(octaves)
        place = {int(row): i for i, row in enumerate(group.index)}
        rows = dict(zip(map(int, group.index), group.to_dict("records"), strict=True))
        for members in _configurations(group, {*spikes, *climbing}):
            i = place[members[0]]
            known = bool(np.isfinite(octaves[i]).all())
            cost = float(excess[i]) if known and np.isfinite(excess[i]) else None
            spike = spikes.get(members[0])
            for part, apart in _apart(here, [(m, rows[m]) for m in members], cost or 0.0):
                seeds, off = _distinct(here, [rows[m] for m in part])
                law, prediction, interval = here.of_seeds(seeds or (NEW_SEED,))
                row = rows[part[0]]
                cases.append(
                    Case(
                        row=row,
                        members=tuple(part),
                        seeds=seeds,
                        size=here.size,
                        tuned={name: known_number(row.get(name)) for name in here.expected},
                        expected=here.expected,
                        recommended=here.recommended,
                        extrapolation_ratio=here.ratio,
                        log_loss=here.log_loss,
                        law=law,
                        prediction=prediction,
                        predicted_pi=interval,
                        octaves=tuple(map(float, octaves[i])) if known else (),
                        excess=cost,
                        cost=float(costs[i]) if cost is not None else 0.0,
                        log_deviation=off,
                        off_replicates=apart,
                        differing=_differing(row, recipe),
                        spike=spike,
                        off_before_spike=_off_before(forecast, spike, here.log_loss),
                        overfits=part[0] in climbing,
                        refusal=here.refusal,
                    )
                )
    return sorted(cases, key=lambda case: case.members[0])


CONFIGURATION = "_configuration"


class _AtSize:
    """What the forecast says at one size, and of every choice of seeds there."""

    def __init__(
        self, forecast: Forecast, size: Mapping[str, float], prediction: LossPrediction
    ) -> None:
        self.forecast, self.size, self.log_loss = forecast, size, prediction.log_loss
        point = forecast.point(size)
        self.expected, self.recommended = point.tuned, point.recommended
        self.ratio = forecast.extrapolation_ratio(size)
        self.refusal = point.refusals.get("loss", "")
        self._known: dict[MeanNoise, tuple[LossPrediction, LossPrediction, Interval]] = {}

    @classmethod
    def of(cls, forecast: Forecast, size: Mapping[str, float]) -> _AtSize:
        """Raises a DataError where the forecast predicts no loss."""
        prediction = forecast.predict_loss(size, refuse=False)
        if prediction is None:
            where = ", ".join(f"{c}={v:g}" for c, v in size.items())
            raise DataError(
                f"a check needs a predicted loss, the forecast has none at {where} "
                f"({'; '.join(forecast.flags)}); extend the sweep first."
            )
        return cls(forecast, size, prediction)

    def costs(self, octaves: Array) -> Array:
        """Expected log excesses at distances from the forecast's values, shape (n_runs,)."""
        laws = {name: fit for name, fit in self.forecast.tuned_laws.items() if fit is not None}
        if self.forecast.excess_curve is None or set(laws) != set(self.expected) or not laws:
            return np.zeros(len(octaves))
        spread = predict_optimum(laws, self.size, self.forecast.excess_curve)
        distances = np.nan_to_num(octaves)
        if len(distances) > MANY_RUNS:  # a thousandth of an octave costs nothing
            distances = np.round(distances, 3)
        distinct, own = np.unique(distances, axis=0, return_inverse=True)
        found = [spread.mean_excess(each) for each in distinct]
        return np.array(found)[own.ravel()]

    def of_seeds(self, seeds: Sequence[object]) -> tuple[LossPrediction, LossPrediction, Interval]:
        """Of the mean of runs with these seeds: at the optimum, at the forecast's values."""
        key = self.forecast.noise.of_mean(seeds)
        if key not in self._known:
            law = self.forecast.predict_loss(self.size, seeds=seeds, refuse=False)
            assert law is not None
            found = self.forecast.as_run(law, self.size)
            self._known[key] = law, found, found.interval(self.forecast.level, new_run=True)
        return self._known[key]


def known_number(value: object) -> float | None:
    """A finite number, or None for whatever else a cell may hold."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _texts(frame: pd.DataFrame, name: str) -> list[str]:
    """A column as text, which distinguishes configurations; empty where it is missing."""
    if name not in frame:
        return [""] * len(frame)
    return [condition_text(value) for value in frame[name]]


def _configurations(group: pd.DataFrame, alone: set[int]) -> Iterable[list[int]]:
    """The rows of each configuration of one size; some rows stand alone."""
    keys: dict[tuple[object, ...], list[int]] = {}
    for row, status, seed, key in zip(
        group.index, group["status"], group["seed"], group[CONFIGURATION], strict=True
    ):
        is_alone = int(row) in alone or str(seed).startswith(WITHOUT_SEED)
        own = int(row) if is_alone else None
        keys.setdefault((status, own, key), []).append(int(row))
    return keys.values()


def _distinct(
    here: _AtSize, rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[object, ...], float | None]:
    """The seeds of the runs that count, and their mean log deviation; without a loss none does.

    Where all losses agree to the last digit they are one run, however often it is listed.
    """
    runs = {(row["seed"], row["loss"]) for row in rows if row["status"] == "complete"}
    if not runs:
        return (), None
    mean = float(np.mean([math.log(loss) for _, loss in sorted(runs, key=str)]))
    seeds = tuple(seed for seed, _ in sorted(runs, key=str))
    is_one = len({loss for _, loss in runs}) == 1
    return seeds[: 1 if is_one else None], mean - here.log_loss


def _apart(
    here: _AtSize, rows: Sequence[tuple[int, Mapping[str, Any]]], cost: float
) -> Iterable[tuple[list[int], float | None]]:
    """Replicates that agree within noise as one part, and each of the others by itself.

    They fall into groups where they differ by more than noise; the largest group, of equal ones
    the nearest to the law, are the replicates. One that is farther from the law than these is
    off; its distance from the nearest of them is told.
    """
    members = [m for m, _ in rows]
    complete = [(m, math.log(row["loss"])) for m, row in rows if row["status"] == "complete"]
    noise = here.of_seeds((NEW_SEED,))[0].run
    dof = min(known for _, known in noise)
    if len(complete) < 2 or not dof > 0:
        return [(members, None)]
    quantile = -float(t_quantile(DISAGREE_P / 2 / (len(complete) - 1), min(dof, MANY)))
    sd = math.sqrt(2 * sum(variance for variance, _ in noise))
    bound = max(quantile * sd * (1 + cost / NOISIER), DISAGREE)
    off = np.array([log_loss for _, log_loss in complete]) - here.log_loss - cost
    order = np.argsort(off, kind="stable")
    cuts = np.flatnonzero(np.diff(off[order]) > bound) + 1
    parts = np.split(order, cuts)
    kept = min(parts, key=lambda part: (-len(part), abs(float(off[part].mean()))))
    center = float(off[kept].mean())
    wild = {}
    for i in set(range(len(off))) - set(kept.tolist()):
        apart = off[i] - off[kept][np.argmin(np.abs(off[kept] - off[i]))]
        wild[complete[i][0]] = float(apart) if abs(off[i]) > abs(center) else None
    rest = [m for m in members if m not in wild]
    return [(rest, None), *(([m], apart) for m, apart in wild.items())]


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
    if forecast.excess_curve is None:
        return np.full(len(octaves), math.nan)
    return forecast.excess_curve.excesses(octaves, size)


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
