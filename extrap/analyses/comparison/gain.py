"""The gain of a variant over size: shapes, bends and scatter averaged by their probability.

Laws of both recipes leave the difference of two large numbers open: their intervals are three to
five times as wide as what a gain does, and three or four sizes with one seed have none. What is
known of gains beforehand is more: language models of one recipe differ by about .1 to .2 % from
run to run, and a gain moves by about .7 % a doubling of size or less, evenly or ever less. Where
the runs show more, that counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import optimize, special

from extrap.laws.base import Array
from extrap.records import Interval

RATES = (0.0, 0.1, 0.25, 0.5)
"""How fast the change of a gain dies out per doubling, equally likely; at 0 it goes on. Chosen
like those below on simulated pairs, other than those of the report (`benchmarks.gains`)."""
PER_DOUBLING = {0.005: 0.8, 0.03: 0.2}
"""Standard deviations of the change of a gain per doubling at the smallest size, and their prior
probabilities."""
ANY = 0.1
"""That of the gain there."""
BENDS = {0.0: 0.85, 0.001: 0.07, 0.003: 0.06, 0.01: 0.02}
"""Those of what the slope changes by over a doubling, and their prior probabilities."""
USUAL_GAIN = 0.03
"""Gains beyond it change in proportion."""
SCATTER, SCATTER_DOF = 0.0015, 2.0
"""Standard deviation of the log ratio of a pair of runs, and its worth in degrees of freedom."""
SCATTERS = np.geomspace(0.0003, 0.05, 16)
"""Grid on which it is averaged."""
COMMON = 0.35 / 0.65
"""Variance that a seed has at all sizes alike, over the rest of its own."""
NEGLIGIBLE, FAR = 1e-5, 10.0
"""Weight of what is left out; standard deviations within which the end of an interval lies."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Gains at some sizes, smallest first.

    Attributes:
        doublings: log2 of each size over the smallest one, shape (n,).
        gains: Mean `ln(L_base / L_variant)` there, shape (n,).
        n_pairs: Pairs of runs behind each, shape (n,).
        squares: Sum of squares of pairs about the means of their sizes.
        dof: Degrees of freedom behind that.
        variances: What else each gain errs by, shape (n,); nothing by default.
    """

    doublings: Sequence[float]
    gains: Sequence[float]
    n_pairs: Sequence[float]
    squares: float = 0.0
    dof: float = 0.0
    variances: Sequence[float] = ()

    def with_one(self, doublings: float, gain: float, scatter: float, n: int) -> Pairs:
        """With the mean of n more pairs at one size, which scatter as expected."""
        return replace(
            self,
            doublings=(*self.doublings, doublings),
            gains=(*self.gains, gain),
            n_pairs=(*self.n_pairs, n),
            squares=self.squares + (n - 1) * scatter**2,
            dof=self.dof + n - 1,
            variances=(*self.variances, 0.0) if self.variances else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gain:
    """A gain at one size: a mixture of normal distributions of `ln(L_base / L_variant)`.

    Attributes:
        weights: Shape (n,), sum to 1.
        means: Shape (n,).
        sds: Shape (n,).
    """

    weights: Array
    means: Array
    sds: Array

    @property
    def mean(self) -> float:
        """Of the mixture."""
        return float(self.weights @ self.means)

    def chance_below(self, gain: float) -> float:
        """Probability that the gain is below a number."""
        return float(self.weights @ special.ndtr((gain - self.means) / self.sds))

    def quantile(self, share: float) -> float:
        """The gain that is exceeded with probability 1 − share."""
        low = float((self.means - FAR * self.sds).min())
        high = float((self.means + FAR * self.sds).max())
        return float(optimize.brentq(lambda gain: self.chance_below(gain) - share, low, high))

    def interval(self, level: float) -> Interval:
        """Between quantiles that leave as much below as above."""
        return Interval(self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainLaw:
    """Mixture over j of `g(u) = a_j + b_j (1 − 2^(−k_j u)) / k_j`, u doublings from the smallest.

    Beyond the largest size the slope wanders with standard deviation s_j a doubling.

    Attributes:
        pairs: What it was fitted to.
        weights: Posterior probabilities, shape (n,), sum to 1.
        rates: k, shape (n,).
        bends: s, shape (n,).
        scatters: Standard deviation of the log ratio of a pair of runs, shape (n,).
        means: Of a and b, shape (n, 2).
        covariances: Shape (n, 2, 2).
    """

    pairs: Pairs
    weights: Array
    rates: Array
    bends: Array
    scatters: Array
    means: Array
    covariances: Array
    largest: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", max(self.pairs.doublings))

    @property
    def scatter(self) -> float:
        """Root mean square of the standard deviations of a pair."""
        return float(np.sqrt(self.weights @ self.scatters**2))

    def at(self, doublings: float) -> Gain:
        """The gain so many doublings from the smallest size."""
        design = np.column_stack([np.ones(len(self.rates)), _progress(doublings, self.rates)])
        variance = np.einsum("ni,nij,nj->n", design, self.covariances, design)
        variance += self.bends**2 * abs(doublings - self.largest) ** 3 / 3
        means = (design * self.means).sum(axis=1)
        return Gain(weights=self.weights, means=means, sds=np.sqrt(variance))

    def runs_at(self, doublings: float, n: int) -> Gain:
        """What the mean of n new pairs of runs there would show."""
        gain = self.at(doublings)
        return replace(gain, sds=np.hypot(gain.sds, self.scatters / np.sqrt(n)))


def fit_gain(pairs: Pairs) -> GainLaw:
    """Average the shapes of a gain, its bends and the scatter by their posterior probability.

    The scatter has a scaled inverse χ² prior; a, b and the wandering slope, an integrated Brownian
    motion from the largest size, are normal.

    References:
        Gelman et al. (2013), Bayesian data analysis, Eq. 14.4 and 7.15 (averaging). Wahba (1978),
        Improper priors, spline smoothing..., J. R. Stat. Soc. B 40, Eq. 1.7 (wandering slope).
    """
    u, d = np.asarray(pairs.doublings, dtype=float), np.asarray(pairs.gains, dtype=float)
    times = max(1.0, float(np.abs(d).max()) / USUAL_GAIN)
    grid = itertools.product(RATES, PER_DOUBLING.items(), BENDS.items(), SCATTERS.tolist())
    rate, change, p, bend, q, scatter = np.array([(k, *b, *s, sd) for k, b, s, sd in grid]).T
    change, bend, chance = times * change, times * bend, p * q
    prior = np.zeros((len(rate), 2, 2))
    prior[:, 0, 0], prior[:, 1, 1] = ANY**2, change**2
    design = np.stack([np.ones((len(rate), len(u))), _progress(u, rate[:, None])], axis=2)
    n = np.asarray(pairs.n_pairs, dtype=float)
    shared = COMMON / np.maximum.outer(n, n)  # sizes have the first seeds in common
    errors = scatter[:, None, None] ** 2 * (np.diag(1 / n) + shared)
    errors = errors + bend[:, None, None] ** 2 * _wandering(u.max() - u)
    errors = errors + np.diag(pairs.variances if pairs.variances else np.zeros(len(u)))
    across = design @ prior
    root = np.linalg.cholesky(across @ design.swapaxes(1, 2) + errors)
    rest = np.linalg.solve(root, np.broadcast_to(d[:, None], (len(rate), len(u), 1)))
    scaled = np.linalg.solve(root, across)
    evidence = np.log(chance) - 0.5 * (rest**2).sum(axis=(1, 2))
    evidence -= np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    evidence -= (SCATTER_DOF + pairs.dof) * np.log(scatter)
    evidence -= (SCATTER_DOF * SCATTER**2 + pairs.squares) / (2 * scatter**2)
    weights = np.exp(evidence - evidence.max())
    kept = weights > NEGLIGIBLE * weights.sum()
    return GainLaw(
        pairs=pairs,
        weights=weights[kept] / weights[kept].sum(),
        rates=rate[kept],
        bends=bend[kept],
        scatters=scatter[kept],
        means=np.asarray((scaled.swapaxes(1, 2) @ rest)[kept, :, 0], dtype=float),
        covariances=np.asarray((prior - scaled.swapaxes(1, 2) @ scaled)[kept], dtype=float),
    )


def _progress(doublings: Array | float, rates: Array) -> Array:
    """`(1 − 2^(−k u)) / k`, and u where k is 0."""
    safe = np.where(rates == 0, 1.0, rates)
    fading = -np.expm1(-np.log(2) * safe * doublings) / safe
    return np.asarray(np.where(rates == 0, doublings, fading))


def _wandering(distances: Array) -> Array:
    """Covariances of the integral of a Brownian motion at distances from its start."""
    near, far = (of.outer(distances, distances) for of in (np.minimum, np.maximum))
    return np.asarray(near**2 * (3 * far - near) / 6)
