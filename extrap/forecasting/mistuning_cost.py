"""`cost`: what tuned values cost at a size: loss, equal-loss compute, GPU-hours, money."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from extrap.errors import DataError, argument
from extrap.fitting.run_costs import IN_FLOPS, SECONDS_PER_HOUR, hours_of_runs, read_run_cost
from extrap.forecasting import Forecast
from extrap.forecasting.documents import of_forecast
from extrap.records import Interval, Measure, Runs, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_positive
from extrap.records.flags import Flag

COST_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the recommended value whose cost is given."""
SIZE_FACTORS = np.geomspace(1 / 256, 1, 33)
"""Multiples of a run's sizes among which one of equal loss is sought."""
LEAST_GROWTH = 1.1
"""Factor by which the compute grows at least over them, or it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """What a run at given tuned values is expected to lose against one at the optimum.

    Attributes:
        tuned: Tuned column → value; one that is missing is at its optimum.
        octaves: Tuned column → log2(value / predicted optimum).
        relative: Loss / loss of a tuned run − 1.
        nats: Difference of these losses, in the unit of the runs' loss.
        equivalent_compute: Compute of the tuned run, smaller in all sizes alike, that reaches the
            same loss, as a share of the run's own. A side, or the value, is None where that run
            would lie below the smallest swept size.
        wasted: `"flops"`, `"gpu_hours"`, `"money"` as far as they are known → the rest of it.
        chance_of_divergence: None where it is not modelled.
        column: The tuned column that is moved or kept; None of the values asked for.
        factor: Its value / the recommended one, where it is moved; the others are recommended.
        kept_from: The size whose optimum is kept; the others are at their optimum.
    """

    tuned: Mapping[str, float]
    octaves: Mapping[str, float]
    relative: Measure
    nats: Measure
    equivalent_compute: Measure
    wasted: Mapping[str, Measure]
    chance_of_divergence: float | None
    column: str | None = None
    factor: float | None = None
    kept_from: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Shown):
    """The cost of tuned values at one size, and of alternatives.

    Attributes:
        size: Size column → value.
        level: Content of the intervals.
        loss: Expected of a tuned run there.
        run: `"flops"`, `"gpu_hours"`, `"money"` as far as they are known → that of one run.
        is_recommended: Whether the values are the forecast's own recommendation.
        knows_compute: Whether shares of compute are known; a share of None then belongs to a tuned
            run below the smallest swept size.
        chosen: The penalty of the values.
        around: Of multiples of the recommended value, each tuned column by itself.
        kept: Of the optima of the smallest and of the largest swept size.
        flags: Reasons to doubt them.
    """

    size: Mapping[str, float]
    level: float
    loss: float
    run: Mapping[str, float]
    is_recommended: bool
    knows_compute: bool
    chosen: Penalty
    around: tuple[Penalty, ...]
    kept: tuple[Penalty, ...]
    flags: tuple[str, ...]


@of_forecast
def cost(
    forecast: Forecast,
    *,
    at: Mapping[str, float] | float,
    tuned: Mapping[str, float] | None = None,
    flops: float | None = None,
    gpu_hours: float | None = None,
    flops_per_second: float | None = None,
    price: float | None = None,
    formula: str | None = None,
) -> Cost:
    """Estimate the cost of tuned values at a size, relative to a tuned run there.

    The expected log excess and its interval are those that the forecast states for kept values
    (`Point.transfer`); loss, compute, hours and money are monotone functions of it.

    Args:
        forecast: The forecast, the file it was sealed in, or runs as `extrap.forecast` takes them.
        at: One value per size column, or the value of the only one.
        tuned: Tuned column → value; a column that is not given is at its recommended value.
        flops: FLOPs of a run there; by default from the runs, as `read_run_cost` says.
        gpu_hours: GPU-hours of a run there; by default from the column `wall_s`, or from FLOPs.
        flops_per_second: Speed of a GPU, for hours from FLOPs.
        price: Price of one GPU-hour.
        formula: FLOPs of a run as arithmetic over columns, if the table has none.

    Raises:
        ValueError: A size or tuned column is unknown, or a number is not positive.
        DataError: The forecast has no law of the loss, nothing is tuned, or it refuses one of them
            at this size.

    Example:
        >>> import extrap
        >>> result = extrap.cost("examples/sweep.csv", at={"width": 1024}, tuned={"lr": 0.01})
        >>> result.chosen.nats.value > 0.01
        True
    """
    numbers = {
        "flops": flops,
        "gpu_hours": gpu_hours,
        "flops_per_second": flops_per_second,
        "price": price,
    }
    values = _check(tuned, forecast.runs, **numbers)
    point = forecast.point(forecast.one_size(at))
    if refused := [f"refused-{name}: {why}" for name, why in point.refusals.items()]:
        raise DataError(f"a cost needs the forecast of a tuned run, got {'; '.join(refused)}.")
    advised, loss = point.recommendation, point.loss
    if loss is None or advised is None:
        raise DataError(
            "the cost of a value needs a law of the loss and a tuned column, got neither or one "
            f"({'; '.join(forecast.flags)}); extend the sweep first."
        )
    share, flops_there, flags = _equal_loss_share(forecast, point.size, formula)
    flops = flops_there if flops is None else flops
    if gpu_hours is None and flops_per_second is None:
        hours = hours_of_runs(forecast.runs)
        gpu_hours = None if hours is None else hours.of(point.size)
    elif gpu_hours is None and flops is not None:
        gpu_hours = flops / flops_per_second / SECONDS_PER_HOUR if flops_per_second else None
    money = gpu_hours * price if gpu_hours and price else None
    totals = {"flops": flops, "gpu_hours": gpu_hours, "money": money}
    run = {name: total for name, total in totals.items() if total is not None}
    there = forecast.values_at(point.size)
    assert there is not None
    optimum = dict(zip(there.names, (2.0**there.optimum).tolist(), strict=True))

    def penalty(values: Mapping[str, float], **labels: Any) -> Penalty:
        mean, ends = there.penalty(values)
        excess = Measure(value=mean, ci=ends)
        shares = Measure() if share is None else _falling(excess, share)
        return Penalty(
            tuned=dict(values),
            octaves={name: math.log2(v / optimum[name]) for name, v in values.items()},
            relative=excess.map(math.expm1),
            nats=excess.map(lambda log_excess: loss * math.expm1(log_excess)),
            equivalent_compute=shares,
            wasted={name: _wasted(shares, total) for name, total in run.items()},
            chance_of_divergence=None
            if advised.chance_of_divergence is None
            else there.chance(values),
            **labels,
        )

    best, kept_penalties = dict(advised.tuned), []
    for name in best:
        with_loss = [o for o in forecast.optima if o.loss is not None]
        for o in (with_loss[i] for i in dict.fromkeys([0, len(with_loss) - 1])):
            value = o.tuned[name].value or math.nan
            kept_penalties.append(penalty({name: value}, column=name, kept_from=dict(o.size)))
    chosen = penalty({**best, **values})
    return Cost(
        size=point.size,
        level=forecast.level,
        loss=loss,
        run=run,
        is_recommended=not tuned,
        knows_compute=share is not None,
        chosen=chosen,
        around=tuple(
            penalty({**best, name: best[name] * factor}, column=name, factor=factor)
            for name in best
            for factor in COST_FACTORS
        ),
        kept=tuple(kept_penalties),
        flags=(
            *point.flags,
            *_unknowns(run, price),
            *flags,
            *_far_off(forecast, chosen),
        ),
    )


def _falling(measure: Measure, of: Callable[[float], float | None]) -> Measure:
    """A falling function of a value and of both ends."""
    value, low, high = (None if x is None else of(x) for x in (measure.value, *measure.ci))
    return Measure(value=value, ci=Interval(high, low))


def _wasted(shares: Measure, total: float) -> Measure:
    """What of a run's cost a tuned one would not have needed."""
    return _falling(shares, lambda share: total * (1 - share))


