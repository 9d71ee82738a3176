"""`cost`: what it costs to be wrong: nats, equivalent compute, GPU-hours and money at a size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Unpack

import numpy as np

from extrap.documents import as_forecast
from extrap.errors import DataError, argument
from extrap.fitting import LossPrediction, fit_excess_curve
from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.recommendation import DIVERGED_EXCESS, expected_excess
from extrap.fitting.run_costs import (
    FLOPS,
    SECONDS_PER_HOUR,
    RunCost,
    hours_of_runs,
    read_run_cost,
)
from extrap.fitting.spread import OptimumSpread, predict_optimum
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.reading.runs import ReadingKeywords
from extrap.records import Fit, Interval, Measure, Runs, Shown
from extrap.records.codec import encode, shape

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the recommended value whose price is given."""
SIZE_FACTORS = np.geomspace(1 / 256, 64, 49)
"""Multiples of a run's sizes at which the law is asked."""
N_DRAWS = 4000
SEED = 0
"""Of the draws; another one moves the ends of an interval by a few percent of its width."""
LEAST_GROWTH = 1.1
"""Factor by which the cost grows at least from the smallest swept size on, or tells nothing."""
LEAST_SIZES = 4
"""Fewer optima than this, and none is left out to see how the excess-loss curve changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """What a run at given tuned values is expected to lose against one at the optimum.

    Attributes:
        tuned: Tuned column → value.
        octaves: Tuned column → log2(value / predicted optimum).
        relative: Loss / loss of a tuned run − 1.
        nats: Difference of these losses, in the unit of the runs' loss.
        equivalent_compute: Compute of the tuned run, smaller in all sizes alike, that reaches the
            same loss, as a share of the run's own: .8 says that a fifth is wasted. A side, or
            the value, is None where that run would lie below the smallest swept size.
        wasted_flops: The rest of the run's FLOPs; None where they are not known.
        wasted_gpu_hours: Of its GPU-hours.
        wasted_money: Of its price.
        chance_of_divergence: None where it is not modelled.
    """

    tuned: Mapping[str, float]
    octaves: Mapping[str, float]
    relative: Measure
    nats: Measure
    equivalent_compute: Measure
    wasted_flops: Measure
    wasted_gpu_hours: Measure
    wasted_money: Measure
    chance_of_divergence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedValue:
    """The penalty of a tuned column that is off by a factor, or kept from a swept size.

    Attributes:
        name: The tuned column.
        factor: Value / recommended value; None for a kept one.
        kept_from: The size whose optimum is kept; None for a factor.
        penalty: What it costs; the other columns are at their recommended value, or, beside a
            kept one, at their predicted optimum.
    """

    name: str
    factor: float | None
    kept_from: Mapping[str, float] | None
    penalty: Penalty


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Shown):
    """The cost of tuned values at one size, and of alternatives.

    Attributes:
        size: Size column → value.
        level: Content of the intervals.
        loss: Expected of a tuned run there.
        flops: Of one run; None if unknown.
        gpu_hours: Of one run; None if unknown.
        money: Of one run; None without a price.
        is_recommended: Whether the values are the forecast's own recommendation.
        knows_compute: Whether shares of compute are known; a share of None then belongs to a tuned
            run below the smallest swept size.
        chosen: Their penalty.
        around: Of multiples of the recommended value, each tuned column by itself.
        kept: Of the optima of the smallest and of the largest swept size.
        flags: Reasons to doubt them.
    """

    size: Mapping[str, float]
    level: float
    loss: float
    flops: float | None
    gpu_hours: float | None
    money: float | None
    is_recommended: bool
    knows_compute: bool
    chosen: Penalty
    around: tuple[PricedValue, ...]
    kept: tuple[PricedValue, ...]
    flags: tuple[str, ...]


def cost(
    source: Any,
    *,
    at: Mapping[str, float] | float,
    tuned: Mapping[str, float] | None = None,
    flops: float | None = None,
    gpu_hours: float | None = None,
    flops_per_s: float | None = None,
    price: float | None = None,
    formula: str | None = None,
    **columns: Unpack[ReadingKeywords],
) -> Cost:
    """Estimate the cost of tuned values at a size, relative to a tuned run there.

    The expected log excess is its mean over the possible positions of the optimum, capped at that
    of a diverged run, as for rules, transfer and kept values. Its interval covers the position of
    the optimum, the scatter of the excess-loss curve, the change of its steepness when each swept
    size is left out, and the law of the loss with its structural discrepancy.

    Args:
        source: The forecast, the file it was sealed in, or runs as `extrap.forecast` takes them.
        at: One value per size column, or the value of the only one.
        tuned: Tuned column → value; a column that is not given is at its recommended value.
        flops: FLOPs of a run there; by default extrapolated from the runs.
        gpu_hours: GPU-hours of a run there; by default from the column `wall_s`, or from FLOPs.
        flops_per_s: Speed of a GPU, for hours from FLOPs.
        price: Price of one GPU-hour.
        formula: FLOPs of a run as arithmetic over columns, if the table has none.
        columns: How runs are read, as for `extrap.forecast`.

    Raises:
        ValueError: A size or tuned column is unknown, or a number is not positive.
        DataError: The forecast has no law of the loss, of an optimum, or no excess-loss curve, or
            refuses one of them at this size.

    References:
        Ours. Equivalent compute as in `extrap check`: the tuned run of the law that does as well.

    Example:
        >>> import extrap
        >>> found = extrap.cost("examples/sweep.csv", at={"width": 1024}, tuned={"lr": 0.01})
        >>> found.chosen.nats.value > 0.01
        True
    """
    _check(flops=flops, gpu_hours=gpu_hours, flops_per_s=flops_per_s, price=price)
    forecast = as_forecast(source, columns)
    point = forecast.at(**at) if isinstance(at, Mapping) else forecast.at(at)
    advised = forecast.recommend(**point.size)
    laws = {name: fit for name, fit in forecast.tuned_laws.items() if fit is not None}
    if refused := [f"refused-{name}: {why}" for name, why in point.refusals.items()]:
        raise DataError(f"a cost needs the forecast of a tuned run, got {'; '.join(refused)}.")
    if point.loss is None or advised is None or forecast.excess_curve is None:
        raise DataError(
            "the cost of a value needs laws of the loss and of each optimum, and an "
            f"excess-loss curve ({'; '.join(forecast.flags)}); extend the sweep first."
        )
    values = {**advised.tuned, **_known(tuned or {}, forecast.runs)}
    growth = _growth(forecast.runs, formula)
    if flops is None and growth is not None and growth.unit == FLOPS:
        flops = growth.of(point.size)
    hours = _hours(forecast.runs, point.size, gpu_hours, flops, flops_per_s)
    along = _loss_along(forecast, point.size)
    log_costs = _log_costs(growth, point.size, along[0])
    pricing = _Pricing(
        forecast=forecast,
        size=point.size,
        draws=_draws(forecast, laws, point.size),
        run=(flops, hours, None if hours is None or price is None else hours * price),
        curve=along,
        log_costs=log_costs,
    )
    chosen = pricing.of(values)
    return Cost(
        size=point.size,
        level=forecast.level,
        loss=point.loss,
        flops=flops,
        gpu_hours=hours,
        money=pricing.run[2],
        is_recommended=not tuned,
        knows_compute=log_costs is not None,
        chosen=chosen,
        around=_around(pricing, advised.tuned),
        kept=_kept(pricing),
        flags=(
            *point.flags,
            *_doubts(forecast, flops, hours, price),
            *_growth_doubts(growth, log_costs),
            *_far_off(forecast, chosen),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Draws:
    """Equally likely worlds: log2 optima (n, n_tuned), factors on the excess, log losses, slopes.

    `log_loss` is that of a tuned run; `slope` multiplies how fast the law falls.
    """

    spread: OptimumSpread
    optima: Array
    factor: Array
    log_loss: Array
    slope: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pricing:
    """All that a penalty follows from.

    `run` holds FLOPs, GPU-hours and money of a run; `curve` log multiples of the size and the log
    losses there; `log_costs` the logs of the costs there as shares of the run's own.
    """

    forecast: Forecast
    size: Mapping[str, float]
    draws: _Draws
    run: tuple[float | None, float | None, float | None]
    curve: tuple[Array, Array]
    log_costs: Array | None

    def of(self, tuned: Mapping[str, float]) -> Penalty:
        """The penalty of tuned values, one per column."""
        draws, level, excess_curve = self.draws, self.forecast.level, self.forecast.excess_curve
        assert excess_curve is not None
        place = np.log2([tuned[name] for name in draws.spread.tuned])
        excess = excess_curve.excesses(place - draws.optima, self.size) * draws.factor
        excess = np.minimum(excess, DIVERGED_EXCESS)
        mean = expected_excess(draws.spread, tuned, self.size, excess_curve=excess_curve)
        share = self._shares(excess, draws.slope)
        shares = _measure(self._shares(np.array([mean]), np.ones(1))[0], share, level)
        tuned_loss = math.exp(_tuned_log_loss(self.forecast, self.size))
        divergence = self.forecast.divergence
        return Penalty(
            tuned=dict(tuned),
            octaves=dict(
                zip(draws.spread.tuned, map(float, place - draws.spread.centre), strict=True)
            ),
            relative=_measure(math.expm1(mean), np.expm1(excess), level),
            nats=_measure(
                tuned_loss * math.expm1(mean), np.exp(draws.log_loss) * np.expm1(excess), level
            ),
            equivalent_compute=shares,
            wasted_flops=_wasted(self.run[0], shares),
            wasted_gpu_hours=_wasted(self.run[1], shares),
            wasted_money=_wasted(self.run[2], shares),
            chance_of_divergence=None
            if divergence is None
            else divergence.chance(self.size, tuned),
        )

    def _shares(self, excess: Array, slope: Array) -> Array:
        """Compute shares of tuned runs this much worse; NaN below the law's reach."""
        logs, losses = self.curve
        if self.log_costs is None or len(logs) < 2:
            return np.full(len(excess), math.nan)
        here = float(np.interp(0.0, logs, losses))
        wanted = np.maximum(here + excess / slope, losses[-1])
        at = _multiples_of_equal_loss(logs, losses, wanted)
        return np.minimum(np.exp(np.interp(at, logs, self.log_costs)), 1.0)


