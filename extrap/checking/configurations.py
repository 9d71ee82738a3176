"""Configurations: runs that differ in their seed alone, beside what the forecast expects of them.

The runs of a configuration share size, tuned values and recipe; their mean log loss is one
measurement. A run that diverged, whose curve spiked or turned up, or whose seed is not known is a
configuration by itself, and so is a replicate that disagrees with the others by far more than
seeds do.

Distances of tuned values are in octaves, factors of two; a tuned run is one at the values that the
forecast recommends. What mistuned values cost in log loss stands three times: `excess` if the
optimum lies where the forecast has it, `expected_cost` on average over where it may lie, and
`tuned_cost.mean` on average once the losses are known.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extrap.checking.spikes import Spike, climbs_steadily, find_spike
from extrap.errors import DataError
from extrap.fitting.distributions import t_quantile
from extrap.fitting.prediction import NORMAL_DOF, LossPrediction
from extrap.fitting.seed_noise import NEW_SEED, MeanNoise
from extrap.forecasting import Forecast
from extrap.forecasting.settings import names_horizon
from extrap.reading.columns import find_column
from extrap.reading.names import kind_of
from extrap.records import WITHOUT_SEED, Interval, Point, Runs, condition_text
from extrap.records.settings import Setting

MAX_OCTAVES = 100.0
"""Distances of tuned values from an optimum are cut here."""
RECIPE_COLUMNS = ("epochs", "batch_size")
"""Columns that tell two configurations apart though nobody declared them a condition."""
MAX_EXACT_COSTS = 256
"""Runs or configurations of one size whose costs are computed one by one; of more, distances are
rounded, to a thousandth of an octave here and to a hundredth in `tuned_costs`."""
OUTLIER_P, LEAST_OUTLIER_DISTANCE = 0.001, 0.01
"""A replicate is split off where noise explains its distance with a probability below this, and
the distance exceeds this log loss."""
DOUBLE_NOISE_EXCESS = 0.05
"""Log excess at which the noise of runs is twice that at the optimum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCost:
    """Cost of the tuned values of a configuration, given the losses of its size.

    Attributes:
        chance: Probability that they cost more than half a percent, and more than the recommended
            ones.
        mean: Mean cost, in log loss.
        p_value: Two-sided, of its loss, by what was expected at its own values before the losses
            were known; None without a loss.
        p_above: Of a loss as high as its own or higher, on a scale on which the upper end of
            `expected_pi` has 1 − level.
        expected_pi: Interval of its loss at its own values, at the forecast's level. Its lower end
            is that of a tuned run, its upper end lies higher.
    """

    chance: float
    mean: float
    p_value: float | None
    p_above: float
    expected_pi: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Cause of a configuration's verdict, in numbers; `extrap.analyses.sweep.advice` words it.

    Attributes:
        code: Of an alarm `diverged`, `spiked`, `mistuned`, `recipe`, `data`, `batch`, `law`,
            `unknown` or a unit, `in-bits`, `in-nats`, `in-perplexity`. Of no alarm
            `other-recipe`, `recovered`, `elsewhere`, `far` or what `causes.standing` says of the
            loss. Of a configuration that is not judged, `Configuration.unjudged`.
        cause: Why it is off the law, or what sets it apart, as in `Verdict.cause`.
        evidence: The numbers behind it, as in `Verdict.evidence`.
        column: The tuned column that is mistuned.
        size: The size at which a law that was fitted again is compared with the forecast.
    """

    code: str
    cause: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    column: str = ""
    size: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Runs that differ in their seed alone, what is expected of them and what they say.

    Attributes:
        rows: Row number → the run as it was given.
        seeds: One per distinct loss; runs that agree to the last digit are one.
        tuned: Tuned column → value; None where it is not known.
        differing: Condition → (own, the sweep's), where they differ.
        log_deviation: Mean of log(observed / predicted); None without a loss.
        distance_from_replicates: Its log loss less that of the nearest replicate, where it differs
            from them by more than noise and is farther from the law; else None.
        spike: The worst spike of its curve, if it has one.
        deviation_before_spike: Its log loss just before the spike less that of the reference
            curve; None without a spike or reference.
        overfits: Whether its curve turns up and climbs steadily.
        forecast: What it is compared with.
        point: The forecast at its size.
        predicted_log_loss: By the forecast, before anything is known of the seeds; also where the
            loss is refused.
        prediction: Predictive distribution of its mean log loss at the recommended values.
        predicted_pi: Interval of that at the forecast's level: of one run with a new seed the
            interval that was sealed. Open below with one-sided tests.
        octaves: log2(value / optimum), one per tuned column; empty where one is unknown.
        excess: Cost of its tuned values if the optimum lies where the forecast has it; None where
            a value is unknown.
        expected_cost: Mean cost of its tuned values over where the optimum may lie.
        unjudged: `failed`, `pruned`, `below-sweep`, `other-horizon` or `loss-refused` where
            nothing can be said of it; else None.
        tuned_cost: What its tuned values cost by the losses; None where that is unknown.
        p_value: Two-sided, of its mean deviation from the law; None where no loss is tested.
        p_adjusted: `p_value` adjusted for the number of configurations (Holm 1979).
        has_loss_alarm: Whether its loss is an alarm.
        is_inside: Whether its loss lies in its prediction interval, or within the tolerance.
        above_tuned: Log loss above the best configuration of its size that is on the law; None
            where there is no other.
        finding: Cause of the verdict; None before causes were looked for.
    """

    rows: Mapping[int, Mapping[str, Any]]
    seeds: tuple[object, ...]
    tuned: Mapping[str, float | None]
    differing: Mapping[str, tuple[str, str]]
    log_deviation: float | None
    distance_from_replicates: float | None
    spike: Spike | None
    deviation_before_spike: float | None
    overfits: bool
    forecast: Forecast
    point: Point
    predicted_log_loss: float
    prediction: LossPrediction
    predicted_pi: Interval
    octaves: tuple[float, ...]
    excess: float | None
    expected_cost: float
    unjudged: str | None = None
    tuned_cost: TunedCost | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    has_loss_alarm: bool = False
    is_inside: bool = False
    above_tuned: float | None = None
    finding: Finding | None = None

    @property
    def row(self) -> Mapping[str, Any]:
        """Its first run."""
        return next(iter(self.rows.values()))

    @property
    def size_key(self) -> tuple[float, ...]:
        """Its size, to group and sort by."""
        return tuple(self.point.size.values())

    @property
    def judged_deviation(self) -> float:
        """`log_deviation`; NaN without a loss, and where the configuration is not judged."""
        if self.log_deviation is None or self.unjudged is not None:
            return math.nan
        return self.log_deviation

    @property
    def deviation_given_seeds(self) -> float:
        """The judged log loss less the one predicted for runs with its seeds."""
        return self.predicted_log_loss + self.judged_deviation - self.prediction.log_loss

    @property
    def is_plain(self) -> bool:
        """Whether nothing is known that sets it apart from the sweep's runs but tuned values."""
        return (
            self.excess is not None
            and not math.isnan(self.judged_deviation)
            and self.distance_from_replicates is None
            and not self.differing
            and self.spike is None
        )


