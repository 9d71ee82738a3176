"""Effects of changes in a log of experiments, most of which are run once.

A log keeps what wins, so that a base is partly luck. One model of all runs answers: a recipe is
its base plus an effect, most effects are nothing, and runs scatter by one noise. Runs of a base,
of the changes that did nothing to it and of what was built on them then all say where it lies.
What is kept or discarded depends on the runs alone and adds nothing to them (Rubin 1976).

References:
    Mitchell, Beauchamp (1988), Bayesian variable selection in linear regression, for the prior.
    Stephens (2017), False discovery rates: a new deal, Biostatistics 18, 275, for its rates.
    Pearl (1988), Probabilistic reasoning in intelligent systems, chapter 4, for sums over trees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft, optimize, special

from extrap.fitting.distributions import t_quantile
from extrap.fitting.projection import Index, Mask
from extrap.laws.base import Array
from extrap.records import Interval

GAIN_SCALES = ((0.005, 0.8), (0.03, 0.2))
"""Means of exponential gains in log loss, and their probabilities among better changes."""
LOSS_SCALES = ((0.005, 0.5), (0.03, 0.3), (0.15, 0.2))
"""The same of worse changes."""
PRIOR_COUNTS = np.array([8.0, 1.0, 1.0])
"""Changes that do nothing, are better and are worse, as if seen before the log."""
NOISE_MEDIAN, NOISE_LOG_SD = 0.002, 1.5
"""Of the noise of a run, before the log."""
CANDIDATE_PROBABILITY = 0.5
"""Of being better (worse), from which a change is a candidate (worse)."""
STANDS_OUT_P = 0.01
"""Chance that one run of a change that does nothing stands out from the repeats of its base."""
REACH = 0.05
"""In log loss, from all bases; changes that lie further are plainly better or worse."""
LEAST_STEPS = 3.0
"""Of the grid per standard deviation of a run; more where many runs tell one base."""
MOST_POINTS = 4096
"""Of the grid."""
LEAST_DENSITY = 1e-30
"""Beside a peak of 1; below are errors of transforms."""
N_ROUNDS = 5
"""Of expectation maximisation of the rates."""
NOISE_STEPS = 0.12 * np.arange(-3, 4)
"""Logarithms of noises that are averaged, from the likeliest one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeEffects:
    """What a log says of its changes.

    Attributes:
        gains: Posterior means of ln(L_base / L_recipe), shape (n_recipes,); 0 for a first recipe
            and for one without a run, whose probabilities are 0 as well.
        sds: Their standard deviations.
        better: Probabilities of a gain above 0.
        worse: Probabilities of a gain below 0.
        noise: Standard deviation of the log loss of one run.
        noise_interval: Its interval.
        n_repeats: Degrees of freedom that repeats of recipes give the noise.
    """

    gains: Array
    sds: Array
    better: Array
    worse: Array
    noise: float
    noise_interval: Interval
    n_repeats: int

    @property
    def is_candidate(self) -> Mask:
        """Recipes to confirm, as they are probably better; none without a repeat of a recipe."""
        return (self.better >= CANDIDATE_PROBABILITY) & (self.n_repeats > 0)

    @property
    def is_worse(self) -> Mask:
        """Recipes that are probably worse; none without a repeat of a recipe."""
        return (self.worse >= CANDIDATE_PROBABILITY) & (self.n_repeats > 0)


def change_effects(
    log_losses: Array, recipes: Index, bases: Index, *, level: float = 0.95
) -> ChangeEffects:
    """Spike-and-slab posterior of the effects of all changes of a log.

    `y = m_r + σ ε`, `m_r = m_base − gain_r`: a gain is 0, or has a mixture of exponentials on
    either side, with rates by expectation maximisation. Sums over the means are exact on a grid
    (belief propagation on the tree of bases); the noise is averaged over by its evidence.

    Args:
        log_losses: Of the runs in order, shape (n_runs,), without failed ones.
        recipes: Index of each run's recipe, shape (n_runs,).
        bases: Index of the recipe that each recipe was built on, below its own index; −1 for a
            first one. Shape (n_recipes,).
        level: Content of `noise_interval`.
    """
    log = _Log.of(np.asarray(log_losses, float), np.asarray(recipes), np.asarray(bases))
    rates = PRIOR_COUNTS / PRIOR_COUNTS.sum()
    mode = optimize.minimize_scalar(
        lambda log_noise: -_Tree(log, math.exp(log_noise)).log_evidence(rates),
        bounds=log.noise_bounds(),
        method="bounded",
        options={"xatol": 0.1},
    ).x
    tree = _Tree(log, math.exp(mode))
    for _ in range(N_ROUNDS):
        counts = PRIOR_COUNTS + tree.probabilities(rates).sum(axis=0)
        rates = counts / counts.sum()
    log_noises = mode + NOISE_STEPS
    trees = [_Tree(log, math.exp(log_noise)) for log_noise in log_noises]
    weights = special.softmax([tree.log_evidence(rates) for tree in trees])
    mean = float(weights @ log_noises)
    half = float(special.ndtri((1 + level) / 2) * np.sqrt(weights @ (log_noises - mean) ** 2))
    probabilities = np.tensordot(weights, [tree.probabilities(rates) for tree in trees], 1)
    moments = np.tensordot(weights, [tree.moments(rates) for tree in trees], 1)
    return ChangeEffects(
        gains=moments[0] + log.beyond,
        sds=np.sqrt(np.maximum(moments[1] - moments[0] ** 2, 0.0)),
        better=probabilities[:, 1],
        worse=probabilities[:, 2],
        noise=math.exp(mean),
        noise_interval=Interval(math.exp(mean - half), math.exp(mean + half)),
        n_repeats=log.n_repeats,
    )


