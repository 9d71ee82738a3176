"""Variance components of a table of sizes and seeds, and the errors of sums over sizes."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from extrap.comparing.scatter import Piece, combine, estimate_scatter, with_own

N_SIZES, N_SEEDS = 6, 4


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N_SIZES, N_SEEDS)) + 2 * rng.normal(size=N_SEEDS)


def mean_squares(table):
    """Of seeds, and of the rest, as in an analysis of variance without replicates."""
    n_sizes, n_seeds = table.shape
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    own = (rest**2).sum() / ((n_sizes - 1) * (n_seeds - 1))
    return n_sizes * table.mean(axis=0).var(ddof=1), own


def test_whole_tables_give_mean_squares(table):
    """And the error of one size: MS_seed + (k − 1) MS_rest, by Satterthwaite."""
    found = estimate_scatter(table, np.eye(N_SIZES))
    of_seeds, own = mean_squares(table)
    assert found.own == pytest.approx(own)
    assert found.seed == pytest.approx((of_seeds - own) / N_SIZES)
    assert found.own_dof == pytest.approx(15)
    one = found.piece(np.eye(N_SIZES)[2])
    both = of_seeds + 5 * own
    assert one.variance == pytest.approx(both / N_SIZES / N_SEEDS)
    assert one.dof == pytest.approx(both**2 / (of_seeds**2 / 3 + (5 * own) ** 2 / 15))
    assert (found.is_single, found.is_assumed) == (False, False)


def test_mean_over_sizes_is_a_t_test_of_seeds(table):
    found = estimate_scatter(table, np.ones((N_SIZES, 1)))
    piece = found.piece(np.full(N_SIZES, 1 / N_SIZES))
    assert piece.dof == pytest.approx(N_SEEDS - 1)
    assert piece.variance == pytest.approx(stats.sem(table.mean(axis=0)) ** 2)


def test_slope_is_that_of_a_regression_with_a_level_for_each_seed(table):
    x = np.arange(N_SIZES) - (N_SIZES - 1) / 2
    design = np.column_stack([np.ones(N_SIZES), x])
    piece = estimate_scatter(table, design).piece(x / (x @ x))
    levels = np.tile(np.eye(N_SEEDS), (N_SIZES, 1))
    fit = sm.OLS(table.ravel(), np.column_stack([np.repeat(x, N_SEEDS), levels])).fit()
    assert piece.variance == pytest.approx(fit.bse[0] ** 2)
    assert piece.dof == pytest.approx(fit.df_resid)
    moved = estimate_scatter(table + 5 * np.arange(N_SEEDS), design)
    assert moved.piece(x / (x @ x)).variance == pytest.approx(piece.variance)


def test_seeds_that_never_recur_are_independent():
    rng = np.random.default_rng(1)
    table = np.full((3, 6), np.nan)
    for i in range(3):
        table[i, 2 * i : 2 * i + 2] = rng.normal(size=2)
    found = estimate_scatter(table, np.eye(3))
    assert (found.is_single, found.seed, found.is_assumed, found.dof) == (True, 0.0, False, 3)
    within = np.nanvar(table, axis=1, ddof=1).mean()
    assert found.own == pytest.approx(within)
    assert found.piece(np.array([1.0, -1, 0])).variance == pytest.approx(within)


def test_a_single_seed_is_given_a_common_part():
    table = np.random.default_rng(2).normal(size=(5, 1))
    found = estimate_scatter(table, np.column_stack([np.ones(5), np.arange(5)]))
    assert found.is_assumed
    assert found.own == pytest.approx(sm.OLS(table, sm.add_constant(np.arange(5))).fit().scale)
    assert found.seed == found.own
    assert found.piece(np.full(5, 0.2)).variance == pytest.approx(1.2 * found.own)
    other = with_own(found, 2.0, 7).piece(np.full(5, 0.2))
    assert (other.variance, other.dof) == (pytest.approx(2.4), 7)
    assert estimate_scatter(np.ones((3, 1)), np.eye(3)) is None


def test_tables_with_holes_have_the_likeliest_components():
    """statsmodels' mixed model, restricted maximum likelihood, sizes fixed and seeds random."""
    rng = np.random.default_rng(3)
    big = rng.normal(size=(8, 30)) + 2 * rng.normal(size=30)
    holes = np.where(rng.random(big.shape) < 0.2, np.nan, big)
    found = estimate_scatter(holes, np.eye(8))
    size, seed = np.nonzero(np.isfinite(holes))
    fit = sm.MixedLM(holes[size, seed], np.eye(8)[size], groups=seed).fit(reml=True)
    assert found.own == pytest.approx(fit.scale, rel=1e-3)
    assert found.seed == pytest.approx(float(fit.cov_re[0, 0]), rel=1e-3)
    two, five = np.isfinite(holes[[2, 5]])  # a seed that only one size has adds its own part
    n, m, both = two.sum(), five.sum(), (two & five).sum()
    variance = found.own * (1 / n + 1 / m) + found.seed * (1 / n + 1 / m - 2 * both / n / m)
    assert found.piece(np.eye(8)[2] - np.eye(8)[5]).variance == pytest.approx(variance)


def test_parts_are_added_by_satterthwaite():
    """4 on 3 and 1 on 9 degrees of freedom: 25 / (16/3 + 1/9)."""
    se, dof = combine([Piece(variance=4.0, dof=3.0), Piece(variance=1.0, dof=9.0)])
    assert (se, dof) == pytest.approx((5**0.5, 25 / (16 / 3 + 1 / 9)))
    assert combine([Piece(variance=4.0, dof=np.inf)])[1] == np.inf
    assert combine([Piece(variance=4.0, dof=0.2)])[1] == 1.0
    table = np.random.default_rng(5).normal(size=(4, 3)) + np.array([0.0, 5, 9])
    whole = estimate_scatter(table, np.eye(4))
    other = with_own(whole, 2.0, 8)
    assert (other.own, other.seed, other.own_dof) == (2.0, whole.seed, pytest.approx(8))