def build_configurations(
    forecast: Forecast, runs: Runs, *, one_sided: bool = False
) -> list[Configuration]:
    """Every configuration, in the order of their first rows.

    Args:
        forecast: What the runs are compared with.
        runs: Runs of its sizes.
        one_sided: Whether tests are one-sided, for worse losses only: intervals are open below.

    Raises:
        DataError: The forecast predicts no loss at a run's size.
    """
    sweep, frame = forecast.runs.to_frame(), runs.to_frame()
    recipe = {name: condition_text(sweep[name].iloc[0]) for name in forecast.runs.conditions}
    condition_of_column = {find_column(name, list(frame), runs.source): name for name in recipe}
    frame = frame.rename(columns=condition_of_column)
    names = (*forecast.runs.tuned, *recipe, *runs.conditions, *RECIPE_COLUMNS)
    columns = [name for name in dict.fromkeys(names) if name in frame]
    shapes, rows = _curve_shapes(runs, forecast), frame.to_dict("records")
    sizes = [tuple(float(row[name]) for name in runs.sizes) for row in rows]
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        is_alone = i in shapes or str(row["seed"]).startswith(WITHOUT_SEED)
        settings = tuple(condition_text(row[name]) for name in columns)
        size = dict(zip(runs.sizes, sizes[i], strict=True))
        horizon = other_horizon(forecast, row, size)
        groups[sizes[i], row["status"], settings, horizon, i if is_alone else None].append(i)
    expected = {
        size: _AtSize(
            forecast, dict(zip(runs.sizes, size, strict=True)), n_runs=n_runs, one_sided=one_sided
        )
        for size, n_runs in Counter(sizes).items()
    }
    configurations = [
        configuration
        for members in groups.values()
        for configuration in _configurations(
            expected[sizes[members[0]]],
            {i: rows[i] for i in members},
            recipe,
            *shapes.get(members[0], (None, False)),
        )
    ]
    return sorted(configurations, key=lambda configuration: min(configuration.rows))


