"""Variance components of a table of sizes and seeds, and the errors of sums over sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from extrap.comparing.scatter import estimate_scatter

N_SIZES, N_SEEDS = 6, 4


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N_SIZES, N_SEEDS)) + 2 * rng.normal(size=N_SEEDS)


def test_whole_tables_give_mean_squares(table) -> None:
    found = estimate_scatter(table, np.eye(N_SIZES))
    of_seeds = N_SIZES * table.mean(axis=0).var(ddof=1)
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    own = (rest**2).sum() / ((N_SIZES - 1) * (N_SEEDS - 1))
    assert found.own == pytest.approx(own)
    assert found.seed == pytest.approx((of_seeds - own) / N_SIZES)
    assert found.own_dof == pytest.approx((N_SIZES - 1) * (N_SEEDS - 1))


def test_mean_over_sizes_is_a_t_test_of_seeds(table) -> None:
    found = estimate_scatter(table, np.ones((N_SIZES, 1)))
    piece = found.piece(np.full(N_SIZES, 1 / N_SIZES))
    assert piece.dof == pytest.approx(N_SEEDS - 1)
    assert piece.variance == pytest.approx(stats.sem(table.mean(axis=0)) ** 2)


def test_slope_leaves_seeds_out(table) -> None:
    x = np.arange(N_SIZES) - (N_SIZES - 1) / 2
    found = estimate_scatter(table, np.column_stack([np.ones(N_SIZES), x]))
    piece = found.piece(x / (x @ x))
    assert piece.variance == pytest.approx(found.own / N_SEEDS / (x @ x))
    assert piece.dof == pytest.approx(N_SIZES * N_SEEDS - N_SEEDS - 1)
    moved = estimate_scatter(table + 5 * np.arange(N_SEEDS), np.column_stack([np.ones(6), x]))
    assert moved.piece(x / (x @ x)).variance == pytest.approx(piece.variance)


def test_seeds_that_never_recur_are_independent() -> None:
    rng = np.random.default_rng(1)
    table = np.full((3, 6), np.nan)
    for i in range(3):
        table[i, 2 * i : 2 * i + 2] = rng.normal(size=2)
    found = estimate_scatter(table, np.eye(3))
    assert found.is_single
    assert (found.seed, found.is_assumed) == (0.0, False)
    assert found.dof == 3


def test_a_single_seed_is_given_a_common_part() -> None:
    table = np.random.default_rng(2).normal(size=(5, 1))
    found = estimate_scatter(table, np.column_stack([np.ones(5), np.arange(5)]))
    assert found.is_assumed
    assert found.seed == found.own
    assert found.piece(np.full(5, 0.2)).variance == pytest.approx(1.2 * found.own)


def test_tables_with_holes_come_close_to_the_whole(table) -> None:
    rng = np.random.default_rng(3)
    big = rng.normal(size=(8, 30)) + 2 * rng.normal(size=30)
    holes = np.where(rng.random(big.shape) < 0.2, np.nan, big)
    whole, found = (estimate_scatter(t, np.eye(8)) for t in (big, holes))
    assert found.own == pytest.approx(whole.own, rel=0.15)
    assert found.seed == pytest.approx(whole.seed, rel=0.25)


def test_nothing_is_known_without_a_residual() -> None:
    assert estimate_scatter(np.ones((3, 1)), np.eye(3)) is None
