import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from extrap.fitting.jackknife import (
    Error,
    combine,
    jackknife_variance,
    seed_mean,
    size_means,
)


def _left_out(values):
    return np.array([np.delete(values, i).mean() for i in range(len(values))])


def test_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(1).normal(size=9)
    variance = jackknife_variance(np.array(values.mean()), _left_out(values))
    assert variance == pytest.approx(values.var(ddof=1) / 9)


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


def test_seeds_that_act_alike_at_all_sizes_lower_the_degrees_of_freedom_of_a_size():
    rng = np.random.default_rng(6)
    own = rng.normal(size=(6, 3))
    same = size_means(own)[0].dof
    shared = size_means(own + 50 * np.arange(3))[0].dof
    assert shared == pytest.approx(2, abs=0.01)
    assert 2 < same <= 12


def test_errors_add_up_by_satterthwaite():
    both = combine(Error(3.0, 4.0), Error(4.0, math.inf))
    assert both.se == pytest.approx(5)
    assert both.dof == pytest.approx(25**2 / (81 / 4))


def test_intervals_and_tests_agree():
    error = Error(0.7, 5.0)
    assert error.p_value(error.half_width(0.9)) == pytest.approx(0.1)
    assert Error(0.0, 5.0).p_value(1.0) == 0
