"""The gradient noise scale over training, its growth, and its agreement with critical batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from extrap.errors import DataError
from extrap.noise import NoiseScale, mean_noise_scale, noise_course
from extrap.records import Interval, Measure, Runs

MOMENTS = ["grad_sq_norm", "grad_cov_trace"]
"""Columns of curves that a noise scale is read from."""
FEWEST_PAIRS = 3
"""Pairs of a noise scale and a critical batch that a comparison takes."""
AGREEMENT_FACTOR = 10.0
"""The factor the two are published to agree within, about."""
SMALLEST_RANGE = 1e-9
"""Least range of logarithms that count as varying."""
SMALLEST_LOG_RATIO_SE = 1e-4
"""No ratio is known better than this."""
MEASURES = ("noise_scale", "lower", "upper", "b_crit", "b_lower", "b_upper")
"""Columns of a pair that are measured; further ones name its task and size."""


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
    pooled = curves[curves["run"].isin(list(rows))].dropna()
    return pooled.sort_values(["step", "run"]).reset_index(drop=True)


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
        `extrap.noise.mean_noise_scale` over the windows of `extrap.noise.noise_course`; None where
        nothing was measured. The interval is for these runs: it does not know how seeds differ.
        Where the noise is hardly distinguished from infinite, known values are low.
    """
    if gradients.empty:
        return None
    # a point speaks for the steps since the one before: the first one at or after the end counts
    steps = gradients["step"].to_numpy(float)
    last = steps[min(int(np.searchsorted(steps, step)), len(steps) - 1)]
    early = gradients[steps <= last]
    course = noise_course(*(early[name] for name in (*MOMENTS, "step")), level=level)
    return mean_noise_scale([window for _, window in course], batch_size=batch_size)


