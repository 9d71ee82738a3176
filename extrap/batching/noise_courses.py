"""The gradient noise scale over training: its course, its growth, its collapse over the loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from extrap.errors import DataError
from extrap.noise import NoiseScale, mean_noise_scale, noise_course, telling_windows
from extrap.records import Interval, Measure, Runs

Array = npt.NDArray[np.float64]
MOMENTS = ["grad_sq_norm", "grad_cov_trace"]
SKIPPED = 0.1
"""Part of the steps that a collapse leaves out: there the noise is that of the initialisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """Whether the noise scales of several sizes are one curve over the loss.

    ln B = a + b ln L + c (ln L)² + q ln size. The published claim is q = 0: larger models have
    larger noise only because their loss is lower.

    Attributes:
        size_exponent: q.
        loss_exponent: d ln B / d ln L at the mean of ln L.
        log_sd: Residual standard deviation of ln B about one curve for all sizes.
        log_sd_by_size: The same with the term of the size.
        log_sd_of_step: About one curve over ln step instead of ln loss, for all sizes.
        n_points: Windows the fit rests on.
        n_sizes: Sizes.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Sec. 4: the noise scale depends on the size of
        a model primarily through the loss.
    """

    size_exponent: Measure
    loss_exponent: Measure
    log_sd: float
    log_sd_by_size: float
    log_sd_of_step: float
    n_points: int
    n_sizes: int


def pool_gradients(runs: Runs, rows: Sequence[int]) -> pd.DataFrame:
    """Moments of gradients along a training, those of all seeds below each other.

    Args:
        runs: Runs whose curves have `grad_sq_norm` and `grad_cov_trace`.
        rows: Row positions of the runs to pool: alike but for their seed.

    Returns:
        Columns `run`, `step`, `loss`, `grad_sq_norm`, `grad_cov_trace`, by step, then run.

    Raises:
        DataError: The curves have no moments of gradients.
    """
    curves = runs.curves()
    if curves is None or not set(MOMENTS) <= set(curves):
        raise DataError(
            "a noise scale over training needs moments of gradients from that training; "
            "train with noise_every in the recipe."
        )
    own = curves[curves["run"].isin(list(rows))].dropna()
    return own.sort_values(["step", "run"]).reset_index(drop=True)


def noise_until(
    gradients: pd.DataFrame, *, step: float, batch_size: float, level: float = 0.95
) -> NoiseScale | None:
    """The mean noise scale of a training up to a step: what predicts the critical batch there.

    Args:
        gradients: What `pool_gradients` returns.
        step: The last step that counts.
        batch_size: Examples of a step of that training.
        level: Of the interval.

    Returns:
        `extrap.noise.mean_noise_scale` over windows that widen with the steps, joined where one
        alone does not tell its noise scale from infinite; of the first tenth of the steps such a
        one is left out (`extrap.noise.telling_windows`). None where nothing was measured. The
        interval is for these runs: it does not know how seeds differ. Where the noise is hardly
        distinguished from infinite, known values are low.
    """
    if gradients.empty:
        return None
    # a point speaks for the steps since the one before: the first one at or after the end counts
    steps = gradients["step"].to_numpy(float)
    last = steps[min(int(np.searchsorted(steps, step)), len(steps) - 1)]
    early = gradients[steps <= last]
    squared, trace = (early[name].to_numpy() for name in MOMENTS)
    first, starts = telling_windows(squared, trace, steps[steps <= last], level=level)
    return mean_noise_scale(
        squared[first:], trace[first:], n_windows=starts, batch_size=batch_size, level=level
    )


