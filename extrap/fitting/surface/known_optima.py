"""The law of optima that are known but for an error, without the runs behind them.

The process is that of `optimum_process`. Given its spreads the law at any sizes is normal; what is
known of it is the mixture over the spreads, each with its posterior probability.

References:
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, Eq. 2.22–2.24 (prediction
    from noisy values), 5.8 (the evidence).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from extrap.fitting.distributions import NormalMixture
from extrap.fitting.surface.optimum_process import (
    LEAST_VARIANCE,
    SLOPE_SD,
    OptimumProcess,
    Probabilities,
)
from extrap.laws.base import Array


class LawPosterior(NamedTuple):
    """The law at T sizes under each of the spreads: means (G, T), covariances (G, T, T)."""

    means: Array
    covariances: Array


class KnownOptima:
    """What optima of one tuned column say of its law.

    Args:
        log_sizes: log2 of the sizes, (S, C).
        values: log2 of the optima, (S,).
        covariance: Of their errors, (S, S); may be zero.
        slope_sd: Prior standard deviation of a slope, in octaves per doubling.
        shared: As of the process.

    Attributes:
        process: The prior.
        weights: Posterior probability of each of its spreads, (G,).
        scatter_variances: Variance of an optimum about the law under each of them, (G,).
    """

    def __init__(
        self,
        log_sizes: Array,
        values: Array,
        covariance: Array,
        *,
        slope_sd: float = SLOPE_SD,
        shared: Probabilities | None = None,
    ) -> None:
        self.process = OptimumProcess(log_sizes, slope_sd=slope_sd, shared=shared)
        self.scatter_variances = np.array([s.scatter**2 for s in self.process.grid])
        self._log_sizes, self._covariance = log_sizes, covariance
        self._centre = float(np.median(values))
        self._off = values - self._centre
        marginal = self.process.covariances + covariance
        squares = np.linalg.solve(marginal, self._off[:, None])[..., 0] @ self._off
        log_det = np.linalg.slogdet(marginal)[1]
        logs = np.log(self.process.prior_probabilities) - 0.5 * log_det - 0.5 * squares
        self.weights: Array = special.softmax(logs)

    def posterior(self, targets: Array) -> LawPosterior:
        """The law at targets, log2 of sizes (T, C)."""
        start, sizes = float(targets.mean(axis=1).min()), self._log_sizes
        between = self.process.covariances_between
        cross = between(targets, sizes, start)
        marginal = between(sizes, sizes, start) + self._covariance
        marginal += self.scatter_variances[:, None, None] * np.eye(len(sizes))
        pull = np.linalg.solve(marginal, cross.transpose(0, 2, 1))
        covariances = between(targets, targets, start) - cross @ pull
        return LawPosterior(self._centre + self._off @ pull, covariances)

    def beyond(self, target: Array, error: float = 0.0) -> tuple[NormalMixture, NormalMixture]:
        """The law at one target, and an optimum there, which scatters about it, in octaves.

        Args:
            target: log2 of a size, (C,).
            error: Variance of the error with which the optimum is measured.
        """
        means, covariances = self.posterior(target[None])
        variances = covariances[:, 0, 0]
        law, optimum = variances, variances + self.scatter_variances + error
        return self._of(means[:, 0], law), self._of(means[:, 0], optimum)

    def _of(self, means: Array, variances: Array) -> NormalMixture:
        sds = np.sqrt(np.maximum(variances, LEAST_VARIANCE))
        return NormalMixture(weights=self.weights, means=means, sds=sds)

    def line(self) -> list[NormalMixture]:
        """Level at the mean log size, and slopes, of the line nearest to the law at the sizes.

        Least squares over the fitted sizes, in octaves and octaves per doubling: of a law that
        bends the mean slope.
        """
        off = self._log_sizes - self._log_sizes.mean(axis=0)
        combined = np.linalg.pinv(np.column_stack([np.ones(len(off)), off]))
        means, covariances = self.posterior(self._log_sizes)
        return [
            self._of(means @ row, np.einsum("i,gij,j->g", row, covariances, row))
            for row in combined
        ]