class _AtSize:
    """Predictions of the forecast at one size, for any tuned values and any seeds."""

    def __init__(
        self, forecast: Forecast, size: Mapping[str, float], *, n_runs: int, one_sided: bool
    ) -> None:
        prediction = forecast.predict_loss(size)
        if prediction is None:
            where = ", ".join(f"{c}={v:g}" for c, v in size.items())
            raise DataError(
                f"a check needs a predicted loss, the forecast has none at {where} "
                f"({'; '.join(forecast.flags)}); extend the sweep first."
            )
        self.forecast, self.point = forecast, forecast.point(size)
        self.predicted_log_loss = prediction.log_loss
        self.values = forecast.values_at(size)
        self._is_exact, self._one_sided = n_runs <= MAX_EXACT_COSTS, one_sided
        self._costs: dict[tuple[float, ...], float] = {}
        self._means: dict[MeanNoise, tuple[LossPrediction, Interval]] = {}

    def predict_mean(self, seeds: Sequence[object]) -> tuple[LossPrediction, Interval]:
        """Prediction of the mean log loss of runs with these seeds at the recommended values."""
        key = self.forecast.noise.of_mean(seeds)
        if key not in self._means:
            mean = self.forecast.predict_loss(self.point.size, seeds=seeds)
            assert mean is not None
            prediction = self.forecast.as_run(mean, self.point.size)
            level = self.forecast.level
            self._means[key] = (
                prediction,
                prediction.upper_bound(level)
                if self._one_sided
                else prediction.interval(level, new_run=True),
            )
        return self._means[key]

    def octaves(self, tuned: Mapping[str, float | None]) -> tuple[float, ...]:
        """log2(value / optimum), one per tuned column; empty where one is unknown."""
        pairs = [(tuned[name], best.value) for name, best in self.point.tuned.items()]
        octaves = [
            float(np.log2(value)) - math.log2(best)
            for value, best in pairs
            if value is not None and value > 0 and best is not None
        ]
        if len(octaves) < len(pairs):
            return ()
        return tuple(min(max(u, -MAX_OCTAVES), MAX_OCTAVES) for u in octaves)

    def excess(self, octaves: tuple[float, ...]) -> float | None:
        """Cost in log loss of being so many octaves from the predicted optimum."""
        if not self.point.tuned:
            return 0.0
        if self.values is None or not octaves:
            return None
        values = self.values.optimum + np.array(octaves)
        return float(self.values.typical.excesses(values[None])[0, 0])

    def expected_cost(self, octaves: tuple[float, ...]) -> float:
        """Mean cost over where the optimum may lie; 0 where that is unknown."""
        if self.values is None or not octaves:
            return 0.0
        if not self._is_exact:  # a thousandth of an octave costs nothing
            octaves = tuple(np.round(octaves, 3).tolist())
        if octaves not in self._costs:  # runs without a seed repeat their values
            self._costs[octaves] = float(self.values.excesses_at(np.array(octaves)).mean())
        return self._costs[octaves]


