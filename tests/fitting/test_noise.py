from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from extrap.fitting import estimate_noise
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]


def test_parts_of_the_noise_are_those_of_a_two_way_analysis_of_variance() -> None:
    """Three sizes, four seeds, one value each: mean squares by statsmodels."""
    rng = np.random.default_rng(2)
    logs = 0.02 * rng.normal(size=4) + 0.01 * rng.normal(size=(3, 4))
    sizes, seeds = np.indices((3, 4))
    table = pd.DataFrame({"width": 8 * 2.0 ** sizes.ravel(), "seed": seeds.ravel()})
    table["log_loss"] = logs.ravel()
    of_size, of_seed, rest = anova_lm(ols("log_loss ~ C(width) + C(seed)", table).fit())["mean_sq"]
    assert of_size > 0
    noise = estimate_noise(read_runs(table.assign(loss=np.exp(logs.ravel())), size="width"))
    shared = (of_seed - rest) / 3
    assert noise.shared_sd == pytest.approx(np.sqrt(shared))
    assert [noise.size_sd, noise.own_sd] == pytest.approx([np.sqrt(rest)] * 2)
    assert noise.log_sd == pytest.approx(np.sqrt(rest + shared))
    assert (noise.own_dof, noise.shared_dof, noise.n_seeds) == (6, 3, 4)
    assert noise.source == "replicates"


def test_noise_of_one_run_is_at_least_that_within_its_cell() -> None:
    """Seeds that scatter in opposite ways at two values: the means over both do not."""
    own = np.array([0.01, -0.01])
    rows = [
        {"width": w, "lr": lr, "seed": s, "loss": np.exp(sign * own[s])}
        for w in (8, 16, 32)
        for lr, sign in ((0.1, 1), (0.2, -1))
        for s in (0, 1)
    ]
    noise = estimate_noise(read_runs(pd.DataFrame(rows), size="width", tune="lr"))
    assert noise.own_sd == pytest.approx(np.sqrt(12 * 0.01**2 / 6))
    assert noise.size_sd == pytest.approx(0.0, abs=1e-9)
    assert (noise.shared_sd, noise.own_dof) == (0.0, 2)


def test_seeds_that_differ_between_sizes_have_the_pooled_variance() -> None:
    logs = 0.01 * np.random.default_rng(0).normal(size=(3, 4))
    sizes, seeds = np.indices((3, 4))
    table = pd.DataFrame({"width": 8 * 2.0 ** sizes.ravel(), "loss": np.exp(logs.ravel())})
    noise = estimate_noise(read_runs(table.assign(seed=np.arange(12)), size="width"))
    assert noise.own_sd == noise.size_sd == pytest.approx(np.sqrt(logs.var(1, ddof=1).mean()))
    assert (noise.shared_sd, noise.own_dof, noise.n_seeds) == (0.0, 9, 1)
    two = read_runs(table.assign(seed=seeds.ravel())[:8], size="width")  # a third size is needed
    assert (estimate_noise(two).own_dof, estimate_noise(two).shared_sd) == (6, 0.0)


def test_without_replicates_the_scatter_about_a_parabola_serves(sweep_table: Table) -> None:
    table = sweep_table(seeds=1, rates=tuple(2.0 ** (k / 4) for k in range(-40, -20)), noise=0.01)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    square, dof = 0.0, 0
    for _, group in table.groupby("width"):
        near = group[group["loss"] <= 1.05 * group["loss"].min()]
        u = np.log2(near["lr"].to_numpy())
        fitted = OLS(np.log(near["loss"].to_numpy()), np.vander(u, 3)).fit()
        square, dof = square + fitted.ssr, dof + int(fitted.df_resid)
    assert noise.own_sd == pytest.approx(np.sqrt(square / dof))
    assert (noise.own_dof, noise.shared_sd, noise.source) == (dof, 0.0, "parabola")


def test_one_run_a_size_says_nothing_about_noise(sweep_table: Table) -> None:
    table = sweep_table(seeds=1, rates=(0.01,))
    noise = estimate_noise(read_runs(table, size="width"))
    assert (noise.own_sd, noise.log_sd, noise.own_dof) == (None, None, 0)
    assert (noise.size_sd, noise.source) == (None, "none")


def test_runs_far_from_the_optimum_do_not_count(sweep_table: Table) -> None:
    table = sweep_table(noise=0.002)
    wild = table.copy()
    far = wild["lr"] == wild["lr"].max()
    wild.loc[far, "loss"] *= np.exp(0.5 * np.random.default_rng(0).normal(size=far.sum()) ** 2)
    plain, other = (estimate_noise(read_runs(t, size="width", tune="lr")) for t in (table, wild))
    assert other == plain
