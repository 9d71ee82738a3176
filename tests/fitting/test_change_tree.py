"""Sums over the tree of bases, against sums over all effects."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.change_tree import GAIN_SCALES, LOSS_SCALES, ChangeTree, RecipeRuns

NOISE = 0.002
RATES = np.array([0.7, 0.1, 0.2])


def tree_of(runs_by_recipe, bases):
    values = [y for runs in runs_by_recipe for y in runs]
    recipes = np.repeat(np.arange(len(bases)), [len(runs) for runs in runs_by_recipe])
    return ChangeTree(RecipeRuns.of(np.array(values), recipes, np.array(bases)), NOISE)


def slab(scales, gain, sd):
    """Density of a gain of one side that is seen with a normal error."""
    effects = (np.arange(20_000) + 0.5) * 2e-5
    density = sum(share * stats.gamma.pdf(effects, 2, scale=scale) for scale, share in scales)
    return (density * stats.norm.pdf(gain - effects, scale=sd)).sum() * 2e-5


@pytest.mark.parametrize("gain", [-0.02, -0.004, 0.0, 0.003, 0.006, 0.02])
def test_one_change_has_the_posterior_of_its_difference(gain):
    """Base of three runs, change of two: the difference has the variance 1/3 + 1/2."""
    tree = tree_of([[0.999, 1.0, 1.001], [1.0 - gain, 1.0 - gain]], [-1, 0])
    sd = NOISE * math.sqrt(1 / 3 + 1 / 2)
    sides = [slab(GAIN_SCALES, gain, sd), slab(LOSS_SCALES, -gain, sd)]
    masses = RATES * [stats.norm.pdf(gain, scale=sd), *sides]
    probabilities = tree.beliefs(RATES).probabilities[1]
    assert probabilities == pytest.approx(masses / masses.sum(), abs=1e-3)


def test_a_chain_is_judged_by_all_effects_at_once():
    """Two changes, one on the other: their gains on a grid, with the joint normal likelihood."""
    runs, counts = [[1.0005, 1.0001], [0.9955], [0.9937, 0.9949, 0.9941]], np.array([2, 1, 3])
    tree = tree_of(runs, [-1, 0, 1])
    step = 0.0002
    sizes = np.arange(0.5, 200) * step
    sides = [
        (np.zeros(1), np.ones(1)),
        (sizes, sum(p * stats.gamma.pdf(sizes, 2, scale=s) for s, p in GAIN_SCALES) * step),
        (-sizes, sum(p * stats.gamma.pdf(sizes, 2, scale=s) for s, p in LOSS_SCALES) * step),
    ]
    means = np.array([np.mean(values) for values in runs])
    masses, first, second = np.zeros((3, 3)), np.zeros(2), np.zeros(2)
    for i, j in itertools.product(range(3), range(3)):
        gains = [x.ravel() for x in np.meshgrid(sides[i][0], sides[j][0], indexing="ij")]
        prior = RATES[i] * RATES[j] * np.outer(sides[i][1], sides[j][1]).ravel()
        start = np.stack([0 * gains[0] + means[0], means[1] + gains[0], means[2] + sum(gains)])
        center = counts @ start / counts.sum()
        likelihood = np.exp(-(counts @ (start - center) ** 2) / (2 * NOISE**2))
        weight = prior * likelihood
        masses[i, j] = weight.sum()
        first += [weight @ gain for gain in gains]
        second += [weight @ gain**2 for gain in gains]
    total = masses.sum()
    beliefs = tree.beliefs(RATES)
    probabilities = beliefs.probabilities
    assert probabilities[1] == pytest.approx(masses.sum(axis=1) / total, abs=1e-3)
    assert probabilities[2] == pytest.approx(masses.sum(axis=0) / total, abs=1e-3)
    moments = tree.moments(beliefs, RATES)[:, 1:]
    assert moments == pytest.approx(np.array([first, second]) / total, rel=0.02)


def test_evidence_is_that_of_all_runs():
    """One base of four runs and no change: a normal sample, whose flat mean counts half."""
    values = np.array([1.0, 1.001, 0.998, 1.0025])
    tree = tree_of([values], [-1])
    squares = ((values - values.mean()) ** 2).sum()
    expected = -3 * math.log(NOISE) - squares / (2 * NOISE**2) + math.log(2 * math.pi / 4) / 4
    assert tree.log_evidence(RATES) == pytest.approx(expected, abs=1e-3)
