"""The noise of runs about a surface whose mode is held: from cells, residuals and seed effects.

Its priors are weak and were not chosen on any table. Whether draws are as wide as noise makes
them: `python -m benchmarks.surface_calibration`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from extrap.fitting.surface.sweep_arrays import Indices
from extrap.laws.base import Array

SIGMA, SIGMA_SD = 0.006, 1.2
"""Median of a run's noise, and standard deviation of its logarithm: .2 to 2 % within one."""
MISFIT_SHARE, MISFIT_SHARE_SD = 0.1, 0.8
"""Median of the misfit as a share of the excess, and standard deviation of its logarithm."""
GROWTH_SD = 0.25
"""Prior standard deviation of the slope of ln noise per doubling of the size."""
COMMON_SHARE_PRIOR, OWN_SHARE_PRIOR = (1.5, 3.0), (1.0, 4.0)
"""Beta distributions of the share of the variance that a seed has at all sizes, and at one."""
LEAST_NOISE_SD = 2e-4
"""Least standard deviation of a log loss: losses are written with few digits."""
LEAST_EFFECT_SD = 1e-4
"""Least standard deviation of seed effects."""
MOST_SDS = 4.0
"""Residuals count up to that many standard deviations."""
LEAST_SIZES_OF_GROWTH = 3
"""From which on noise may grow with size."""
LEAST_SIGMA_DOF = 2.0
"""Degrees of freedom of sigma at least."""
NONE: Array = np.zeros(0)
SIGMAS = np.linspace(math.log(3e-4), math.log(0.2), 20)
MISFIT_SHARES = math.log(MISFIT_SHARE) + MISFIT_SHARE_SD * np.linspace(-2, 2.7, 7)
SIGMA_STEPS, MISFIT_SHARE_STEPS = np.linspace(-4, 4, 21), np.linspace(-3, 3, 9)
"""First grids of ln sigma and ln share; points of finer grids, in standard deviations about the
means of the coarser ones."""
GROWTHS = GROWTH_SD * np.linspace(-3, 3, 25)
VARIANCE_SHARES = (np.arange(60) + 0.5) / 60
"""Grids of growth, and of the share of the variance that seed effects have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceNoise:
    """Noise of a run about the surface.

    Attributes:
        sigma: Standard deviation of a log loss at the largest size, seed effects aside.
        growth: Slope of its logarithm a doubling.
        share: Misfit as a share of the excess.
        common_sd: Of the effect that a seed has at all sizes, at the largest.
        own_sd: Of the effect that a seed has at one size; both grow as sigma does.
        dof: Degrees of freedom of sigma.
    """

    sigma: float
    growth: float = 0.0
    share: float = MISFIT_SHARE
    common_sd: float = LEAST_EFFECT_SD
    own_sd: float = LEAST_EFFECT_SD
    dof: float = 3.0

    def variances(self, excess: Array, size_logs: Array, extra: Array) -> tuple[Array, Array]:
        """Variances of log losses of runs: that from noise, and that from misfit.

        Args:
            excess: Log excess of the runs.
            size_logs: Mean log2 of their sizes over the largest.
            extra: Standard deviation of what was completed.
        """
        noise_variance = (self.sigma * self.growths(size_logs)) ** 2 + extra**2 + LEAST_NOISE_SD**2
        return noise_variance, (self.share * excess) ** 2

    def damped(self, before: SurfaceNoise) -> SurfaceNoise:
        """Halfway from the noise of the previous pass, so that passes do not oscillate."""
        names = ("sigma", "share", "common_sd", "own_sd")
        pairs = [(getattr(before, name), getattr(self, name)) for name in names]
        middle = {name: math.sqrt(a * b) for name, (a, b) in zip(names, pairs, strict=True)}
        return replace(self, growth=(before.growth + self.growth) / 2, **middle)

    def growths(self, size_logs: Array) -> Array:
        """Noise at sizes, mean log2 over the largest, as a multiple of that at the largest."""
        return np.asarray(np.exp(self.growth * size_logs))


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
        """Log likelihood of ln sigma, growth and ln share, which broadcast; last axis: cells."""
        noise_variance = np.exp(2 * sigma + 2 * growth * self.size_logs) + LEAST_NOISE_SD**2
        misfit = np.exp(2 * share) * self.excess**2
        run, mean = noise_variance + misfit, noise_variance / self.n + misfit
        logs = self.left * np.log(mean) + self.mean**2 / mean
        if (self.n > 1).any():
            logs += (self.n - 1) * np.log(run) + self.within / run
        return np.asarray(-0.5 * logs.sum(axis=-1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisePosterior:
    """Probabilities of the noise on grids, the mode of the surface held.

    Attributes:
        sigmas, growths, shares: Grids of ln sigma, of growth and of ln share, (I,), (J,), (H,).
        of_growth: Joint probabilities of sigma and growth, (I, J).
        of_share: Joint probabilities of sigma and share, (I, H).
        of_common, of_own: Probabilities of `VARIANCE_SHARES` of the seed effects; empty without.
    """

    sigmas: Array
    growths: Array
    shares: Array
    of_growth: Array
    of_share: Array
    of_common: Array
    of_own: Array

    def mean(self) -> SurfaceNoise:
        """Posterior means, those of scales as of their logarithms."""
        of_sigma = self.of_growth.sum(axis=1)
        log_sigma = float(of_sigma @ self.sigmas)
        variance = max(4 * float(of_sigma @ (self.sigmas - log_sigma) ** 2), 1e-4)  # of ln sigma²
        logs = 0.5 * np.log(VARIANCE_SHARES / (1 - VARIANCE_SHARES))
        common_sd, own_sd = (
            math.exp(log_sigma + float(part @ logs)) if len(part) else 0.0
            for part in (self.of_common, self.of_own)
        )
        return SurfaceNoise(
            sigma=math.exp(log_sigma),
            growth=float(self.of_growth.sum(axis=0) @ self.growths),
            share=math.exp(float(self.of_share.sum(axis=0) @ self.shares)),
            common_sd=common_sd,
            own_sd=own_sd,
            dof=max(2 / variance, LEAST_SIGMA_DOF),
        )

    def draw(self, n: int, rng: np.random.Generator) -> tuple[SurfaceNoise, Array]:
        """One draw of growth, share and seed effects, and n of sigma given these."""
        growth = rng.choice(len(self.growths), p=self.of_growth.sum(axis=0))
        share = rng.choice(len(self.shares), p=self.of_share.sum(axis=0))
        pair, of_sigma = self.of_growth[:, growth] * self.of_share[:, share], self.of_growth.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(pair > 0, np.log(pair) - np.log(of_sigma), -np.inf)
        of_sigma, half = _normalised(logs), (self.sigmas[1] - self.sigmas[0]) / 2
        sigmas = rng.choice(self.sigmas, n, p=of_sigma) + rng.uniform(-half, half, n)
        ratios = [
            math.sqrt(chosen / (1 - chosen)) if chosen else 0.0
            for chosen in (
                rng.choice(VARIANCE_SHARES, p=part) if len(part) else 0.0
                for part in (self.of_common, self.of_own)
            )
        ]
        sigma = math.exp(float(of_sigma @ self.sigmas))
        noise = SurfaceNoise(
            sigma=sigma,
            growth=float(self.growths[growth]),
            share=math.exp(self.shares[share]),
            common_sd=ratios[0] * sigma,
            own_sd=ratios[1] * sigma,
        )
        return noise, np.exp(sigmas) / sigma


def estimate(cells: CellMeans, now: SurfaceNoise, *, n_sizes: int) -> NoisePosterior:
    """Posterior of sigma, its growth and the share of misfit; the mode is held.

    Args:
        cells: What the cells say.
        now: The noise of before: its growth is held while the share is found.
        n_sizes: Of the sweep.
    """
    growth = np.array(now.growth)
    first = _of_share(cells, SIGMAS, MISFIT_SHARES, growth)
    sigmas = _about(SIGMAS, first.sum(axis=1), SIGMA_STEPS)
    shares = _about(MISFIT_SHARES, first.sum(axis=0), MISFIT_SHARE_STEPS)
    of_share = _of_share(cells, sigmas, shares, growth)
    sigmas = _about(sigmas, of_share.sum(axis=1), SIGMA_STEPS)
    shares = _about(shares, of_share.sum(axis=0), MISFIT_SHARE_STEPS)
    of_share = _of_share(cells, sigmas, shares, growth)
    log_share = of_share.sum(axis=0) @ shares
    growths = GROWTHS if n_sizes >= LEAST_SIZES_OF_GROWTH else np.zeros(1)
    grid = cells.log_likelihood(sigmas[:, None, None], growths[:, None], log_share)
    of_growth = _log_prior(sigmas)[:, None] - 0.5 * (growths / GROWTH_SD) ** 2
    return NoisePosterior(
        sigmas=sigmas,
        growths=growths,
        shares=shares,
        of_growth=_normalised(grid + of_growth),
        of_share=of_share,
        of_common=NONE,
        of_own=NONE,
    )


def _of_share(cells: CellMeans, sigmas: Array, shares: Array, growth: Array) -> Array:
    """Joint probabilities of ln sigma and ln share."""
    logs = cells.log_likelihood(sigmas[:, None, None], growth, shares[:, None])
    of_share = -0.5 * ((shares - math.log(MISFIT_SHARE)) / MISFIT_SHARE_SD) ** 2
    return _normalised(logs + _log_prior(sigmas)[:, None] + of_share)


def _about(grid: Array, weights: Array, steps: Array) -> Array:
    """A grid of so many standard deviations about the mean of a coarser one."""
    mean = float(weights @ grid)
    sd = math.hypot(math.sqrt(float(weights @ (grid - mean) ** 2)), (grid[1] - grid[0]) / 3)
    return np.asarray(mean + sd * steps)


def of_seeds(
    effects: Array, variances: Array, *, sigma: float, now: float, shares: tuple[float, float]
) -> Array:
    """Probabilities of `VARIANCE_SHARES`, from modes of seed effects; empty without effects.

    Args:
        effects: Their modes.
        variances: Posterior variances of them, under `now`.
        sigma: Noise of a run where the effects are not scaled.
        now: Their standard deviation of before, which the modes were found with.
        shares: Beta distribution of their share of the variance.
    """
    if not len(effects):
        return NONE
    raw = 1 / np.maximum(1 / variances - max(now, LEAST_EFFECT_SD) ** -2.0, 1e-12)
    raw = np.clip(raw, 1e-12, 1e6)
    seen = effects * raw / variances  # without their prior
    squares = sigma**2 * VARIANCE_SHARES / (1 - VARIANCE_SHARES)
    total = squares[:, None] + raw
    logs = (shares[0] - 1) * np.log(VARIANCE_SHARES) + (shares[1] - 1) * np.log1p(-VARIANCE_SHARES)
    return _normalised(logs - 0.5 * (np.log(total) + seen**2 / total).sum(axis=1))


def _log_prior(sigmas: Array) -> Array:
    return np.asarray(-0.5 * ((sigmas - math.log(SIGMA)) / SIGMA_SD) ** 2)


def _normalised(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
