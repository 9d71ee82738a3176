"""The surfaces of a table's runs with what the benchmarks ask of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from benchmarks.scores import LEVEL
from extrap.fitting.surface.draws import SizeDraws, draw
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of
from extrap.fitting.posterior import fit_posterior
from extrap.records import Runs

Array = np.ndarray
ENDS = (0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2)
LEAST_LOSS_SD, LEAST_DOF = 1e-5, 3
GAIN = 0.01


class Fitted:
    """The surfaces of some runs, and draws at targets.

    Args:
        runs: Of a sweep.
        targets: Sizes, (T, C).
    """

    def __init__(self, runs: Runs, targets: Sequence[Sequence[float]]) -> None:
        self.surfaces, self.weights = fit_surfaces(arrays_of(runs))
        logs = np.log2(np.array(targets, dtype=float))
        rng = np.random.default_rng(0)
        self.draws, self.losses = draw(self.surfaces, self.weights, logs, rng=rng)

    @property
    def optima(self) -> Array:
        """log2 of the optima of the fitted sizes, (S, D)."""
        each = [surface.theta[surface.places.optimum] for surface in self.surfaces]
        return np.tensordot(self.weights, np.array(each), axes=1)

    @property
    def heaviest(self) -> Surface:
        """The likeliest surface."""
        return self.surfaces[int(np.argmax(self.weights))]

    def log_losses(self, targets: Array) -> Array:
        """Log loss at targets of one size column by today's laws through l_s: (T, 3).

        Mean and interval of a new run, with 1 % of what is still gained as in today's forecasts.
        """
        surface, noise = self.heaviest, self.heaviest.noise
        done = surface.sweep.size[~surface.sweep.diverged]
        seen = np.isin(np.arange(surface.shape[0]), done)
        loss, (sd, common) = np.exp(self.losses.mean(axis=0)), errors_of(self.losses)
        sizes, dof = 2.0 ** surface.sweep.log_sizes[seen, 0], max(int(noise.dof), LEAST_DOF)
        law = fit_posterior(
            "size",
            sizes,
            loss[seen],
            loss_se=(loss * np.maximum(sd, LEAST_LOSS_SD))[seen],
            loss_se_dof=dof,
        )
        mean, variance = law.predict_log(targets)
        gained = mean - law.predict_log(sizes[-1:])[0]
        run = noise.sigma**2 + noise.common_sd**2 + noise.own_sd**2 + common**2
        half = stats.t.ppf(ENDS[2], dof) * np.sqrt(variance + (GAIN * gained) ** 2 + run)
        return np.column_stack([mean, mean - half, mean + half])


def errors_of(losses: Array) -> tuple[Array, float]:
    """Standard deviations of log losses (n, S), (S,), beside an error that all have in common."""
    common = losses.mean(axis=1)
    return (losses - common[:, None]).std(axis=0), float(common.std())


def ends_of(draws: SizeDraws, j: int = 0) -> dict[str, float]:
    """Median and interval of an optimum."""
    quantiles = np.quantile(draws.optimum[:, j], ENDS)
    return dict(zip(("low", "mid", "high"), map(float, quantiles), strict=True))