def noise_over_training(gradients: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The course of the noise scale, one row per window; windows as in `noise_until`.

    Args:
        gradients: What `pool_gradients` returns.
        level: Of the intervals.

    Returns:
        Columns `step` and `loss` (geometric means), `noise_scale`, `lower`, `upper`; NaN where
        the noise scale has no value or no limit.
    """
    if gradients.empty:
        return pd.DataFrame(columns=["step", "loss", "noise_scale", "lower", "upper"])
    squared, trace, steps = (gradients[name].to_numpy(float) for name in (*MOMENTS, "step"))
    first, starts = telling_windows(squared, trace, steps, level=level)
    windows = noise_course(squared[first:], trace[first:], n_windows=starts, level=level)
    rows, places = [], np.arange(first, len(gradients))
    for window, part in zip(windows, np.split(places, starts), strict=True):
        rows.append(
            {
                "step": float(np.exp(np.log(steps[part]).mean())),
                "loss": float(np.exp(np.log(gradients["loss"].to_numpy(float)[part]).mean())),
                "noise_scale": _number(window.noise_scale),
                "lower": _number(window.ci.lower),
                "upper": _number(window.ci.upper),
            }
        )
    return pd.DataFrame(rows)


def growth(course: pd.DataFrame) -> Measure:
    """By what factor the noise scale grows from the first window of a course to its last.

    The interval takes each window's own as normal in ln B.

    Args:
        course: What `noise_over_training` returned; the interval has its level.
    """
    known = course.dropna(subset="noise_scale")
    if len(known) < 2:
        return Measure()
    first, last = known.iloc[0], known.iloc[-1]
    centre = math.log(last["noise_scale"] / first["noise_scale"])
    down = math.hypot(_reach(last, "lower"), _reach(first, "upper"))
    up = math.hypot(_reach(last, "upper"), _reach(first, "lower"))
    return Measure(
        value=math.exp(centre),
        ci=Interval(
            math.exp(centre - down) if math.isfinite(down) else None,
            math.exp(centre + up) if math.isfinite(up) else None,
        ),
    )


def step_exponent(courses: pd.DataFrame, *, size: str, level: float = 0.95) -> Measure:
    """The power of the step as which the noise scale grows, alike at all sizes.

    ln B = a(size) + g ln step; ten times the steps multiply the noise scale by 10^g.

    Args:
        courses: `noise_over_training` of each size below each other, with a column of the size.
        size: That column.
        level: Of the interval, which counts sizes as in `collapse`; open with fewer than three.
    """
    known = courses[np.isfinite(courses["noise_scale"]) & (courses["noise_scale"] > 0)]
    sizes = known[size].to_numpy(float)
    distinct = sorted(set(sizes))
    if len(known) <= len(distinct) + 1:
        return Measure()
    y, x = (np.log(known[name].to_numpy(float)) for name in ("noise_scale", "step"))
    for own in distinct:  # each size has its own level
        y[sizes == own] -= y[sizes == own].mean()
        x[sizes == own] -= x[sizes == own].mean()
    (value,), covariance, _ = _least_squares(x[:, None], y, n_levels=len(distinct))
    if len(distinct) < 3:
        return Measure(value=float(value))
    variance = max(covariance[0, 0], float(_jackknife(x[:, None], y, sizes)[0]))
    half = float(stats.t.ppf((1 + level) / 2, len(distinct) - 1)) * math.sqrt(variance)
    return Measure(value=float(value), ci=Interval(float(value) - half, float(value) + half))


def collapse(
    courses: pd.DataFrame, *, size: str, level: float = 0.95, skip: float = SKIPPED
) -> Collapse | None:
    """Compare noise scales of several sizes as functions of the loss.

    Windows of one size are neighbours in time and share what a seed did, so the interval of q
    counts sizes, not windows: it is the larger of that of the pooled fit and that of a jackknife
    over sizes.

    Args:
        courses: `noise_over_training` of each size below each other, with a column of the size.
        size: That column.
        level: Of the intervals.
        skip: Part of the steps of each size to leave out at its start, where the noise of the
            initialisation is measured and not that of training.

    Returns:
        None with fewer than three sizes or five windows.
    """
    known = courses[np.isfinite(courses["noise_scale"]) & (courses["noise_scale"] > 0)]
    late = [rows[rows["step"] > skip * rows["step"].max()] for _, rows in known.groupby(size)]
    known = pd.concat(late) if late else known
    sizes = known[size].to_numpy(float)
    if len(set(sizes)) < 3 or len(known) < 5:
        return None
    x, y = np.log(known["loss"].to_numpy(float)), np.log(known["noise_scale"].to_numpy(float))
    x = x - x.mean()
    by_loss = np.column_stack([np.ones_like(x), x, x**2])
    s = np.log(known["step"].to_numpy(float))
    by_step = np.column_stack([np.ones_like(s), s - s.mean(), (s - s.mean()) ** 2])
    full = np.column_stack([by_loss, np.log(sizes / np.exp(np.log(sizes).mean()))])
    coefficients, covariance, log_sd_by_size = _least_squares(full, y)
    _, _, log_sd = _least_squares(by_loss, y)
    _, _, log_sd_of_step = _least_squares(by_step, y)
    jackknifed = _jackknife(full, y, sizes)
    n_sizes = len(set(sizes))
    t = float(stats.t.ppf((1 + level) / 2, n_sizes - 2))

    def measure(place: int) -> Measure:
        se = math.sqrt(max(covariance[place, place], jackknifed[place]))
        value = float(coefficients[place])
        return Measure(value=value, ci=Interval(value - t * se, value + t * se))

    return Collapse(
        size_exponent=measure(3),
        loss_exponent=measure(1),
        log_sd=log_sd,
        log_sd_by_size=log_sd_by_size,
        log_sd_of_step=log_sd_of_step,
        n_points=len(known),
        n_sizes=n_sizes,
    )


def _least_squares(design: Array, y: Array, *, n_levels: int = 0) -> tuple[Array, Array, float]:
    """Coefficients, their covariance, residual standard deviation.

    Args:
        design: A row for each value.
        y: Values.
        n_levels: Levels that were subtracted from both; each costs a degree of freedom.
    """
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    dof = max(1, len(y) - n_levels - design.shape[1])
    variance = float(((y - design @ coefficients) ** 2).sum()) / dof
    covariance = np.asarray(variance * np.linalg.pinv(design.T @ design))
    return np.asarray(coefficients), covariance, math.sqrt(variance)


def _jackknife(design: Array, y: Array, sizes: Array) -> Array:
    """Variance of each coefficient from leaving out one size at a time."""
    left: Iterable[Array] = (
        _least_squares(design[sizes != n], y[sizes != n])[0] for n in set(sizes)
    )
    found = np.array(list(left))
    n = len(found)
    return np.asarray((n - 1) / n * ((found - found.mean(0)) ** 2).sum(0))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _reach(row: pd.Series, side: str) -> float:
    """From the value of a window to an end of its interval, in ln B; infinite where it is open."""
    end = row[side]
    if not (end > 0 and math.isfinite(end)):
        return math.inf
    return abs(math.log(end / row["noise_scale"]))
