"""The noise of runs about a surface whose mode is held: from cells, residuals and seed effects."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from extrap.fitting.one_surface.sweep_arrays import Indices
from extrap.laws.base import Array

SIGMA, SIGMA_SD = 0.006, 1.2
"""Median of a run's noise, and standard deviation of its logarithm: .2 to 2 % within one."""
SHARE, SHARE_SD = 0.1, 0.8
"""The same of the misfit, as a share of the excess."""
GROWTH_SD = 0.25
"""Of the slope of ln noise a doubling."""
COMMON, OWN = (1.5, 3.0), (1.0, 4.0)
"""Beta distributions of the share of the variance that a seed has at all sizes, and at one."""
FLOOR = 2e-4
"""Of the noise: losses are written with so many digits."""
LEAST_SD = 1e-4
"""Of seed effects."""
MOST_SDS = 4.0
"""Residuals count up to that many standard deviations."""
FEWEST_SIZES = 3
"""From which on noise may grow with size."""
LEAST_DOF = 2.0
SIGMAS = np.linspace(math.log(3e-4), math.log(0.2), 40)
SHARES = math.log(SHARE) + SHARE_SD * np.linspace(-2, 2.7, 9)
GROWTHS = GROWTH_SD * np.array([-2, -1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1.0])
VARIANCE_SHARES = (np.arange(60) + 0.5) / 60
"""Grids over which posterior means are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceNoise:
    """Noise of a run about the surface.

    Attributes:
        sigma: Standard deviation of a log loss at the largest size, seed effects aside.
        growth: Slope of its logarithm a doubling.
        share: Misfit as a share of the excess.
        common_sd: Of the effect that a seed has at all sizes.
        own_sd: Of the effect that a seed has at one size.
        dof: Degrees of freedom of sigma.
    """

    sigma: float
    growth: float = 0.0
    share: float = SHARE
    common_sd: float = LEAST_SD
    own_sd: float = LEAST_SD
    dof: float = 3.0

    def variances(self, excess: Array, size_logs: Array, extra: Array) -> tuple[Array, Array]:
        """Of runs, from noise and from misfit.

        Args:
            excess: Of the runs, log.
            size_logs: Mean log2 of their sizes over the largest.
            extra: Standard deviation of what was completed.
        """
        own = self.sigma**2 * np.exp(2 * self.growth * size_logs) + extra**2 + FLOOR**2
        return own, (self.share * excess) ** 2

    def log_prior(self) -> float:
        """Of sigma and share."""
        share = math.log(self.share / SHARE) / SHARE_SD
        return -0.5 * (share**2 + (math.log(self.sigma / SIGMA) / SIGMA_SD) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellMeans:
    """What the cells of a sweep say of the noise: sufficient statistics, one entry per cell.

    Attributes:
        n: Runs.
        mean: Of their residuals.
        within: Sum of squares about it.
        size_logs: Mean log2 of the size over the largest.
        excess: Mean excess.
        left: Share of the mean's variance that the mode has not taken up, one less its leverage.
    """

    n: Array
    mean: Array
    within: Array
    size_logs: Array
    excess: Array
    left: Array

    @classmethod
    def of(
        cls, cell: Indices, residual: Array, *, size_logs: Array, excess: Array, leverage: Array
    ) -> CellMeans:
        """From runs: their cells, residuals, sizes, excesses and leverages."""
        _, number = np.unique(cell, return_inverse=True)
        n = np.bincount(number).astype(float)

        def averaged(values: Array) -> Array:
            return np.asarray(np.bincount(number, values) / n)

        mean = averaged(residual)
        return cls(
            n=n,
            mean=mean,
            within=np.asarray(np.bincount(number, (residual - mean[number]) ** 2), dtype=float),
            size_logs=averaged(size_logs),
            excess=averaged(excess),
            left=np.clip(1 - np.bincount(number, leverage), 0.02, 1),
        )

    def log_likelihood(self, sigma: Array, growth: Array, share: Array) -> Array:
        """Of ln sigma, growth and ln share, which broadcast; the last axis must be cells'."""
        own = np.exp(2 * sigma + 2 * growth * self.size_logs) + FLOOR**2
        misfit = np.exp(2 * share) * self.excess**2
        run, mean = own + misfit, own / self.n + misfit
        logs = (self.n - 1) * np.log(run) + self.within / run
        logs = logs + self.left * np.log(mean) + self.mean**2 / mean
        return np.asarray(-0.5 * logs.sum(axis=-1))


def estimate(cells: CellMeans, now: SurfaceNoise, *, n_sizes: int) -> SurfaceNoise:
    """Posterior means of sigma, its growth and the share of misfit; the mode is held.

    Args:
        cells: What the cells say.
        now: The noise of before: its growth is held while the share is found.
        n_sizes: Of the sweep.
    """
    of_sigma = -0.5 * ((SIGMAS - math.log(SIGMA)) / SIGMA_SD) ** 2
    grid = cells.log_likelihood(SIGMAS[:, None, None], np.array(now.growth), SHARES[:, None])
    of_share = -0.5 * ((SHARES - math.log(SHARE)) / SHARE_SD) ** 2
    weights = _normalised(grid + of_sigma[:, None] + of_share)
    share, growth = float(np.exp(weights.sum(axis=0) @ SHARES)), 0.0
    if n_sizes >= FEWEST_SIZES:
        log_share = np.array(math.log(share))
        grid = cells.log_likelihood(SIGMAS[:, None, None], GROWTHS[:, None], log_share)
        weights = _normalised(grid + of_sigma[:, None] - 0.5 * (GROWTHS / GROWTH_SD) ** 2)
        growth = float(weights.sum(axis=0) @ GROWTHS)
    of_sigma = weights.sum(axis=1)
    log_sigma = float(of_sigma @ SIGMAS)
    variance = max(4 * float(of_sigma @ (SIGMAS - log_sigma) ** 2), 1e-4)  # of ln sigma²
    dof = max(2 / variance, LEAST_DOF)
    return SurfaceNoise(sigma=math.exp(log_sigma), growth=growth, share=share, dof=dof)


def seed_sd(
    effects: Array, variances: Array, *, sigma: float, now: float, shares: tuple[float, float]
) -> float:
    """Posterior mean of ln sd of seed effects, from their modes.

    Args:
        effects: Their modes.
        variances: Posterior variances of them, under `now`.
        sigma: Noise of a run.
        now: Their standard deviation of before, which the modes were found with.
        shares: Beta distribution of their share of the variance.
    """
    if not len(effects):
        return 0.0
    raw = 1 / np.maximum(1 / variances - max(now, LEAST_SD) ** -2, 1e-12)
    raw = np.clip(raw, 1e-12, 1e6)
    seen = effects * raw / variances  # without their prior
    squares = sigma**2 * VARIANCE_SHARES / (1 - VARIANCE_SHARES)
    total = squares[:, None] + raw
    logs = (shares[0] - 1) * np.log(VARIANCE_SHARES) + (shares[1] - 1) * np.log1p(-VARIANCE_SHARES)
    weights = _normalised(logs - 0.5 * (np.log(total) + seen**2 / total).sum(axis=1))
    return float(np.exp(weights @ np.log(squares) / 2))


def _normalised(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