def _equal_loss_share(
    forecast: Forecast, size: Mapping[str, float], formula: str | None
) -> tuple[Callable[[float], float | None] | None, float | None, tuple[str, ...]]:
    """Log excess → share of the run's compute with which a smaller tuned run loses as much.

    The share is None below the law's smallest size; the function where compute is unknown or does
    not grow. Beside it the FLOPs of a run, and flags.
    """
    try:
        growth = read_run_cost(forecast.runs, formula=formula, seconds=True)
    except DataError:
        if formula is not None:
            raise
        return None, None, ()
    flops = growth.of(size) if growth.unit == IN_FLOPS else None
    smallest = {c: min(o.size[c] for o in forecast.optima) for c in size}
    scaled = [{c: v * factor for c, v in size.items()} for factor in SIZE_FACTORS]
    scaled = [s for s in scaled if all(s[c] >= smallest[c] for c in s)]
    compute = np.log([growth.of(s) for s in scaled])
    compute -= compute[-1]
    if np.any(np.diff(compute) < 0) or -compute[0] < math.log(LEAST_GROWTH):
        stays = f"by {growth.source}, a larger run costs no more; no smaller run saves compute"
        return None, flops, (Flag("cost-does-not-grow", stays),)
    predictions = [forecast.predict_loss(s) for s in scaled]
    losses = np.array([math.nan if p is None else p.log_loss for p in predictions])
    losses -= losses[-1]

    def share(excess: float) -> float | None:
        if np.any(np.diff(losses) >= 0) or excess > losses[0]:
            return None
        return math.exp(float(np.interp(excess, losses[::-1], compute[::-1])))

    return share, flops, growth.flags


