"""Tests of fresh runs, and the false ones among those that are called."""

import math

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.discoveries import FALSE_DISCOVERY_RATE, confirmations, lord

BASES = np.array([-1, 0, 0, 1])


def log_of(*rows):
    """Log losses and recipes of pairs of recipe and log loss."""
    recipes, values = zip(*rows, strict=True)
    return np.array(values), np.array(recipes)


def pairs(recipe, base, losses, base_losses):
    """Rows of pairs, the base first."""
    rows = zip(losses, base_losses, strict=True)
    return [row for y, y_base in rows for row in ((base, y_base), (recipe, y))]


FIRST = [(0, 1.0), (1, 0.98), (2, 0.985), (3, 0.96)]
GOOD = pairs(1, 0, [0.99, 0.992, 0.991], [1.002, 0.999, 1.001])
NOTHING = pairs(2, 0, [1.001, 1.0, 0.999], [0.999, 1.002, 1.0])


def drawn_log(seed):
    """Thirty recipes on one base, ten of them better by .5 %, each with three fresh pairs."""
    rng = np.random.default_rng(seed)
    gains = np.where(np.arange(31) % 3 == 1, 0.005, 0.0)
    recipes = [*range(31), *(row for r in range(1, 31) for row in (0, r, 0, r, 0, r))]
    values = [-gains[r] + 0.002 * rng.normal() for r in recipes]
    return gains, (np.array(values), np.array(recipes), np.array([-1, *[0] * 30]))


def test_thresholds_are_those_of_the_formula():
    """γ = 6/π² (1, 1/4, 1/9, …), w = .05, α = .1; the first and the third test are called."""
    g = [6 / math.pi**2 / k**2 for k in range(1, 6)]
    tests = lord([1e-9, 0.5, 1e-9, 0.5, 0.5])
    assert [is_called for _, is_called in tests] == [True, False, True, False, False]
    assert [threshold for threshold, _ in tests] == pytest.approx(
        [
            0.05 * g[0],
            0.05 * g[1] + 0.05 * g[0],
            0.05 * g[2] + 0.05 * g[1],
            0.05 * g[3] + 0.05 * g[2] + 0.1 * g[0],
            0.05 * g[4] + 0.05 * g[3] + 0.1 * g[1],
        ]
    )
    assert sum(6 / math.pi**2 / k**2 for k in range(1, 100_000)) == pytest.approx(1, abs=1e-4)