def _configurations(
    expected: _AtSize,
    rows: Mapping[int, Mapping[str, Any]],
    recipe: Mapping[str, str],
    spike: Spike | None,
    overfits: bool,
) -> Iterator[Configuration]:
    """Runs with the same settings: one configuration, or several where replicates disagree."""
    first = next(iter(rows.values()))
    tuned = {name: known_number(first.get(name)) for name in expected.point.tuned}
    octaves = expected.octaves(tuned)
    excess = expected.excess(octaves)
    for part, distance_from_replicates in _by_agreement(expected, rows, excess or 0.0):
        seeds, observed = _mean_of_seeds(part.values())
        prediction, interval = expected.predict_mean(seeds or (NEW_SEED,))
        yield Configuration(
            rows=part,
            seeds=seeds,
            tuned=tuned,
            differing=_differing(first, recipe),
            log_deviation=None if observed is None else observed - expected.predicted_log_loss,
            distance_from_replicates=distance_from_replicates,
            spike=spike,
            deviation_before_spike=_deviation_before(expected, spike),
            overfits=overfits,
            forecast=expected.forecast,
            point=expected.point,
            predicted_log_loss=expected.predicted_log_loss,
            prediction=prediction,
            predicted_pi=interval,
            octaves=octaves,
            excess=excess,
            expected_cost=0.0 if excess is None else expected.expected_cost(octaves),
            unjudged=_why_unjudged(expected, first),
        )


