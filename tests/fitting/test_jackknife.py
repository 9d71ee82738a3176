import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from extrap.fitting.jackknife import (
    Error,
    combine,
    contrast_unit,
    jackknife_variance,
    seed_effect,
    seed_mean,
    size_means,
    without_seed_effects,
)


def _left_out(values):
    return np.array([np.delete(values, i).mean() for i in range(len(values))])


def test_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(1).normal(size=9)
    variance = jackknife_variance(np.array(values.mean()), _left_out(values))
    assert variance == pytest.approx(values.var(ddof=1) / 9)


def test_jackknife_adds_the_variances_of_independent_samples():
    a, b = np.split(np.random.default_rng(2).normal(size=11), [4])
    gap = b.mean() - a.mean()
    left_out = np.concatenate([b.mean() - _left_out(a), _left_out(b) - a.mean()])
    strata = np.array([0] * 4 + [1] * 7)
    variance = jackknife_variance(np.array(gap), left_out, strata=strata)
    assert variance == pytest.approx(a.var(ddof=1) / 4 + b.var(ddof=1) / 7)


def test_jackknife_of_a_fitted_line_is_right_on_average():
    rng, x, n = np.random.default_rng(3), np.linspace(-1, 1, 12), 12
    design = np.column_stack([np.ones(n), x, x**2])
    at = np.array([1.0, 2.0, 4.0])  # beyond the points
    found = []
    for _ in range(400):
        y = rng.normal(size=n)
        keep = [np.delete(np.arange(n), i) for i in range(n)]
        fits = [np.linalg.lstsq(design[k], y[k], rcond=None)[0] @ at for k in keep]
        whole = np.linalg.lstsq(design, y, rcond=None)[0] @ at
        found.append(jackknife_variance(np.array(whole), np.array(fits), n_fitted=3))
    truth = at @ np.linalg.inv(design.T @ design) @ at
    assert 0.95 < np.mean(found) / truth < 1.35  # the ends weigh most, where h is largest


def test_mean_over_crossed_seeds_has_the_error_of_their_own_means():
    table = np.random.default_rng(4).normal(size=(5, 3)) + np.array([0.0, 3.0, -2.0])
    error = seed_mean(table)
    assert error.se == pytest.approx(stats.sem(table.mean(axis=0)))
    assert error.dof == pytest.approx(2)


def test_mean_over_seeds_that_are_at_every_size_has_the_error_of_a_paired_test():
    """DescrStatsW of statsmodels over the seeds' own means."""
    table = np.random.default_rng(4).normal([0.0, 1.0, 0.5, -0.5], size=(5, 4))
    error, alone = seed_mean(table), DescrStatsW(table.mean(axis=0))
    assert error.se == pytest.approx(alone.std_mean)
    assert error.dof == pytest.approx(3)
    mean = table.mean()
    assert error.p_value(mean) == pytest.approx(alone.ttest_mean()[1])
    ends = (mean - error.half_width(0.9), mean + error.half_width(0.9))
    assert ends == pytest.approx(alone.tconfint_mean(alpha=0.1))


def test_mean_over_seeds_that_do_not_recur_has_the_error_of_single_runs():
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(4, 3))
    table = np.full((4, 12), np.nan)
    for i in range(4):
        table[i, 3 * i : 3 * i + 3] = runs[i]
    error = seed_mean(table)
    assert error.se == pytest.approx(math.sqrt(runs.var(axis=1, ddof=1).mean() / 12))
    assert error.dof == pytest.approx(8)


def test_a_size_with_one_seed_gives_the_mean_no_error():
    assert seed_mean(np.array([[1.0, 2.0], [1.0, np.nan]])) is None
    assert size_means(np.array([[1.0], [2.0]])) is None
    assert contrast_unit(np.array([[1.0, 2.0], [1.0, np.nan]])) is None


def test_seeds_that_act_alike_at_all_sizes_lower_the_degrees_of_freedom_of_a_size():
    rng = np.random.default_rng(6)
    own = rng.normal(size=(6, 3))
    same = size_means(own)[0].dof
    shared = size_means(own + 50 * np.arange(3))[0].dof
    assert shared == pytest.approx(2, abs=0.01)
    assert 2 < same <= 12


def test_effects_of_seeds_are_taken_out_and_told_apart_from_single_runs():
    rng = np.random.default_rng(7)
    effects, own = rng.normal(size=200), 0.5 * rng.normal(size=(6, 200))
    table = own + effects
    assert seed_effect(table).se == pytest.approx(1 / math.sqrt(200), rel=0.2)
    assert contrast_unit(table).se == pytest.approx(0.5, rel=0.1)
    left = without_seed_effects(table)
    assert left.mean(axis=1) == pytest.approx(table.mean(axis=1))
    assert np.ptp(left.mean(axis=0)) < 1e-12


def test_effects_are_only_taken_out_where_every_seed_is_at_every_size():
    table = np.array([[1.0, 2.0], [3.0, np.nan], [2.0, 4.0]])
    assert without_seed_effects(table) is table
    assert seed_effect(table).se == 0


def test_errors_add_up_by_satterthwaite():
    both = combine(Error(3.0, 4.0), Error(4.0, math.inf))
    assert both.se == pytest.approx(5)
    assert both.dof == pytest.approx(25**2 / (81 / 4))


def test_intervals_and_tests_agree():
    error = Error(0.7, 5.0)
    assert error.p_value(error.half_width(0.9)) == pytest.approx(0.1)
    assert Error(0.0, 5.0).p_value(1.0) == 0
