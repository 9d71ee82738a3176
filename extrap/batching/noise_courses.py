"""The gradient noise scale over training: its course and its growth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.noise import NoiseScale, mean_noise_scale, noise_course, telling_windows
from extrap.records import Interval, Measure, Runs

MOMENTS = ["grad_sq_norm", "grad_cov_trace"]


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


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _reach(row: pd.Series, side: str) -> float:
    """From the value of a window to an end of its interval, in ln B; infinite where it is open."""
    end = row[side]
    if not (end > 0 and math.isfinite(end)):
        return math.inf
    return abs(math.log(end / row["noise_scale"]))
