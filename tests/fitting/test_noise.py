from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import estimate_noise
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]


def test_seed_noise_is_found_and_grows_no_shared_part(sweep_table: Table) -> None:
    table = sweep_table(seeds=8, noise=0.01, seed=3)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert noise.own_sd == pytest.approx(0.01, rel=0.25)
    assert noise.shared_sd < 0.006
    assert noise.n_seeds == 8


def test_what_a_seed_does_to_all_sizes_alike_is_kept_apart(sweep_table: Table) -> None:
    table = sweep_table(seeds=12, noise=0.002, shared_noise=0.02, seed=4)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert noise.shared_sd == pytest.approx(0.02, rel=0.5)
    assert noise.own_sd == pytest.approx(0.002, rel=0.5)
    assert noise.shared_dof == 11
    assert noise.log_sd == pytest.approx(np.hypot(noise.own_sd, noise.shared_sd))


def test_seeds_that_differ_between_sizes_have_no_shared_part(sweep_table: Table) -> None:
    table = sweep_table(seeds=3, noise=0.01)
    table["seed"] = table["seed"] + 10 * table["width"].astype(int)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert noise.shared_sd == 0
    assert noise.own_sd == pytest.approx(0.01, rel=0.3)


def test_without_replicates_the_scatter_about_the_valleys_serves(sweep_table: Table) -> None:
    rates = tuple(float(2.0 ** (k / 4)) for k in range(-40, -20))
    table = sweep_table(seeds=1, rates=rates, noise=0.01)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert noise.own_sd == pytest.approx(0.01, rel=0.35)
    assert noise.shared_sd == 0


def test_one_run_a_size_says_nothing_about_noise(sweep_table: Table) -> None:
    table = sweep_table(seeds=1, rates=(0.01,))
    noise = estimate_noise(read_runs(table, size="width"))
    assert noise.own_sd is None
    assert noise.log_sd is None
    assert noise.own_dof == 0


def test_runs_far_from_the_optimum_do_not_count(sweep_table: Table) -> None:
    table = sweep_table(noise=0.002)
    wild = table.copy()
    far = wild["lr"] == wild["lr"].max()
    wild.loc[far, "loss"] *= np.exp(0.5 * np.random.default_rng(0).normal(size=far.sum()) ** 2)
    plain, other = (estimate_noise(read_runs(t, size="width", tune="lr")) for t in (table, wild))
    assert other == plain


@pytest.mark.parametrize("name", ["mean", "count", "residual", "cell", "log_loss", "size"])
def test_names_of_the_columns_do_not_matter(sweep_table: Table, name: str) -> None:
    table = sweep_table()
    plain = estimate_noise(read_runs(table, size="width", tune="lr"))
    by_size = read_runs(table.rename(columns={"width": name}), size=name, tune="lr")
    by_rate = read_runs(table.rename(columns={"lr": name}), size="width", tune=name)
    assert estimate_noise(by_size) == plain
    assert estimate_noise(by_rate) == plain