def noise_over_training(gradients: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The course of the noise scale, one row per window; windows as in `noise_until`.

    Args:
        gradients: What `pool_gradients` returns.
        level: Of the intervals.

    Returns:
        Columns `step` and `loss` (geometric means), `noise_scale`, `lower`, `upper`; NaN where
        the noise scale has no value or no limit.
    """
    rows, moments = [], [*MOMENTS, "step"]
    windows = noise_course(*(gradients[c] for c in moments), level=level) if len(gradients) else []
    for positions, window in windows:
        means = np.exp(np.log(gradients.iloc[positions][["step", "loss"]]).mean())
        rows.append((*means, window.noise_scale, *window.ci))
    return pd.DataFrame(
        rows, columns=["step", "loss", "noise_scale", "lower", "upper"], dtype=float
    )


def growth(course: pd.DataFrame) -> Measure:
    """By what factor the noise scale grows from the first window of a course to its last.

    The interval takes each window's own as normal in ln B.

    Args:
        course: What `noise_over_training` returned; the interval has its level.
    """
    measured = course.dropna(subset="noise_scale")[["noise_scale", "lower", "upper"]]
    if len(measured) < 2:
        return Measure()
    logs = np.log(measured.where(measured > 0))  # NaN where a side is open
    first, last = logs.iloc[0], logs.iloc[-1]
    centre = last["noise_scale"] - first["noise_scale"]
    down = math.hypot(last["noise_scale"] - last["lower"], first["upper"] - first["noise_scale"])
    up = math.hypot(last["upper"] - last["noise_scale"], first["noise_scale"] - first["lower"])
    ends = (None if math.isnan(log) else math.exp(log) for log in (centre - down, centre + up))
    return Measure(value=math.exp(centre), ci=Interval(*ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Mean noise scales beside critical batch sizes, in logarithms.

    Attributes:
        n_pairs: Pairs that have both.
        n_left_out: Pairs without a point estimate of one of them.
        r_squared: Squared correlation of the logs; None where one of them does not vary.
        ratio: B_crit / B_noise, the mean over tasks and sizes in logarithms.
        largest_factor: By which the two differ in the worst pair, 1 or more.
        n_within: Pairs that differ by less than `AGREEMENT_FACTOR`.
        decades: Spanned by the noise scales.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Sec. 3: the noise scale predicts the largest
        useful batch over six decades, r² = 80 %, to about an order of magnitude.
    """

    n_pairs: int
    n_left_out: int
    r_squared: float | None
    ratio: Measure
    largest_factor: float
    n_within: int
    decades: float


def agreement(pairs: pd.DataFrame, *, level: float = 0.95) -> Agreement | None:
    """Compare noise scales with critical batch sizes, over tasks and targets.

    The targets of a task and size are met along the same runs and count as one in the mean ratio,
    whose interval allows for ratios that differ between tasks.

    Args:
        pairs: One row per task, size and target: `noise_scale` and `b_crit` in examples, NaN where
            there is no point estimate; their intervals, `lower`, `upper`, `b_lower`, `b_upper`;
            all further columns but `target` name the task and size.
        level: Of the intervals.

    Returns:
        None with fewer than three pairs that have both.

    Example:
        >>> pairs = pd.DataFrame({"noise_scale": [10, 100, 1000], "b_crit": [20, 200, 500]})
        >>> agreed = agreement(pairs)
        >>> round(agreed.r_squared, 2), round(agreed.largest_factor, 1)
        (0.94, 2.0)

    References:
        Paule, Mandel (1982), J. Res. NBS 87(5), eq. 4; Hartung, Knapp (2001), Statistics in
        Medicine 20, eq. 5, for the mean ratio.
    """
    if pairs.empty:
        return None
    values = pairs[["noise_scale", "b_crit"]].astype(float)
    is_known = (np.isfinite(values) & (values > 0)).all(axis=1)
    if is_known.sum() < FEWEST_PAIRS:
        return None
    x, y = np.log(values[is_known].to_numpy()).T
    varies = min(np.ptp(x), np.ptp(y)) > SMALLEST_RANGE
    return Agreement(
        n_pairs=len(x),
        n_left_out=len(values) - len(x),
        r_squared=float(np.corrcoef(x, y)[0, 1] ** 2) if varies else None,
        ratio=_mean_ratio(pairs[is_known].assign(effect=y - x), level=level),
        largest_factor=float(np.exp(np.abs(y - x).max())),
        n_within=int((np.abs(y - x) < math.log(AGREEMENT_FACTOR)).sum()),
        decades=float(np.ptp(x) / math.log(10)),
    )


def _mean_ratio(pairs: pd.DataFrame, *, level: float) -> Measure:
    """The random-effects mean of `effect`, a log ratio, over tasks and sizes.

    A pair with an open interval is known as badly as the worst that has two sides.
    """
    quantile = stats.norm.ppf((1 + level) / 2)
    ends = pairs.reindex(columns=["lower", "upper", "b_lower", "b_upper"]).astype(float)
    logs = np.log(ends.where((ends > 0) & np.isfinite(ends)))
    variance = pd.Series(SMALLEST_LOG_RATIO_SE**2, index=pairs.index)
    for lower, upper in (("lower", "upper"), ("b_lower", "b_upper")):
        se = (logs[upper] - logs[lower]) / (2 * quantile)
        variance += se.fillna(se.max()).fillna(0.0) ** 2
    names = [name for name in pairs if name not in (*MEASURES, "target", "effect")]
    cluster = pairs.groupby(names, dropna=False).ngroup() if names else range(len(pairs))
    means = pairs[["effect"]].assign(variance=variance).groupby(np.asarray(cluster)).mean()
    if len(means) < 2:
        return Measure(value=math.exp(means["effect"].iloc[0]))
    with np.errstate(divide="ignore"):  # the share of a heterogeneity that is none
        pooled = combine_effects(*means.to_numpy().T, method_re="iterated", use_t=True)
    *_, hartung_knapp = pooled.conf_int(alpha=1 - level)
    return Measure(
        value=math.exp(pooled.mean_effect_re), ci=Interval(*np.exp(hartung_knapp).tolist())
    )