def _draws(forecast: Forecast, laws: Mapping[str, Fit], size: Mapping[str, float]) -> _Draws:
    rng, spread = np.random.default_rng(SEED), predict_optimum(laws, size)
    optima = np.column_stack(
        [
            centre + sd * rng.standard_t(dof, N_DRAWS)
            for centre, sd, dof in zip(spread.centre, spread.sd, spread.dof, strict=True)
        ]
    )
    excess_curve, prediction = forecast.excess_curve, forecast.predict_loss(size)
    assert excess_curve is not None
    assert prediction is not None
    scatter = math.log1p((excess_curve.relative_sd or 0.0) ** 2)
    sd = math.hypot(math.sqrt(scatter), _steepness_sd(forecast, excess_curve, size))
    return _Draws(
        spread=spread,
        optima=optima,
        factor=np.exp(sd * rng.standard_normal(N_DRAWS) - scatter / 2),
        log_loss=prediction.log_loss + prediction.curve_log_sd * rng.standard_normal(N_DRAWS),
        slope=np.exp(_slope_sd(forecast, prediction, size) * rng.standard_normal(N_DRAWS)),
    )


def _slope_sd(forecast: Forecast, prediction: LossPrediction, size: Mapping[str, float]) -> float:
    """Of ln of how fast the law falls; averaged laws differ by more than their discrepancy."""
    model, top = forecast.loss_model, forecast.largest()
    last = forecast.predict_loss({c: min(v, top[c]) for c, v in size.items()}, refuse=False)
    assert model is not None
    assert last is not None
    change = abs(prediction.log_loss - last.log_loss)
    if model.posterior is None or change == 0:
        return model.discrepancy
    beyond = max(prediction.curve_log_sd**2 - last.curve_log_sd**2, 0.0)
    return max(model.discrepancy, min(math.sqrt(beyond) / change, 1.0))


