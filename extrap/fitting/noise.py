"""How much the loss of a run varies when nothing but its seed changes.

A seed fixes initialisation and data order, and a study uses the same seeds at every size. What a
seed does to all sizes alike shifts a law up or down but does not bend it; only the rest is
amplified by extrapolation. The two parts are therefore kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.records import Runs

__all__ = ["Noise", "estimate_noise"]

ROUNDING = 1e-24
"""Variance of a log loss below which only rounding is left."""
NEAR_OPTIMUM = 0.05
"""Only cells with a mean loss within 5 % of the best of their size: mistuned runs are noisier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Run-to-run noise of the log loss, in two parts.

    Attributes:
        own_sd: Standard deviation of what a seed does at one size only; `None` if unknown.
        own_dof: Degrees of freedom behind it.
        size_sd: Standard deviation of a seed's mean over the near-optimal values of one size: the
            part of `own_sd` that an optimum, which rests on all of them, does not average out.
        shared_sd: Standard deviation of what a seed does at all sizes alike; 0 where seeds differ
            between sizes.
        shared_dof: Degrees of freedom behind it, 0 if it was not estimated.
        source: `"replicates"`; `"parabola"`, the scatter of unreplicated runs about a parabola in
            the tuned values; `"surface"`, about the surfaces the optima come from, see
            `sharpen_noise`; or `"none"`.
        n_seeds: Seeds that occur at every size; their mean carries `shared_sd / √n_seeds`.
    """

    own_sd: float | None
    own_dof: int
    size_sd: float | None
    shared_sd: float = 0.0
    shared_dof: int = 0
    n_seeds: int = 1
    source: str = "replicates"

    @property
    def log_sd(self) -> float | None:
        """Standard deviation of the log loss of one run; `None` if unknown."""
        return None if self.own_sd is None else float(np.hypot(self.own_sd, self.shared_sd))


def estimate_noise(runs: Runs) -> Noise:
    """Variance components of the log loss over near-optimal cells.

    Where at least two seeds occur at every one of at least three sizes: two-way analysis of
    variance of the mean residual of each (size, seed). Otherwise the pooled within-cell variance;
    without any replicate the scatter about a parabola through the near-optimal runs of each size.

    Args:
        runs: A sweep; only complete rows count.

    References:
        Searle, Casella, McCulloch (1992), Variance Components: the analysis-of-variance estimator
        of a two-way crossed layout with one observation a cell.
    """
    near = _near_optimal(runs)
    n_sizes = near["size"].nunique()
    common = near.groupby("seed")["size"].transform("nunique") == n_sizes
    table = near[common].pivot_table(index="size", columns="seed", values="residual")
    (variance, dof), source = _pooled(near), "replicates"
    if dof and n_sizes >= 3 and table.shape[1] >= 2:
        return _variance_components(table.to_numpy(dtype=float), variance)
    if dof == 0:
        (variance, dof), source = _about_valley(runs), "parabola"
    if dof == 0:
        return Noise(own_sd=None, own_dof=0, size_sd=None, source="none")
    own_sd = float(np.sqrt(variance))
    return Noise(own_sd=own_sd, own_dof=dof, size_sd=own_sd, source=source)


def _near_optimal(runs: Runs) -> pd.DataFrame:
    """Replicated runs near the best of their size: numbers of size and cell, seed, residual."""
    complete = runs.complete().to_frame()
    frame = pd.DataFrame(
        {
            "size": complete.groupby(list(runs.sizes)).ngroup(),
            "cell": complete.groupby([*runs.sizes, *runs.tuned]).ngroup(),
            "seed": complete["seed"],
            "log_loss": np.log(complete["loss"].astype(float)),
        }
    )
    cells = frame.groupby("cell")["log_loss"]
    mean = cells.transform("mean")
    best = mean.groupby(frame["size"]).transform("min")
    near = (mean <= best + np.log1p(NEAR_OPTIMUM)) & (cells.transform("count") > 1)
    return frame.assign(residual=frame["log_loss"] - mean)[near]


def _about_valley(runs: Runs) -> tuple[float, int]:
    """Variance of single near-optimal runs about a parabola in log2 of the tuned values."""
    if not runs.tuned:
        return 0.0, 0
    frame = runs.complete().to_frame()
    squares, dof = 0.0, 0
    for _, group in frame.groupby(list(runs.sizes)):
        log_loss = np.log(group["loss"].to_numpy(dtype=float))
        near = log_loss <= log_loss.min() + np.log1p(NEAR_OPTIMUM)
        u = np.log2(group.loc[near, list(runs.tuned)].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(u)), u, u**2])
        residual = log_loss[near] - design @ np.linalg.lstsq(design, log_loss[near], rcond=None)[0]
        free = len(u) - int(np.linalg.matrix_rank(design))
        if free > 0:
            squares, dof = squares + float(residual @ residual), dof + free
    return (squares / dof, dof) if dof else (0.0, 0)


def _pooled(near: pd.DataFrame) -> tuple[float, int]:
    """Variance of one run about the mean of its cell, and its degrees of freedom.

    Replicates that agree to the last digit are copies of a row and tell nothing.
    """
    dof = len(near) - near["cell"].nunique()
    squares = float((near["residual"] ** 2).sum())
    return (squares / dof, dof) if squares > ROUNDING * dof else (0.0, 0)


def _variance_components(table: np.ndarray, pooled_variance: float) -> Noise:
    """Seed and residual variance of a (sizes, seeds) table of mean residuals.

    The residual part is at least what the pooled variance leaves after the seeds: a run is noisier
    than the mean over its neighbouring rates.
    """
    n_sizes, n_seeds = table.shape
    seed_means = table.mean(axis=0)
    seed_square = n_sizes * float(seed_means.var(ddof=1))
    rest = table - table.mean(axis=1, keepdims=True) - (seed_means - seed_means.mean())
    dof = (n_sizes - 1) * (n_seeds - 1)
    own_square = float((rest**2).sum()) / dof
    shared = max(0.0, (seed_square - own_square) / n_sizes)
    own = max(own_square, pooled_variance - shared)
    return Noise(
        own_sd=float(np.sqrt(own)),
        own_dof=dof,
        size_sd=float(np.sqrt(own_square)),
        shared_sd=float(np.sqrt(shared)),
        shared_dof=n_seeds - 1,
        n_seeds=n_seeds,
    )
