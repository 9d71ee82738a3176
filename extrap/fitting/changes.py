"""Effects of changes in a log of experiments, most of which are run once.

A log keeps what wins, so that a base is partly luck. One model of all runs answers: a recipe is
its base plus an effect, most effects are nothing, and all runs have one noise. Runs of a base, of
the changes that did nothing to it and of what was built on them then all say where it lies. That
the runs chose what was kept adds nothing to them (Rubin 1976).

References:
    Mitchell, Beauchamp (1988), Bayesian variable selection in linear regression, JASA 83, 1023.
    Stephens (2017), False discovery rates: a new deal, Biostatistics 18, 275: rates of the log.
    Rubin (1976), Inference and missing data, Biometrika 63, 581.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from extrap.fitting.change_tree import ChangeTree, RecipeRuns
from extrap.fitting.distributions import t_quantile
from extrap.fitting.projection import Index, Mask
from extrap.laws.base import Array
from extrap.records import Interval

PRIOR_COUNTS = (4.0, 1.0, 3.0)
"""Changes that do nothing, are better and are worse, as if seen before the log."""
NOISE_MEDIAN, NOISE_LOG_SD = 0.002, 1.5
"""Of the noise of a run, before the log."""
CANDIDATE_PROBABILITY = 0.5
"""Of being better, from which a change is a candidate, or of being worse (`benchmarks.nights`)."""
STANDS_OUT_P = 0.01
"""Chance that one run of a change that does nothing stands out from the repeats of its base."""
N_ROUNDS = 5
"""Of expectation maximisation of the rates."""
SEARCH_REACH = 0.5
"""Of the second search for the log noise, at the rates of the log, about the first result."""
NOISE_STEPS = np.linspace(-0.36, 0.36, 7)
"""Log noises that are averaged, from the likeliest one."""
NOISE_WIDTHS, LARGEST_END_WEIGHT = (1.0, 2.0, 4.0), 0.04
"""Factors of these steps, tried until the outermost noises have less than this weight: few runs
leave the noise wide open."""


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

    `y = m_r + σ ε`, `m_r = m_base − gain_r`: a gain is 0, or has a mixture of gamma densities on
    either side. Rates of the three are the log's, by expectation maximisation; the effects are
    averaged over noises by their evidence.

    Args:
        log_losses: Of the runs in order, shape (n_runs,), without failed ones.
        recipes: Index of each run's recipe, shape (n_runs,).
        bases: Index of the recipe that each recipe was built on, below its own index; −1 for a
            first one. Shape (n_recipes,).
        level: Content of `noise_interval`.
    """
    runs = RecipeRuns.of(np.asarray(log_losses, float), np.asarray(recipes), np.asarray(bases))
    rates, bounds = np.array(PRIOR_COUNTS) / sum(PRIOR_COUNTS), runs.log_noise_bounds()
    for _ in range(2):
        mode = _likeliest_log_noise(runs, rates, bounds)
        rates = _rates(ChangeTree(runs, math.exp(mode)), rates)
        bounds = mode - SEARCH_REACH, mode + SEARCH_REACH
    for width in NOISE_WIDTHS:
        log_noises = mode + width * NOISE_STEPS
        trees = [ChangeTree(runs, math.exp(log_noise)) for log_noise in log_noises]
        beliefs = [tree.beliefs(rates) for tree in trees]
        evidence = [belief.log_evidence for belief in beliefs]
        weights = special.softmax(evidence + _log_prior(log_noises))
        if weights[[0, -1]].max() < LARGEST_END_WEIGHT:
            break
    center = float(weights @ log_noises)
    half = special.ndtri((1 + level) / 2) * math.sqrt(weights @ (log_noises - center) ** 2)
    probabilities = np.tensordot(weights, [belief.probabilities for belief in beliefs], 1)
    pairs = zip(trees, beliefs, strict=True)
    gains, squares = np.tensordot(weights, [tree.moments(b, rates) for tree, b in pairs], 1)
    return ChangeEffects(
        gains=gains - runs.excess,
        sds=np.sqrt(np.maximum(squares - gains**2, 0.0)),
        better=probabilities[:, 1],
        worse=probabilities[:, 2],
        noise=math.exp(center),
        noise_interval=Interval(math.exp(center - half), math.exp(center + half)),
        n_repeats=runs.n_repeats,
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


def _log_prior(log_noise: Array | float) -> Array:
    """Log density of a log noise."""
    return -(((np.asarray(log_noise) - math.log(NOISE_MEDIAN)) / NOISE_LOG_SD) ** 2) / 2


def _likeliest_log_noise(runs: RecipeRuns, rates: Array, bounds: tuple[float, float]) -> float:
    """Between bounds."""

    def negative(log_noise: float) -> float:
        tree = ChangeTree(runs, math.exp(log_noise))
        return -tree.log_evidence(rates) - float(_log_prior(log_noise))

    options = {"xatol": 0.1}
    return float(
        optimize.minimize_scalar(negative, bounds=bounds, method="bounded", options=options).x
    )


def _rates(tree: ChangeTree, rates: Array) -> Array:
    """Of no effects, better and worse ones, closer to the likeliest ones."""
    for _ in range(N_ROUNDS):
        counts = tree.beliefs(rates).probabilities.sum(axis=0) + PRIOR_COUNTS
        rates = counts / counts.sum()
    return rates