def known_number(value: object) -> float | None:
    """A finite number, or None for whatever else a cell may hold."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _mean_of_seeds(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[tuple[object, ...], float | None]:
    """The seeds of the runs that have a loss, and their mean log loss.

    Where all losses agree to the last digit they are one run, however often it is listed.
    """
    runs = {(row["seed"], row["loss"]) for row in rows if row["status"] == "complete"}
    if not runs:
        return (), None
    ordered = sorted(runs, key=str)
    is_one = len({loss for _, loss in runs}) == 1
    seeds = tuple(seed for seed, _ in ordered[: 1 if is_one else None])
    return seeds, float(np.mean([math.log(loss) for _, loss in ordered]))


def _by_agreement(
    expected: _AtSize, rows: Mapping[int, Mapping[str, Any]], excess: float
) -> Iterable[tuple[dict[int, Mapping[str, Any]], float | None]]:
    """Replicates that agree within noise as one part, and each of the others by itself.

    They fall into groups where they differ by more than noise; the largest group, of equal ones
    the nearest to the law, are the replicates. One that is farther from the law than these has
    its distance from the nearest of them, any other None.
    """
    losses = {
        number: math.log(row["loss"])
        for number, row in rows.items()
        if row["status"] == "complete"
    }
    noise = expected.predict_mean((NEW_SEED,))[0].run
    dof = min(dof for _, dof in noise)
    if len(losses) < 2 or not dof > 0:
        return [(dict(rows), None)]
    # Bonferroni over the gaps between so many losses; the variance of a difference is twice that
    # of a run, and the noise of mistuned runs grows with their excess
    quantile = -float(t_quantile(OUTLIER_P / 2 / (len(losses) - 1), min(dof, NORMAL_DOF)))
    sd = math.sqrt(2 * sum(variance for variance, _ in noise))
    bound = max(quantile * sd * (1 + excess / DOUBLE_NOISE_EXCESS), LEAST_OUTLIER_DISTANCE)
    residuals = np.array(list(losses.values())) - expected.predicted_log_loss - excess
    order = np.argsort(residuals, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(residuals[order]) > bound) + 1)
    replicates = min(groups, key=lambda group: (-len(group), abs(float(residuals[group].mean()))))
    center, numbers = float(residuals[replicates].mean()), list(losses)
    outliers: dict[int, float | None] = {}
    for i in set(range(len(residuals))) - set(replicates.tolist()):
        distances = residuals[i] - residuals[replicates]
        is_farther = abs(residuals[i]) > abs(center)
        nearest = float(distances[np.argmin(np.abs(distances))])
        outliers[numbers[i]] = nearest if is_farther else None
    agreeing = {number: row for number, row in rows.items() if number not in outliers}
    return [
        (agreeing, None),
        *(({number: rows[number]}, distance) for number, distance in outliers.items()),
    ]


def _why_unjudged(expected: _AtSize, row: Mapping[str, Any]) -> str | None:
    """The code of why nothing can be said of a configuration."""
    if (status := row["status"]) in ("pruned", "failed"):
        return str(status)
    sizes = [optimum.size for optimum in expected.forecast.optima]
    if any(value < min(size[c] for size in sizes) for c, value in expected.point.size.items()):
        return "below-sweep"
    if other_horizon(expected.forecast, row, expected.point.size) is not None:
        return "other-horizon"
    return "loss-refused" if "loss" in expected.point.refusals else None


def other_horizon(
    forecast: Forecast, row: Mapping[str, Any], size: Mapping[str, float]
) -> float | None:
    """How long a run trained, where the sweep has another horizon at its size.

    A run that diverged may have stopped early: its horizon is another one where it is longer.
    Steps of another batch size are counted as those of the sweep's over the same data.

    Args:
        forecast: Of the sweep.
        row: The run.
        size: Its size.
    """
    horizon = forecast.horizon
    if horizon is None or horizon.amount is None or row["status"] not in ("complete", "diverged"):
        return None
    amount, times = _trained_for(horizon, row), 1.0
    if horizon.role == "steps":
        batch = next((s for s in forecast.settings if s.role == "batch"), None)
        of_run = None if batch is None else known_number(row.get(batch.column))
        of_sweep = None if batch is None else batch.value(size)
        times = of_run / of_sweep if of_run and of_sweep else 1.0
    if amount is None or horizon.is_at(size, times * amount):
        return None
    of_sweep, is_diverged = horizon.value(size), row["status"] == "diverged"
    return None if is_diverged and times * amount < (of_sweep or math.inf) else amount


def _trained_for(horizon: Setting, row: Mapping[str, Any]) -> float | None:
    """How long a run trained, by the column of the sweep, one that means the same, or a ratio."""
    columns = [c for c in (horizon.column, *row) if c in row and names_horizon(horizon, c)]
    amounts = [known_number(row[c]) for c in columns]
    if kind_of(horizon.column) == "tokens":
        ratios, params = (
            [known_number(row[c]) for c in row if kind_of(c) == kind]
            for kind in ("ratio", "params")
        )
        amounts += [a * b for a, b in zip(ratios, params, strict=False) if a and b]
    return next((amount for amount in amounts if amount is not None), None)


def _differing(row: Mapping[str, Any], recipe: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Condition → (a run's, the sweep's), where they differ."""
    conditions = {name: condition_text(row[name]) for name in recipe if name in row}
    return {
        name: (text, recipe[name]) for name, text in conditions.items() if text != recipe[name]
    }


def _deviation_before(expected: _AtSize, spike: Spike | None) -> float | None:
    """Log loss of a curve just before its spike, less that of the reference curves."""
    curves = expected.forecast.curves
    if spike is None or curves is None or not math.isfinite(spike.before):
        return None
    return spike.before - curves.mean_at(spike.fraction, expected.predicted_log_loss)


def _curve_shapes(runs: Runs, forecast: Forecast) -> dict[int, tuple[Spike | None, bool]]:
    """Row → its worst spike, and whether it climbs steadily; rows that do neither are left out."""
    curves = runs.curves()
    length = (forecast.curves and forecast.curves.total_steps) or 0.0
    shapes: dict[int, tuple[Spike | None, bool]] = {}
    for run, curve in [] if curves is None else curves.groupby("run"):
        step, loss = curve["step"].to_numpy(float), curve["loss"].to_numpy(float)
        spike, climbs = find_spike(step, loss, length=length), climbs_steadily(step, loss)
        if spike is not None or climbs:
            shapes[int(run)] = spike, climbs
    return shapes
