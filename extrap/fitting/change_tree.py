"""Sums over the mean log losses of all recipes of a log, whose bases make it a tree.

What the runs of a recipe, and of all that was built on it, say of its base is its belief moved by
the prior of its effect. Messages up the tree, then down, give each effect all runs: on a grid of
log losses these sums are exact.

References:
    Johnson, Rossell (2010), On the use of non-local prior densities in Bayesian hypothesis tests,
    JRSS B 72, 143: the density of an effect goes to 0 at 0.
    Pearl (1988), Probabilistic reasoning in intelligent systems, section 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import logsumexp

from extrap.fitting.projection import Index
from extrap.laws.base import Array

GAIN_SCALES = ((0.003, 0.8), (0.015, 0.2))
"""Modes of the density `x exp(−x/s)` of gains in log loss, and their probabilities among them."""
LOSS_SCALES = ((0.007, 0.7), (0.05, 0.3))
"""The same of worse changes."""
CLIP_DISTANCE = 0.05
"""In log loss, from all bases; how much worse or better a change is beyond says nothing more."""
DIVERGED_CHANGE = 0.5
"""In log loss; what is worse by more has diverged, and does not tell the usual change."""
LEAST_SCATTER = 1e-9
"""Of repeats, in log loss; below it they ran with one seed and tell no noise."""
STEPS_PER_NOISE = 3.0
"""Of the grid; more where many runs share a base."""
GRID_POINTS = 4096
"""Of the grid, near the likeliest noise."""
CHANGES_SHARE = 0.5
"""Of the evidence of changes for the noise beside that of repeats, as their prior is a guess."""
LEAST_DENSITY = 1e-30
"""Beside a peak of 1; errors of Fourier transforms are larger."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeRuns:
    """Runs of a log by recipe.

    Attributes:
        means: Of the log losses, within a reach of those of bases.
        excess: What that leaves out of the means.
        counts: Numbers of runs.
        bases: Recipes that the recipes were built on, −1 for a first one.
        inner: Recipes that others were built on, and first ones.
        leaves: Other recipes with runs.
        squares: Sum of squares within recipes.
        n_repeats: Its degrees of freedom; 0 where all repeats are alike.
        median_change: Median of the distances from the base of what has not diverged.
    """

    means: Array
    excess: Array
    counts: Index
    bases: Index
    inner: Index
    leaves: Index
    squares: float
    n_repeats: int
    median_change: float

    @classmethod
    def of(cls, log_losses: Array, recipes: Index, bases: Index) -> RecipeRuns:
        """From the runs in order; see `change_effects`."""
        counts = np.bincount(recipes, minlength=len(bases))
        sums = np.bincount(recipes, log_losses, len(bases))
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.median(log_losses))
        is_inner = np.isin(np.arange(len(bases)), bases) | (bases < 0)
        is_compared = (bases >= 0) & (counts > 0) & (counts[bases] > 0)
        changes = np.abs(means[bases] - means)[is_compared]
        usual = changes[changes < DIVERGED_CHANGE]
        changes = usual if usual.size else changes
        median_change = float(np.median(changes)) if changes.size else 0.0
        reach = max(CLIP_DISTANCE, 10 * median_change)
        squares = float(((log_losses - means[recipes]) ** 2).sum())
        n_repeats = int(len(log_losses) - (counts > 0).sum())
        if squares <= n_repeats * LEAST_SCATTER**2:
            squares, n_repeats = 0.0, 0
        inside = np.clip(means, means[is_inner].min() - reach, means[is_inner].max() + reach)
        return cls(
            means=inside,
            excess=means - inside,
            counts=counts,
            bases=bases,
            inner=np.flatnonzero(is_inner),
            leaves=np.flatnonzero(~is_inner & (counts > 0)),
            squares=squares,
            n_repeats=n_repeats,
            median_change=median_change,
        )

    @property
    def steps_per_noise(self) -> float:
        """Of the grid: a mean of as many runs as share a base has a step of 1.2 of its errors."""
        children = np.bincount(self.bases[self.leaves], self.counts[self.leaves], len(self.bases))
        return max(STEPS_PER_NOISE, math.sqrt(float((children + self.counts).max())) / 1.2)

    def log_noise_bounds(self) -> tuple[float, float]:
        """What holds the logarithm of the likeliest noise."""
        repeated = math.sqrt(self.squares / self.n_repeats) if self.n_repeats else math.inf
        finest = float(np.ptp(self.means)) * self.steps_per_noise / GRID_POINTS
        low = max(min(repeated, self.median_change) / 8, finest, 1e-7)
        high = 3 * max(self.median_change, repeated if self.n_repeats else 0.0)
        return math.log(low), math.log(max(high, 2 * low))


class Beliefs(NamedTuple):
    """What all runs say of the effects, at one noise and one set of rates.

    Attributes:
        of_others: Beliefs in the mean of each recipe's base without its own branch of the tree,
            shape (n_recipes, n); 0 for a first recipe.
        of_branch: Those in its own mean from that branch alone.
        masses: Of no effect, a better and a worse one, shape (n_recipes, 3).
        log_evidence: Of the noise and the rates.
    """

    of_others: Array
    of_branch: Array
    masses: Array
    log_evidence: float

    @property
    def probabilities(self) -> Array:
        """Of no effect, a better and a worse one, shape (n_recipes, 3)."""
        sums = self.masses.sum(axis=1, keepdims=True)
        return np.divide(self.masses, sums, out=np.zeros_like(self.masses), where=sums > 0)