def test_thresholds_never_sum_to_more_than_the_rate_of_the_calls():
    """Which is the condition of the theorem: Σ α_t ≤ α max(R, 1) at all times."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        tests = lord(rng.uniform(size=200) ** rng.uniform(1, 8))
        sums = np.cumsum([threshold for threshold, _ in tests])
        n_calls = np.cumsum([is_called for _, is_called in tests])
        assert (sums <= FALSE_DISCOVERY_RATE * np.maximum(n_calls, 1) + 1e-12).all()


def test_at_most_a_tenth_of_calls_is_false():
    """2,000 sequences of 40 p-values, a fourth of them of a shift by 3: a share has ± .004."""
    rng = np.random.default_rng(1)
    shares, powers = [], []
    for _ in range(2000):
        is_true = rng.uniform(size=40) < 0.25
        p_values = stats.norm.sf(rng.normal(size=40) + 3 * is_true)
        is_called = np.array([called for _, called in lord(p_values)])
        shares.append((is_called & ~is_true).sum() / max(is_called.sum(), 1))
        powers.append((is_called & is_true).sum() / max(is_true.sum(), 1))
    assert np.mean(shares) < 0.11
    assert np.mean(powers) > 0.5


def test_a_test_is_students_of_the_fresh_runs_alone():
    """The noise: four runs of the base, three fresh ones of the recipe; its first is not one."""
    (test,) = confirmations(*log_of(*FIRST, *GOOD), BASES)
    ours, theirs = [0.99, 0.992, 0.991], [1.002, 0.999, 1.001]
    variance = (np.var([1.0, *theirs]) * 4 + np.var(ours) * 3) / 5
    error = math.sqrt(variance * 2 / 3)
    gain = np.mean(theirs) - np.mean(ours)
    assert (test.row, test.recipe, test.fresh.dof) == (9, 1, 5)
    assert (test.fresh.n_recipe, test.fresh.n_base) == (3, 3)
    assert test.fresh.gain == pytest.approx(gain)
    assert test.p_value == pytest.approx(stats.t.sf(gain / error, 5))
    assert test.is_called
    low, high = test.fresh.interval(0.9)
    assert (low, high) == pytest.approx(stats.t.interval(0.9, 5, gain, error))


def test_the_run_that_selected_a_recipe_tells_nothing_of_it():
    lucky = [(recipe, y - 0.5 if recipe in (1, 3) else y) for recipe, y in FIRST]
    assert confirmations(*log_of(*lucky, *GOOD), BASES) == confirmations(
        *log_of(*FIRST, *GOOD), BASES
    )


def test_runs_of_the_base_before_a_recipe_are_not_fresh():
    early = [(0, 1.0), (0, 1.1), (0, 1.1), (0, 1.1), *FIRST[1:]]
    (test,) = confirmations(*log_of(*early, *GOOD), BASES)
    assert (test.row, test.fresh.n_base) == (12, 3)
    assert test.fresh.gain == pytest.approx(0.0096667, abs=1e-6)


def test_a_recipe_is_tested_again_by_newer_runs_until_it_is_called():
    """Three pairs that show nothing, then three that do; a fourth three changes no test."""
    better = pairs(2, 0, [0.98, 0.981, 0.979], [1.0, 1.001, 0.999])
    rows = [*FIRST, *NOTHING, *better]
    tests = confirmations(*log_of(*rows), BASES)
    assert [(test.recipe, test.row, test.is_called) for test in tests] == [
        (2, 9, False),
        (2, 15, True),
    ]
    values = [1.0, *[y for recipe, y in [*NOTHING, *better] if recipe == 0]]
    ours = [y for recipe, y in [*NOTHING, *better] if recipe == 2]
    variance = (np.var(values) * 7 + np.var(ours) * 6) / 11
    expected = stats.t.sf(0.02 / math.sqrt(variance * 2 / 3), 11)
    assert tests[1].p_value == pytest.approx(expected)
    assert tests[1].fresh.n_recipe == 6
    again = confirmations(*log_of(*rows, *better), BASES)
    assert [test.row for test in again] == [9, 15]
    assert again[1].fresh.n_recipe == 9


def test_no_call_is_withdrawn_when_rows_are_appended():
    _, (values, recipes, bases) = drawn_log(2)

    def decided(n):
        tests = confirmations(values[:n], recipes[:n], bases)
        return [(t.row, t.recipe, t.p_value, t.threshold, t.is_called) for t in tests]

    tests = decided(len(values))
    assert len(tests) == 30
    assert sum(test[-1] for test in tests) >= 5
    for n in range(0, len(values), 7):
        assert decided(n) == [test for test in tests if test[0] < n]


def test_false_calls_of_logs_are_a_tenth_at_most():
    """120 logs of thirty tests that share their base; the recipes are drawn, not selected."""
    shares, powers, n_held, n_calls = [], [], 0, 0
    for seed in range(120):
        gains, log = drawn_log(seed)
        tests = confirmations(*log)
        called = [test for test in tests if test.is_called]
        is_false = [gains[test.recipe] == 0 for test in called]
        shares.append(sum(is_false) / max(len(called), 1))
        powers.append((len(called) - sum(is_false)) / 10)
        n_calls += len(tests)
        for test in tests:
            low, high = test.fresh.interval(0.95)
            n_held += low <= gains[test.recipe] <= high
    assert np.mean(shares) < 0.1
    assert np.mean(powers) > 0.5
    assert n_held / n_calls == pytest.approx(0.95, abs=0.02)


def test_fresh_runs_that_are_all_alike_tell_no_noise_and_confirm_nothing():
    alike = log_of((0, 1.0), (1, 0.9), *pairs(1, 0, [0.9] * 3, [1.0] * 3))
    assert confirmations(*alike, BASES) == ()
    assert confirmations(
        *log_of((0, 1.0), (1, 0.9), *pairs(1, 0, [0.9] * 3, [1.0, 1.001, 0.999])), BASES
    )