def _unknowns(run: Mapping[str, float], price: float | None) -> list[Flag]:
    flags, hours, flops = list[Flag](), argument("gpu_hours"), argument("flops")
    if not run:
        flags.append(Flag("cost-of-a-run-unknown", f"give {flops} or {hours}"))
    elif price is not None and "gpu_hours" not in run:
        why = f"give {hours} or {argument('flops_per_second')} to use a price"
        flags.append(Flag("hours-unknown", why))
    return flags


def _far_off(forecast: Forecast, chosen: Penalty) -> list[Flag]:
    """Tuned values farther from the optimum than any run of the sweep is from its own."""
    frame, sizes, flags = forecast.runs.to_frame(), list(forecast.runs.sizes), []
    columns = [*sizes, *chosen.octaves]
    ends = frame[columns].astype(float).groupby(sizes).agg(["min", "max"]).reset_index()
    values = [forecast.values_at(s) for s in ends[sizes].droplevel(1, axis=1).to_dict("records")]
    optima = 2.0 ** np.array(
        [tuned_values.optimum for tuned_values in values if tuned_values is not None]
    )
    best_of = dict(zip(forecast.runs.tuned, optima.T, strict=True))
    for name, octaves in chosen.octaves.items():
        best = best_of[name]
        low = float(np.nanmin(np.log2(ends[name]["min"] / best)))
        high = float(np.nanmax(np.log2(ends[name]["max"] / best)))
        if not low <= octaves <= high:
            detail = (
                f"{name}={chosen.tuned[name]:.3g} lies {octaves:+.1f} octaves from the predicted "
                f"optimum; the sweep covers {low:+.1f} to {high:+.1f}"
            )
            flags.append(Flag("far-off", detail))
    return flags


def _check(tuned: Any, runs: Runs, **numbers: float | None) -> dict[str, float]:
    """The tuned values, after a look at all numbers that were given."""
    is_mapping = isinstance(tuned or {}, Mapping)
    if not is_mapping or not all(isinstance(value, Real) for value in (tuned or {}).values()):
        example = f"{{{runs.tuned[0]!r}: 0.01}}"
        raise TypeError(f"tuned is a number per tuned column, got {tuned!r}; write {example}.")
    values = dict(tuned or {})
    if unknown := [name for name in values if name not in runs.tuned]:
        raise ValueError(
            f"the tuned columns are {', '.join(runs.tuned)}, got {unknown[0]!r}; give one of them."
        )
    named = {**values, **{argument(name): value for name, value in numbers.items()}}
    for name, value in named.items():
        if value is not None:
            require_positive(name, value, "leave it out")
    return values


shape(Cost, kind="extrap-cost", omit=("knows_compute",))
