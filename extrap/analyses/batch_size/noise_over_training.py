"""The gradient noise scale over training, its growth, and its agreement with critical batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.noise import NoiseScale, mean_noise_scale, noise_course
from extrap.records import Interval, Measure, Runs

MOMENTS = ["grad_sq_norm", "grad_cov_trace"]
FEWEST_PAIRS = 3
FACTOR = 10.0
"""The factor the two are published to agree within, about."""
SMALLEST_RANGE = 1e-9
"""Of logarithms that vary."""


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
    for at, window in windows:
        means = np.exp(np.log(gradients.iloc[at][["step", "loss"]]).mean())
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
    known = course.dropna(subset="noise_scale")[["noise_scale", "lower", "upper"]]
    if len(known) < 2:
        return Measure()
    logs = np.log(known.where(known > 0))  # NaN where a side is open
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
        ratio: Geometric mean of B_crit / B_noise.
        largest_factor: By which the two differ in the worst pair, 1 or more.
        n_within: Pairs that differ by less than `FACTOR`.
        decades: Spanned by the noise scales.

    References:
        McCandlish et al. (2018), arXiv 1812.06162, Sec. 3: the noise scale predicts the largest
        useful batch over six decades, r² = 80 %, to about an order of magnitude.
    """

    n_pairs: int
    n_left_out: int
    r_squared: float | None
    ratio: float
    largest_factor: float
    n_within: int
    decades: float


def agreement(pairs: pd.DataFrame) -> Agreement | None:
    """Compare noise scales with critical batch sizes, over tasks and targets.

    Args:
        pairs: One row per task, size and target: `noise_scale` and `b_crit` in examples, NaN where
            there is no point estimate.

    Returns:
        None with fewer than three pairs that have both.

    Example:
        >>> pairs = pd.DataFrame({"noise_scale": [10, 100, 1000], "b_crit": [20, 200, 500]})
        >>> found = agreement(pairs)
        >>> round(found.r_squared, 2), round(found.largest_factor, 1)
        (0.94, 2.0)
    """
    if pairs.empty:
        return None
    values = pairs[["noise_scale", "b_crit"]].to_numpy(float)
    known = values[(np.isfinite(values) & (values > 0)).all(axis=1)]
    if len(known) < FEWEST_PAIRS:
        return None
    x, y = np.log(known).T
    varies = min(np.ptp(x), np.ptp(y)) > SMALLEST_RANGE
    return Agreement(
        n_pairs=len(known),
        n_left_out=len(values) - len(known),
        r_squared=float(np.corrcoef(x, y)[0, 1] ** 2) if varies else None,
        ratio=float(np.exp((y - x).mean())),
        largest_factor=float(np.exp(np.abs(y - x).max())),
        n_within=int((np.abs(y - x) < math.log(FACTOR)).sum()),
        decades=float(np.ptp(x) / math.log(10)),
    )