class ChangeTree:
    """The runs of a log at one noise, on a grid of n log losses."""

    def __init__(self, runs: RecipeRuns, noise: float) -> None:
        self.runs, self.step = runs, noise / runs.steps_per_noise
        low, high = runs.means.min() - 6 * noise, runs.means.max() + 6 * noise
        grid = np.arange(low, high, self.step)
        self.n, self.length = len(grid), next_fast_len(2 * len(grid), real=True)
        self.likelihoods = -runs.counts[:, None] * ((runs.means[:, None] - grid) / noise) ** 2 / 2
        self.of_repeats = -runs.n_repeats * math.log(noise) - runs.squares / noise**2 / 2
        self.constant = -(runs.counts > 0).sum() * math.log(noise)
        kernels = self._kernels(GAIN_SCALES, 1), self._kernels(LOSS_SCALES, -1).conj()
        self.kernels = np.stack(kernels, axis=1)
        self.leaf_sides = self._sides(np.exp(self.likelihoods[runs.leaves]))

    def log_evidence(self, rates: Array) -> float:
        """Of the noise and the rates."""
        return self._log_evidence(self._upward(rates)[0])

    def beliefs(self, rates: Array) -> Beliefs:
        """What all runs say of the effects."""
        runs = self.runs
        branches, messages, sides = self._upward(rates)
        totals, others = branches.copy(), np.full_like(branches, -np.inf)
        for recipe in runs.inner[runs.bases[runs.inner] >= 0]:
            others[recipe] = totals[runs.bases[recipe]] - messages[recipe]
            belief = np.exp(others[recipe] - others[recipe].max())
            totals[recipe] += np.log(rates @ self._sides(belief, is_downward=True))
        others[runs.leaves] = totals[runs.bases[runs.leaves]] - messages[runs.leaves]
        peaks = branches.max(axis=1, keepdims=True)
        peaks[runs.leaves] = 0.0  # as in their masses
        of_others = np.exp(others - np.maximum(others.max(axis=1, keepdims=True), -1e300))
        return Beliefs(
            of_others=of_others,
            of_branch=np.exp(branches - peaks),
            masses=rates * np.einsum("rn,rkn->rk", of_others, sides),
            log_evidence=self._log_evidence(branches),
        )

    def moments(self, beliefs: Beliefs, rates: Array) -> Array:
        """Mean gains and mean squares of gains, shape (2, n_recipes)."""
        moved = (self._moved(beliefs.of_branch, kernels) for kernels in self.kernels[1:])
        weighed = [np.einsum("rn,rkn->rk", beliefs.of_others, sides) for sides in moved]
        moments = np.stack(weighed) @ rates[1:]
        sums = beliefs.masses.sum(axis=1)
        return np.divide(moments, sums, out=np.zeros_like(moments), where=sums > 0)

    def _kernels(self, scales: tuple[tuple[float, float], ...], sign: int) -> Array:
        """Transforms of an effect's masses on the grid, times its 0th, 1st and 2nd power."""
        edges = np.maximum(np.arange(self.n + 1) - 0.5, 0) * self.step
        masses = sum(
            share * -np.diff((1 + edges / scale) * np.exp(-edges / scale))
            for scale, share in scales
        )
        powers = (sign * self.step * np.arange(self.n)) ** np.arange(3)[:, None]
        return np.asarray(np.fft.rfft(masses * powers, self.length))

    def _moved(self, belief: Array, kernels: Array) -> Array:
        """Beliefs, shape (…, n), convolved with the effects of either side, shape (…, 2, n)."""
        transform = np.fft.rfft(belief, self.length)[..., None, :]
        return np.asarray(np.fft.irfft(transform * kernels, self.length)[..., : self.n])

    def _sides(self, belief: Array, *, is_downward: bool = False) -> Array:
        """Beliefs moved by no effect, by better and by worse ones, shape (…, 3, n)."""
        kernels = self.kernels[0].conj() if is_downward else self.kernels[0]
        slabs = np.maximum(self._moved(belief, kernels), LEAST_DENSITY)
        return np.concatenate([belief[..., None, :], slabs], axis=-2)

    def _upward(self, rates: Array) -> tuple[Array, Array, Array]:
        """Log beliefs in each mean from its branch, their messages to the base, and the sides."""
        runs, branches = self.runs, self.likelihoods.copy()
        messages, sides = np.zeros_like(branches), np.zeros((len(branches), 3, self.n))
        sides[runs.leaves] = self.leaf_sides
        messages[runs.leaves] = np.log(rates @ self.leaf_sides)
        np.add.at(branches, runs.bases[runs.leaves], messages[runs.leaves])
        for recipe in runs.inner[runs.bases[runs.inner] >= 0][::-1]:
            peak = branches[recipe].max()
            sides[recipe] = self._sides(np.exp(branches[recipe] - peak))
            messages[recipe] = np.log(rates @ sides[recipe]) + peak
            branches[runs.bases[recipe]] += messages[recipe]
        return branches, messages, sides

    def _log_evidence(self, branches: Array) -> float:
        sums = logsumexp(branches[self.runs.bases < 0], axis=1) + math.log(self.step)
        return self.of_repeats + CHANGES_SHARE * float(sums.sum() + self.constant)