def least_gain(noise: float, n: int) -> float:
    """Gain that one run of a change must show to stand out from n runs of its base alone.

    `t σ √(1 + 1/n)`, t the value of Student's t with n − 1 degrees of freedom that a change that
    does nothing exceeds with the chance `STANDS_OUT_P`; infinite below two runs.
    """
    if n < 2:
        return math.inf
    return float(t_quantile(1 - STANDS_OUT_P, n - 1)) * noise * math.sqrt(1 + 1 / n)


def repeats_needed(noise: float, gain: float, *, most: int = 100) -> int | None:
    """Smallest number of runs of a base with a `least_gain` of at most `gain`, if one suffices."""
    return next((n for n in range(2, most + 1) if least_gain(noise, n) <= gain), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Log:
    """Runs by recipe.

    Attributes:
        means: Of the log losses, no further than the reach from the means of bases.
        beyond: What that takes from the gains.
        counts: Numbers of runs.
        bases: Of the recipes.
        inner: Recipes that others were built on, first ones among them; in order.
        leaves: Other recipes with runs.
        squares: Sum of squares within recipes.
        n_repeats: Its degrees of freedom.
        spread: Noise, if all changes did nothing.
    """

    means: Array
    beyond: Array
    counts: Index
    bases: Index
    inner: Index
    leaves: Index
    squares: float
    n_repeats: int
    spread: float

    @classmethod
    def of(cls, log_losses: Array, recipes: Index, bases: Index) -> _Log:
        indices = np.arange(len(bases))
        counts = np.bincount(recipes, minlength=len(bases))
        sums = np.bincount(recipes, log_losses, len(bases))
        means = np.where(counts, sums / np.maximum(counts, 1), np.median(log_losses))
        is_inner = np.isin(indices, bases) | (bases < 0)
        compared = (bases >= 0) & (counts > 0) & (counts[bases] > 0)
        differences = (means[bases] - means)[compared]
        spread = float(np.median(np.abs(differences))) if differences.size else 0.0
        reach = max(REACH, 10 * spread)
        inner_means = means[is_inner]
        inside = np.clip(means, inner_means.min() - reach, inner_means.max() + reach)
        beyond = np.where(bases < 0, 0.0, inside - means)
        return cls(
            means=inside,
            beyond=beyond,
            counts=counts,
            bases=bases,
            inner=indices[is_inner],
            leaves=indices[~is_inner & (counts > 0)],
            squares=float(((log_losses - means[recipes]) ** 2).sum()),
            n_repeats=int(len(log_losses) - (counts > 0).sum()),
            spread=spread,
        )

    @property
    def steps(self) -> float:
        """Of the grid per noise: 1.2 for the standard deviation of what most runs tell."""
        told = np.bincount(self.bases[self.leaves], self.counts[self.leaves], len(self.bases))
        return max(LEAST_STEPS, math.sqrt(float((told + self.counts).max())) / 1.2)

    def noise_bounds(self) -> tuple[float, float]:
        """Logarithms of noises that hold the likeliest one."""
        within = math.sqrt(self.squares / self.n_repeats) if self.n_repeats else self.spread
        finest = np.ptp(self.means) * self.steps / (MOST_POINTS / 1.2)
        low = max(min(within, self.spread) / 8, finest, 1e-7)
        return math.log(low), math.log(max(3 * within, 3 * self.spread, 2 * low))


class _Tree:
    """Sums over the mean log losses of all recipes, on a grid of n points, at one noise."""

    def __init__(self, log: _Log, noise: float) -> None:
        self.log, self.step = log, noise / log.steps
        margin = 6 * noise
        grid = np.arange(log.means.min() - margin, log.means.max() + margin, self.step)
        self.n, self.length = len(grid), fft.next_fast_len(2 * len(grid), real=True)
        self.own = -log.counts[:, None] * ((log.means[:, None] - grid) / noise) ** 2 / 2
        self.constant = (
            -log.counts.sum() * math.log(noise)
            - log.squares / noise**2 / 2
            - (math.log(noise / NOISE_MEDIAN) / NOISE_LOG_SD) ** 2 / 2
        )
        kernels = self._kernels(GAIN_SCALES, 1), self._kernels(LOSS_SCALES, -1).conj()
        self.kernels = np.stack(kernels, axis=1)
        self.leaf_sides = self._sides(np.exp(self.own[log.leaves]))

    def _kernels(self, scales: tuple[tuple[float, float], ...], sign: int) -> Array:
        """Transforms of an effect's masses on the grid, times its 0th, 1st and 2nd power."""
        edges = np.maximum(np.arange(self.n + 1) - 0.5, 0) * self.step
        masses = sum(share * -np.diff(np.exp(-edges / scale)) for scale, share in scales)
        powers = (sign * self.step * np.arange(self.n)) ** np.arange(3)[:, None]
        return np.asarray(fft.rfft(masses * powers, self.length))

    def _moved(self, belief: Array, kernels: Array) -> Array:
        """Beliefs, shape (…, n), convolved with effects of either side, shape (…, 2, n)."""
        transform = fft.rfft(belief, self.length)[..., None, :]
        return np.asarray(fft.irfft(transform * kernels, self.length)[..., : self.n])

    def _sides(self, belief: Array, *, is_downward: bool = False) -> Array:
        """Beliefs moved by no effect, by better and by worse ones, shape (…, 3, n)."""
        kernels = self.kernels[0].conj() if is_downward else self.kernels[0]
        slabs = np.maximum(self._moved(belief, kernels), LEAST_DENSITY)
        return np.concatenate([belief[..., None, :], slabs], axis=-2)

    def _up(self, rates: Array) -> tuple[Array, Array, Array]:
        """Log beliefs in means from runs below, and messages to bases, with their sides."""
        log, below = self.log, self.own.copy()
        messages, sides = np.zeros_like(below), np.zeros((len(below), 3, self.n))
        sides[log.leaves] = self.leaf_sides
        messages[log.leaves] = np.log(rates @ self.leaf_sides)
        np.add.at(below, log.bases[log.leaves], messages[log.leaves])
        for recipe in log.inner[::-1]:
            if (base := log.bases[recipe]) >= 0:
                peak = below[recipe].max()
                sides[recipe] = self._sides(np.exp(below[recipe] - peak))
                messages[recipe] = np.log(rates @ sides[recipe]) + peak
                below[base] += messages[recipe]
        return below, messages, sides

    def log_evidence(self, rates: Array) -> float:
        """Of the noise."""
        first = self._up(rates)[0][self.log.bases < 0]
        sums = special.logsumexp(first, axis=1) + math.log(self.step)
        return float(sums.sum()) + self.constant

    def _joint(self, rates: Array) -> tuple[Array, Array, Array]:
        """What all other runs say of each recipe's base, with beliefs below and their sides."""
        log = self.log
        below, messages, sides = self._up(rates)
        above, total = np.zeros_like(below), below.copy()
        for recipe in log.inner:
            if (base := log.bases[recipe]) >= 0:
                above[recipe] = total[base] - messages[recipe]
                others = np.exp(above[recipe] - above[recipe].max())
                total[recipe] += np.log(rates @ self._sides(others, is_downward=True))
        leaves = log.leaves
        above[leaves] = total[log.bases[leaves]] - messages[leaves]
        others = np.exp(above - above.max(axis=1, keepdims=True))
        others[log.bases < 0] = 0.0
        return others, below, sides

    def probabilities(self, rates: Array) -> Array:
        """Of no effect, a better and a worse one, shape (n_recipes, 3)."""
        others, _, sides = self._joint(rates)
        masses = rates * np.einsum("rn,rkn->rk", others, sides)
        sums = masses.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(masses, sums, out=np.zeros_like(masses), where=sums > 0))

    def moments(self, rates: Array) -> Array:
        """Mean gains and mean squares of them, shape (2, n_recipes)."""
        others, below, sides = self._joint(rates)
        beliefs = np.exp(below - below.max(axis=1, keepdims=True))
        sums = np.einsum("rn,rkn,k->r", others, sides, rates)
        moments = [
            np.einsum("rn,rkn,k->r", others, self._moved(beliefs, kernels), rates[1:])
            for kernels in self.kernels[1:]
        ]
        return np.asarray(np.divide(moments, sums, out=np.zeros((2, len(sums))), where=sums > 0))
