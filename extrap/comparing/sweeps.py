"""Two sweeps side by side: does the optimum move with size in one and not in the other?

What to use when:

* `compare_slopes` — how the optimum of each tuned value moves with size, in either sweep.
* `compare_losses` — what loss they reach when tuned, at the sizes of both and at a larger one.

Differences are those of independent sweeps. Where both use the same seeds, part of the noise is
common to both and cancels; the intervals of a difference do not count on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

from extrap.fitting import LossPrediction
from extrap.forecasting import Forecast
from extrap.records import Interval, Optimum


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """An exponent of the law of an optimum, or a difference of two.

    Attributes:
        value: The exponent.
        se: Its standard error; 0 where it is pinned.
        dof: Degrees of freedom behind `se`.
        ci: Student's t interval.
    """

    value: float
    se: float
    dof: float
    ci: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SlopeContrast:
    """How one optimum moves along one size column, in two sweeps.

    Attributes:
        tuned: The tuned column.
        column: The size column.
        slope: Exponent in the sweep; None where it has no law of this optimum.
        baseline: The same in the baseline.
        difference: `slope − baseline`; None unless both are known.
    """

    tuned: str
    column: str
    slope: Slope | None
    baseline: Slope | None
    difference: Slope | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedLoss:
    """The loss of tuned runs at one size; not that of one run, which scatters about it.

    Attributes:
        loss: The loss; None where the data allow no point estimate.
        ci: Its interval; open where nothing is known.
        spread: Its distribution; None where that is unknown.
    """

    loss: float | None
    ci: Interval
    spread: LossPrediction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossContrast:
    """The loss of tuned runs at one size, in two sweeps.

    Attributes:
        size: Size column → value.
        is_forecast: Whether the losses are forecast, else they are those of the fitted optima.
        of_sweep: The loss in the sweep.
        of_baseline: The loss in the baseline.
        ratio: The first over the second; None unless both are known.
        ratio_ci: Its interval.
    """

    size: Mapping[str, float]
    is_forecast: bool
    of_sweep: TunedLoss
    of_baseline: TunedLoss
    ratio: float | None
    ratio_ci: Interval


def check_comparable(forecast: Forecast, baseline: Forecast) -> None:
    """Two sweeps can be compared only if they have the same quantities.

    Raises:
        ValueError: Their size columns, tuned columns or levels differ.
    """
    for what, ours, theirs in (
        ("size columns", forecast.runs.sizes, baseline.runs.sizes),
        ("tuned columns", forecast.runs.tuned, baseline.runs.tuned),
        ("level", forecast.level, baseline.level),
    ):
        if ours != theirs:
            raise ValueError(
                f"a baseline needs the {what} of the forecast it is compared with, "
                f"{_words(ours)}; got {_words(theirs)}: make both with the same."
            )


def _words(value: tuple[str, ...] | float) -> str:
    return f"{value:g}" if isinstance(value, float) else ", ".join(value) or "none"


def compare_slopes(forecast: Forecast, baseline: Forecast) -> tuple[SlopeContrast, ...]:
    """The exponents of the laws of the optima in two sweeps, and how far they are apart.

    The difference of two independent fits: `d = b1 − b2`, `se² = se1² + se2²`, with Welch's
    degrees of freedom `se⁴ / (se1⁴ / dof1 + se2⁴ / dof2)`.

    Returns:
        One contrast for each tuned and each size column.

    Raises:
        ValueError: As `check_comparable`.

    References:
        Welch (1947), The generalization of "Student's" problem when several different population
        variances are involved, Biometrika 34.
    """
    check_comparable(forecast, baseline)
    found = []
    for tuned in forecast.runs.tuned:
        for column in forecast.runs.sizes:
            ours, theirs = (_slope(made, tuned, column) for made in (forecast, baseline))
            both = None
            if ours is not None and theirs is not None:
                both = _difference(ours, theirs, level=forecast.level)
            found.append(
                SlopeContrast(
                    tuned=tuned, column=column, slope=ours, baseline=theirs, difference=both
                )
            )
    return tuple(found)


def _slope(forecast: Forecast, tuned: str, column: str) -> Slope | None:
    fit = forecast.tuned_laws[tuned]
    if fit is None:
        return None
    i = 1 + fit.columns.index(column)  # the first parameter is the height of the law
    se = math.sqrt(max(fit.covariance[i][i], 0.0))
    return _with_interval(fit.values[i], se, fit.dof, level=forecast.level)


def _difference(ours: Slope, theirs: Slope, *, level: float) -> Slope:
    se = math.hypot(ours.se, theirs.se)
    rest = ours.se**4 / ours.dof + theirs.se**4 / theirs.dof
    dof = se**4 / rest if rest else math.inf  # both pinned: the difference is exact
    return _with_interval(ours.value - theirs.value, se, dof, level=level)


def _with_interval(value: float, se: float, dof: float, *, level: float) -> Slope:
    half = float(stats.t.ppf(0.5 + level / 2, dof)) * se
    return Slope(value=value, se=se, dof=dof, ci=Interval(value - half, value + half))


def compare_losses(
    forecast: Forecast, baseline: Forecast, *, target: Mapping[str, float]
) -> tuple[LossContrast, ...]:
    """The loss of tuned runs in two sweeps: at the sizes both have, then at a larger one.

    At the sizes of both sweeps it is that of the fitted optimum, at the target the forecast. Log
    losses are taken to be independent: variances add, with the degrees of freedom of a
    `LossPrediction`.

    Args:
        forecast: The forecast of the sweep.
        baseline: The forecast it is compared with.
        target: The larger size.

    Raises:
        ValueError: As `check_comparable`, or the target is not a size of the sweep's forecast.
    """
    check_comparable(forecast, baseline)
    theirs, level = {_key(o): o for o in baseline.optima}, forecast.level
    rows = [
        _contrast(
            o.size,
            _measured(forecast, o),
            _measured(baseline, theirs[_key(o)]),
            is_forecast=False,
            level=level,
        )
        for o in forecast.optima
        if _key(o) in theirs
    ]
    ours, other = (_predicted(made, target) for made in (forecast, baseline))
    return (*rows, _contrast(target, ours, other, is_forecast=True, level=level))


def _key(optimum: Optimum) -> tuple[float, ...]:
    """The size of an optimum, to the digits by which cells are distinguished."""
    return tuple(float(f"{value:.12g}") for value in optimum.size.values())


def _measured(forecast: Forecast, optimum: Optimum) -> TunedLoss:
    """The loss of a fitted optimum; at the edge of a grid the best cell bounds it."""
    loss, noise = optimum.loss, forecast.noise
    if loss is None:
        return TunedLoss(loss=None, ci=Interval(None, optimum.best_loss), spread=None)
    if optimum.loss_se is None or noise.size_dof == 0:
        return TunedLoss(loss=loss, ci=Interval(), spread=None)
    spread = LossPrediction(
        log_loss=math.log(loss), curve=(((optimum.loss_se / loss) ** 2, noise.size_dof),), run=()
    )
    return TunedLoss(loss=loss, ci=spread.interval(forecast.level, new_run=False), spread=spread)


def _predicted(forecast: Forecast, size: Mapping[str, float]) -> TunedLoss:
    """The loss forecast for a size; unknown below the smallest size of the sweep."""
    if any(size[c] < min(o.size[c] for o in forecast.optima) for c in forecast.runs.sizes):
        return TunedLoss(loss=None, ci=Interval(), spread=None)
    point = forecast.at(**size)
    return TunedLoss(loss=point.loss, ci=point.loss_ci, spread=forecast.predict_loss(point.size))


def _contrast(
    size: Mapping[str, float],
    ours: TunedLoss,
    theirs: TunedLoss,
    *,
    is_forecast: bool,
    level: float,
) -> LossContrast:
    ratio, ratio_ci = None, Interval()
    if ours.loss is not None and theirs.loss is not None:
        ratio = ours.loss / theirs.loss
    if ours.spread is not None and theirs.spread is not None:
        off = LossPrediction(
            log_loss=ours.spread.log_loss - theirs.spread.log_loss,
            curve=(*ours.spread.curve, *theirs.spread.curve),
            run=(),
        )
        ratio_ci = off.interval(level, new_run=False)
    return LossContrast(
        size=dict(size),
        is_forecast=is_forecast,
        of_sweep=ours,
        of_baseline=theirs,
        ratio=ratio,
        ratio_ci=ratio_ci,
    )
