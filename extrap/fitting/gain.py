"""The gain of a variant over size: shapes, bends and scatter averaged by their probability.

Laws of both recipes leave the difference of two large numbers open: their intervals are three to
five times as wide as what a gain does, and three or four sizes with one seed have none. What is
known of gains beforehand is more: language models of one recipe differ by about .1 to .2 % from
run to run, and a gain mostly moves by about .5 % a doubling of size or less, evenly or ever less.
Where the runs show more, that counts. A gain is `ln(L_base / L_variant)` throughout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extrap.fitting.distributions import NormalMixture
from extrap.laws.base import Array

DECAY_RATES = (0.0, 0.1, 0.25, 0.5)
"""How fast the change of a gain dies out per doubling, equally likely; at 0 it goes on. Chosen
like those below on simulated pairs, other than those of the report (`benchmarks.gains`)."""
PER_DOUBLING = {0.005: 0.8, 0.03: 0.2}
"""Standard deviations of the change of a gain per doubling at the smallest size → their prior
probabilities."""
GAIN_SD = 0.1
"""Prior standard deviation of the gain at the smallest size."""
BEND_SDS = {0.0: 0.85, 0.001: 0.07, 0.003: 0.06, 0.01: 0.02}
"""Standard deviations of the change of the slope over a doubling → their prior probabilities."""
USUAL_GAIN, LARGE_BEND_SD = 0.03, 0.0002
"""The prior widens in proportion where a gain is larger; the slope then changes by at least the
second, for each time that it is larger."""
SCATTER, SCATTER_DOF = 0.0015, 1.5
"""Standard deviation of the log ratio of a pair of runs, and its worth in degrees of freedom."""
SCATTER_GRID = np.geomspace(0.0003, 0.05, 16)
"""Grid on which it is averaged."""
SEED_VARIANCE_RATIO = 0.35 / 0.65
"""Variance that a seed has at all sizes alike, over the rest of its own."""
MIN_WEIGHT = 1e-5
"""Components of a smaller posterior probability are left out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Gains at some sizes.

    Attributes:
        columns: Size columns of the law.
        sizes: The sizes in these, shape (n, n_columns).
        gains: Mean `ln(L_base / L_variant)` there, shape (n,).
        n_pairs: Pairs of runs behind each, shape (n,).
        squares: Sum of squares of pairs about the means of their sizes.
        dof: Degrees of freedom behind that.
        variances: Further variance of each gain, shape (n,); none by default.
    """

    columns: Sequence[str]
    sizes: Sequence[Sequence[float]]
    gains: Sequence[float]
    n_pairs: Sequence[float]
    squares: float = 0.0
    dof: float = 0.0
    variances: Sequence[float] = ()

    @property
    def doublings(self) -> Array:
        """log2 of each size over the smallest one in each column, shape (n, n_columns)."""
        logs = np.log2(np.array(self.sizes, dtype=float))
        return np.asarray(logs - logs.min(axis=0))

    def with_one(self, size: Mapping[str, float], gain: float, scatter: float, n: int) -> Pairs:
        """With the mean of n more pairs at one size, which scatter as expected."""
        return replace(
            self,
            sizes=(*self.sizes, [size[column] for column in self.columns]),
            gains=(*self.gains, gain),
            n_pairs=(*self.n_pairs, n),
            squares=self.squares + (n - 1) * scatter**2,
            dof=self.dof + n - 1,
            variances=(*self.variances, 0.0) if self.variances else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainLaw:
    """Mixture of `g(u) = a + Σ_j b_j (1 − 2^(−k u_j)) / k`, u_j doublings from the smallest.

    Beyond the largest size in a column the slope there wanders with standard deviation s a
    doubling.

    Attributes:
        pairs: What it was fitted to.
        weights: Posterior probabilities, shape (n,), sum to 1.
        rates: k, shape (n,).
        bends: s, shape (n,).
        scatters: Standard deviation of the log ratio of a pair of runs, shape (n,).
        means: Of a and b, shape (n, 1 + n_columns).
        covariances: Shape (n, 1 + n_columns, 1 + n_columns).
    """

    pairs: Pairs
    weights: Array
    rates: Array
    bends: Array
    scatters: Array
    means: Array
    covariances: Array

    @property
    def scatter(self) -> float:
        """Root mean square of the standard deviations of a pair."""
        return float(np.sqrt(self.weights @ self.scatters**2))

    def predict(self, size: Mapping[str, float]) -> NormalMixture:
        """The gain at a size, in log loss."""
        pairs = self.pairs
        logs = np.log2([size[column] for column in pairs.columns])
        doublings = logs - np.log2(np.min(pairs.sizes, axis=0))
        design = _design(doublings[None], self.rates)[:, 0]
        variance = np.einsum("ni,nij,nj->n", design, self.covariances, design)
        off = np.abs(doublings - pairs.doublings.max(axis=0))
        variance += self.bends**2 * float((off**3).sum()) / 3
        means = (design * self.means).sum(axis=1)
        return NormalMixture(weights=self.weights, means=means, sds=np.sqrt(variance))

    def runs_at(self, size: Mapping[str, float], n: int) -> NormalMixture:
        """The mean gain that n new pairs of runs there would show, in log loss."""
        gain = self.predict(size)
        return replace(gain, sds=np.hypot(gain.sds, self.scatters / np.sqrt(n)))


def fit_gain(pairs: Pairs) -> GainLaw:
    """Average the shapes of a gain, its bends and the scatter by their posterior probability.

    The scatter has a scaled inverse χ² prior; a, b and the wandering slope, an integrated Brownian
    motion from the largest size, are normal.

    Args:
        pairs: The measured gains.

    Returns:
        The posterior, a mixture.

    References:
        Gelman et al. (2013), Bayesian data analysis, Sec. 14.8 (regression with a normal prior)
        and 7.4 (averaging by evidence). Wahba (1978), Improper priors, spline smoothing and the
        problem of guarding against model errors, J. R. Stat. Soc. B 40 (a slope that wanders).
    """
    u, d = pairs.doublings, np.asarray(pairs.gains, dtype=float)
    times = max(1.0, float(np.abs(d).max()) / USUAL_GAIN)
    grid = itertools.product(
        DECAY_RATES, PER_DOUBLING.items(), BEND_SDS.items(), SCATTER_GRID.tolist()
    )
    rate, change, p, bend, q, scatter = np.array([(k, *b, *s, sd) for k, b, s, sd in grid]).T
    share = times / math.sqrt(u.shape[1])  # sizes that grow in all columns change as in one
    change, chance = share * change, p * q
    bend = np.maximum(share * bend, LARGE_BEND_SD * (times - 1))
    design = _design(u, rate)
    prior = np.zeros((len(rate), design.shape[2], design.shape[2]))
    prior[:, 0, 0] = (times * GAIN_SD) ** 2
    for j in range(1, design.shape[2]):
        prior[:, j, j] = change**2
    n = np.asarray(pairs.n_pairs, dtype=float)
    shared = SEED_VARIANCE_RATIO / np.maximum.outer(n, n)  # sizes have the first seeds in common
    errors = scatter[:, None, None] ** 2 * (np.diag(1 / n) + shared)
    errors = errors + bend[:, None, None] ** 2 * _wandering(u.max(axis=0) - u)
    errors = errors + np.diag(pairs.variances if pairs.variances else np.zeros(len(u)))
    across = design @ prior
    root = np.linalg.cholesky(across @ design.swapaxes(1, 2) + errors)
    whitened = np.linalg.solve(root, np.broadcast_to(d[:, None], (len(rate), len(u), 1)))
    scaled = np.linalg.solve(root, across)
    evidence = np.log(chance) - 0.5 * (whitened**2).sum(axis=(1, 2))
    evidence -= np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    evidence -= (SCATTER_DOF + pairs.dof) * np.log(scatter)
    evidence -= (SCATTER_DOF * SCATTER**2 + pairs.squares) / (2 * scatter**2)
    weights = np.exp(evidence - evidence.max())
    is_kept = weights > MIN_WEIGHT * weights.sum()
    return GainLaw(
        pairs=pairs,
        weights=weights[is_kept] / weights[is_kept].sum(),
        rates=rate[is_kept],
        bends=bend[is_kept],
        scatters=scatter[is_kept],
        means=np.asarray((scaled.swapaxes(1, 2) @ whitened)[is_kept, :, 0], dtype=float),
        covariances=np.asarray((prior - scaled.swapaxes(1, 2) @ scaled)[is_kept], dtype=float),
    )


def _design(doublings: Array, rates: Array) -> Array:
    """1 and `(1 − 2^(−k u)) / k`, u where k is 0, shape (n_rates, n_sizes, 1 + n_columns)."""
    rates = rates[:, None, None]
    safe = np.where(rates == 0, 1.0, rates)
    fading = -np.expm1(-np.log(2) * safe * doublings) / safe
    progress = np.where(rates == 0, doublings, fading)
    return np.concatenate([np.ones_like(progress[..., :1]), progress], axis=2)


def _wandering(distances: Array) -> Array:
    """Covariances of integrals of Brownian motions, one a column, at distances (n, n_columns)."""
    near, far = (of.outer(distances.T, distances.T) for of in (np.minimum, np.maximum))
    columns = np.arange(distances.shape[1])
    near, far = near[columns, :, columns], far[columns, :, columns]
    return np.asarray((near**2 * (3 * far - near)).sum(axis=0) / 6)