def _steepness_sd(
    forecast: Forecast, excess_curve: ExcessCurve, size: Mapping[str, float]
) -> float:
    """How well ln of the curve's steepness at a size is known: a jackknife over swept sizes."""
    known = [o for o in forecast.optima if o.bracketed]
    if len(known) < LEAST_SIZES:
        return 0.0
    steps = np.vstack([np.eye(len(excess_curve.tuned)), -np.eye(len(excess_curve.tuned))])
    logs = []
    for left_out in known:
        others = fit_excess_curve(forecast.runs, [o for o in known if o is not left_out])
        if others is not None:
            logs.append(float(np.mean(np.log(others.excesses(steps, size)))))
    n = len(logs)
    return math.sqrt((n - 1) / n * float(np.sum((np.array(logs) - np.mean(logs)) ** 2)))


def _tuned_log_loss(forecast: Forecast, size: Mapping[str, float]) -> float:
    prediction = forecast.predict_loss(size)
    assert prediction is not None
    return prediction.log_loss


def _measure(value: float, draws: Array, level: float) -> Measure:
    """A value with the central share of its draws, and itself; NaN, the lowest, is an open side.

    Few draws far below the bound on the excess can draw the mean out of the central ones.
    """
    lower, upper = np.quantile(
        np.where(np.isnan(draws), -np.inf, draws),
        [0.5 - level / 2, 0.5 + level / 2],
        method="nearest",
    )
    if not math.isnan(value):
        lower, upper = min(lower, value), max(upper, value)
    return Measure(
        value=None if math.isnan(value) else float(value),
        ci=Interval(*(float(side) if math.isfinite(side) else None for side in (lower, upper))),
    )


