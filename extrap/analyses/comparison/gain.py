"""The gain of a variant over size from few pairs of runs: shapes averaged, a prior of the scatter.

Three or four sizes with one seed each do not show how far a law of the gain is off them, so no
interval follows from the pairs alone. What is known beforehand gives one: language models of one
recipe differ by about .1 to .2 % from run to run, and a gain moves by about .7 % a doubling of
size or less, evenly or ever less. Where the runs show more scatter, that counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from extrap.laws.base import Array
from extrap.records import Interval

RATES = (0.0, 0.1, 0.25, 0.5, 1.0)
"""How fast the change of a gain dies out per doubling, equally likely; at 0 it goes on."""
PER_DOUBLING, ANY = 0.007, 0.1
"""Prior standard deviations of the change of a gain per doubling, and of the gain itself."""
SCATTER, SCATTER_DOF = 0.002, 3.0
"""Standard deviation of the log ratio of a pair of runs, and its worth in degrees of freedom."""
SCATTERS = np.geomspace(0.0003, 0.05, 16)
"""Grid on which it is averaged."""
NEGLIGIBLE, FAR = 1e-6, 10.0
"""Weight of what is left out; standard deviations within which the end of an interval lies."""


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

    def interval(self, level: float) -> Interval:
        """Between quantiles that leave as much below as above."""
        low = float((self.means - FAR * self.sds).min())
        high = float((self.means + FAR * self.sds).max())
        ends = (
            optimize.brentq(lambda gain, q=q: self.chance_below(gain) - q, low, high)
            for q in (0.5 - level / 2, 0.5 + level / 2)
        )
        return Interval(*map(float, ends))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainLaw:
    """Mixture over j of `g(u) = a_j + b_j (1 − 2^(−k_j u)) / k_j`, u doublings beyond the sizes.

    Attributes:
        weights: Posterior probability of each rate and scatter, shape (n,).
        rates: k, shape (n,).
        means: Of a and b, shape (n, 2).
        covariances: Shape (n, 2, 2).
    """

    weights: Array
    rates: Array
    means: Array
    covariances: Array

    def at(self, doublings: float) -> Gain:
        """The gain so many doublings beyond the largest size; below 0 inside the sizes."""
        design = np.column_stack([np.ones(len(self.rates)), _progress(doublings, self.rates)])
        variance = np.einsum("ni,nij,nj->n", design, self.covariances, design)
        return Gain(
            weights=self.weights, means=(design * self.means).sum(axis=1), sds=np.sqrt(variance)
        )


def fit_gain(
    doublings: Sequence[float],
    gains: Sequence[float],
    n_pairs: Sequence[int],
    *,
    squares: float = 0.0,
    dof: int = 0,
) -> GainLaw:
    """Average the shapes of a gain and the scatter by their posterior probability.

    Args:
        doublings: log2 of each size over the largest one, at most 0, shape (n,).
        gains: Mean `ln(L_base / L_variant)` of its pairs, shape (n,).
        n_pairs: Pairs of runs behind each, shape (n,).
        squares: Sum of squares of the pairs about the means of their sizes.
        dof: Degrees of freedom behind that.

    References:
        Gelman et al. (2013), Bayesian data analysis, Eq. 14.4 and 7.15 (averaging).
    """
    u, d = np.asarray(doublings, dtype=float), np.asarray(gains, dtype=float)
    per_pair = 1 / np.asarray(n_pairs, dtype=float)
    prior = np.diag([ANY**2, PER_DOUBLING**2])
    found = []
    for rate, scatter in itertools.product(RATES, SCATTERS.tolist()):
        design = np.column_stack([np.ones_like(u), _progress(u, np.array(rate))])
        root = np.linalg.cholesky(design @ prior @ design.T + np.diag(scatter**2 * per_pair))
        rest, scaled = np.linalg.solve(root, d), np.linalg.solve(root, design @ prior)
        evidence = -0.5 * float(rest @ rest) - float(np.log(np.diag(root)).sum())
        evidence -= (SCATTER_DOF + dof) * math.log(scatter)
        evidence -= (SCATTER_DOF * SCATTER**2 + squares) / (2 * scatter**2)
        found.append((evidence, rate, scaled.T @ rest, prior - scaled.T @ scaled))
    evidences, rates, means, covariances = (
        np.array(column) for column in zip(*found, strict=True)
    )
    weights = np.exp(evidences - evidences.max())
    kept = weights > NEGLIGIBLE * weights.sum()
    return GainLaw(
        weights=weights[kept] / weights[kept].sum(),
        rates=rates[kept],
        means=means[kept],
        covariances=covariances[kept],
    )


def _progress(doublings: Array | float, rates: Array) -> Array:
    """`(1 − 2^(−k u)) / k`, and u where k is 0."""
    safe = np.where(rates == 0, 1.0, rates)
    fading = -np.expm1(-math.log(2) * safe * doublings) / safe
    return np.asarray(np.where(rates == 0, doublings, fading))


def judge_gain(
    law: GainLaw,
    target: float,
    measured: Sequence[float],
    *,
    min_gain: float = 0.002,
    is_asked: bool = False,
    level: float = 0.95,
) -> str:
    """What becomes of a gain at the target.

    `survives`: its interval lies above 0, above the least gain if that was asked for; `hurts`:
    below 0; `fades`: at a measured size it lies above the least gain, at the target below;
    `no difference`: within the least gain on both sides; else `undecided`.

    Args:
        law: Of the gain.
        target: Doublings of the target beyond the largest size.
        measured: Those of the sizes.
        min_gain: δ, the least gain that matters, in log loss.
        is_asked: Whether δ was asked for.
        level: Of the intervals.
    """
    low, high = _ends(law.at(target), level)
    if low > (min_gain if is_asked else 0.0):
        return "survives"
    if high < 0:
        return "hurts"
    if high < min_gain and any(_ends(law.at(u), level)[0] > min_gain for u in measured):
        return "fades"
    return "no difference" if -min_gain < low and high < min_gain else "undecided"


def _ends(gain: Gain, level: float) -> tuple[float, float]:
    low, high = gain.interval(level)
    assert low is not None
    assert high is not None
    return low, high