def _wasted(total: float | None, share: Measure) -> Measure:
    """What of a run's cost a tuned one would not have needed."""
    if total is None:
        return Measure()
    lower, upper = (None if side is None else total * (1 - side) for side in share.ci[::-1])
    return Measure(
        value=None if share.value is None else total * (1 - share.value),
        ci=Interval(lower, upper),
    )


def _around(pricing: _Pricing, best: Mapping[str, float]) -> tuple[PricedValue, ...]:
    return tuple(
        PricedValue(
            name=name,
            factor=factor,
            kept_from=None,
            penalty=pricing.of({**best, name: best[name] * factor}),
        )
        for name in best
        for factor in FACTORS
    )


def _kept(pricing: _Pricing) -> tuple[PricedValue, ...]:
    """What it costs to keep the optimum of the smallest or the largest swept size."""
    spread, found = pricing.draws.spread, []
    best = {name: 2.0**centre for name, centre in zip(spread.tuned, spread.centre, strict=True)}
    for name in spread.tuned:
        known = [o for o in pricing.forecast.optima if o.tuned[name].value is not None]
        for optimum in dict.fromkeys([0, len(known) - 1]):
            kept = known[optimum]
            value = float(kept.tuned[name].value or math.nan)
            found.append(
                PricedValue(
                    name=name,
                    factor=None,
                    kept_from=dict(kept.size),
                    penalty=pricing.of({**best, name: value}),
                )
            )
    return tuple(found)


def _loss_along(forecast: Forecast, size: Mapping[str, float]) -> tuple[Array, Array]:
    """Log multiples of a size within the law's reach, and the log losses there."""
    smallest = {c: min(o.size[c] for o in forecast.optima) for c in size}
    logs, losses = [], []
    for factor in SIZE_FACTORS:
        scaled = {c: v * factor for c, v in size.items()}
        if all(scaled[c] >= smallest[c] for c in scaled):
            prediction = forecast.predict_loss(scaled, refuse=False)
            if prediction is not None:
                logs.append(math.log(factor))
                losses.append(prediction.log_loss)
    return np.array(logs), np.array(losses)


def _multiples_of_equal_loss(logs: Array, losses: Array, wanted: Array) -> Array:
    """Log multiples at which the law has a loss, by linear interpolation.

    NaN beyond the losses of the curve, and all of them where it does not fall throughout.
    """
    if len(logs) < 2 or np.any(np.diff(losses) >= 0):
        return np.full(wanted.shape, np.nan)
    found = np.interp(wanted, losses[::-1], logs[::-1])
    return np.where((losses[-1] <= wanted) & (wanted <= losses[0]), found, np.nan)


def _growth(runs: Runs, formula: str | None) -> RunCost | None:
    """The cost of a run over size; None where the runs tell nothing of it."""
    try:
        return read_run_cost(runs, formula=formula, seconds=True)
    except DataError:
        if formula is not None:
            raise
        return None


def _log_costs(growth: RunCost | None, size: Mapping[str, float], logs: Array) -> Array | None:
    """Ln of the share of the run's cost at multiples of its size; None if it does not grow."""
    if growth is None or len(logs) < 2:
        return None
    found = growth.along(size, logs)
    grows = np.isfinite(found).all() and bool((np.diff(found) >= 0).all())
    at = float(np.interp(0.0, logs, found)) if grows else -math.inf
    return found if grows and at - found[0] >= math.log(LEAST_GROWTH) else None


def _growth_doubts(growth: RunCost | None, log_costs: Array | None) -> list[str]:
    if growth is None:
        return []
    if log_costs is None:
        return [
            f"cost-does-not-grow: by {growth.source}, a larger run costs no more; no "
            "smaller run saves compute"
        ]
    return list(growth.flags)


def _far_off(forecast: Forecast, chosen: Penalty) -> list[str]:
    """Tuned values farther from the optimum than any run of the sweep is from its own."""
    frame, found = forecast.runs.to_frame(), []
    by_size = {
        key if isinstance(key, tuple) else (key,): part
        for key, part in frame.groupby(list(forecast.runs.sizes))
    }
    for name, octaves in chosen.octaves.items():
        reach = []
        for key, part in by_size.items():
            size = dict(zip(forecast.runs.sizes, map(float, key), strict=True))
            best = forecast.predict_tuned(size, refuse=False)[name].value or math.nan
            reach += [*np.log2(part[name].to_numpy(dtype=float) / best)]
        low, high = float(np.nanmin(reach)), float(np.nanmax(reach))
        if not low <= octaves <= high:
            found.append(
                f"far-off: {name}={chosen.tuned[name]:.3g} lies {octaves:+.1f} octaves "
                f"from the predicted optimum; the sweep covers {low:+.1f} to {high:+.1f}"
            )
    return found


def _hours(
    runs: Runs,
    size: Mapping[str, float],
    gpu_hours: float | None,
    flops: float | None,
    flops_per_s: float | None,
) -> float | None:
    """GPU-hours of a run: as given, else FLOPs by the speed that is given, else as measured."""
    if gpu_hours is not None:
        return gpu_hours
    if flops_per_s is not None:
        return None if flops is None else flops / flops_per_s / SECONDS_PER_HOUR
    measured = hours_of_runs(runs)
    return None if measured is None else measured.of(size)


def _doubts(
    forecast: Forecast, flops: float | None, hours: float | None, price: float | None
) -> list[str]:
    found = []
    if forecast.excess_curve is not None and forecast.excess_curve.relative_sd is None:
        found.append(
            "excess-scatter-unknown: too few runs near the optimum to estimate how costs scatter"
        )
    if flops is None and hours is None:
        found.append(f"cost-of-a-run-unknown: give {argument('flops')} or {argument('gpu_hours')}")
    elif price is not None and hours is None:
        found.append(
            f"hours-unknown: give {argument('gpu_hours')} or {argument('flops_per_s')} to "
            "use a price"
        )
    return found


def _known(tuned: Any, runs: Runs) -> Mapping[str, float]:
    if not isinstance(tuned, Mapping) or not all(isinstance(v, Real) for v in tuned.values()):
        example = f"{{{runs.tuned[0]!r}: 0.01}}"
        raise TypeError(f"tuned is a number per tuned column, got {tuned!r}; write {example}.")
    values: dict[str, float] = dict(tuned)
    for name, value in values.items():
        if name not in runs.tuned:
            raise ValueError(
                f"the tuned columns are {', '.join(runs.tuned)}, got {name!r}; give one of them."
            )
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, got {value:g}.")
    return values


def _check(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"{argument(name)} must be positive and finite, got {value:g}; leave it out."
            )


shape(PricedValue, omit=("factor", "kept_from"), inline=("penalty",))
shape(
    Cost,
    kind="extrap-cost",
    omit=("knows_compute",),
    inline=("chosen",),
    add={
        "around": lambda found: [{**encode(each), "factor": each.factor} for each in found.around],
        "kept": lambda found: [
            {**encode(each), "kept_from": each.kept_from or {}} for each in found.kept
        ],
    },
)
