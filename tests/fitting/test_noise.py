import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from benchmarks.sweeps import simulate
from extrap import forecast, read_runs
from extrap.fitting.optimum import sharpen_noise
from extrap.fitting.outliers import find_outliers
from extrap.fitting.seed_noise import assume_shared, estimate_noise
from extrap.records import Runs
from extrap.records.numbers import format_estimate


def crossed(logs):
    """One run a size (rows) and seed (columns), whose log loss is given."""
    sizes, seeds = np.indices(logs.shape)
    table = {
        "width": 8 * 2.0 ** sizes.ravel(),
        "seed": seeds.ravel(),
        "loss": np.exp(logs.ravel()),
    }
    return pd.DataFrame(table)


def test_parts_of_the_noise_are_those_of_a_two_way_analysis_of_variance():
    """Five sizes, four seeds: mean squares by statsmodels, the share by numerical integration."""
    rng = np.random.default_rng(2)
    logs = 0.02 * rng.normal(size=4) + 0.01 * rng.normal(size=(5, 4))
    table = crossed(logs)
    model = ols("log_loss ~ C(width) + C(seed)", table.assign(log_loss=np.log(table["loss"])))
    _, of_seed, rest = anova_lm(model.fit())["mean_sq"]
    total = logs.var(axis=1, ddof=1).mean()
    share = np.linspace(1e-6, 1 - 1e-6, 20_001)
    square = 5 * share * total + rest
    density = stats.beta.pdf(share, 1.5, 3) * stats.chi2.pdf(3 * of_seed / square, 3) / square
    mean = float(density @ share / density.sum())
    noise = estimate_noise(read_runs(table, size="width"))
    assert noise.log_sd == pytest.approx(np.sqrt(total), rel=1e-3)
    assert noise.shared_sd == pytest.approx(np.sqrt(mean * total), rel=1e-3)
    assert noise.size_sd == pytest.approx(np.sqrt(rest))
    known = 1 / (mean**2 / 3 + (1 - mean) ** 2 / (15 - 3))
    assert noise.own_dof == noise.shared_dof == round(known)
    assert (noise.size_dof, noise.n_seeds, noise.source) == (12, 4, "replicates")
    shrunk = noise.shared_sd**2 / (noise.shared_sd**2 + rest / 5)
    effects = shrunk * (logs.mean(axis=0) - logs.mean())
    assert list(noise.seed_effects.values()) == pytest.approx(list(effects))
    assert list(noise.seed_effects) == ["0", "1", "2", "3"]


def test_noise_of_one_run_is_at_least_that_within_its_cell():
    """Seeds that scatter in opposite ways at two values: the means over both do not."""
    own = np.array([0.01, -0.01])
    rows = [
        {"width": w, "lr": lr, "seed": s, "loss": np.exp(sign * own[s])}
        for w in (8, 16, 32)
        for lr, sign in ((0.1, 1), (0.2, -1))
        for s in (0, 1)
    ]
    noise = estimate_noise(read_runs(pd.DataFrame(rows), size="width", tune="lr"))
    assert noise.log_sd == pytest.approx(np.sqrt(12 * 0.01**2 / 6))
    assert noise.size_sd == pytest.approx(0.0, abs=1e-9)
    assert noise.shared_sd < noise.own_sd
    assert noise.size_dof == 2


def test_two_seeds_are_worth_more_than_one_degree_of_freedom(sweep_table):
    """Seven rates, of which those far from the optimum count as at most eight more."""
    table = sweep_table(seeds=2, noise=0.004)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert 10 <= noise.own_dof <= 30
    assert noise.log_sd == pytest.approx(0.004, rel=0.3)


@pytest.mark.parametrize(("seed", "is_known"), [(7, True), (None, False)])
def test_of_one_seed_a_shared_half_is_assumed(sweep_table, seed, is_known):
    table = sweep_table(seeds=1).assign(seed=seed).dropna(axis=1)
    runs = read_runs(table, size="width", tune="lr")
    alone = sharpen_noise(runs, estimate_noise(runs))
    assumed = assume_shared(runs, alone)
    assert assumed.shared_sd == pytest.approx(assumed.own_sd)
    assert assumed.own_sd == alone.own_sd
    assert (dict(assumed.seed_effects), assumed.n_seeds) == ({"7": 0.0} if is_known else {}, 1)
    assert assumed.of_mean([7]) == ((0.0, 1.0, 0.0, 0.0) if is_known else (0.0, 1.0, 1.0, 1.0))
    assert assumed.of_mean([8]) == (0.0, 1.0, 1.0, 1.0)
    several = read_runs(sweep_table(seeds=2), size="width", tune="lr")
    assert assume_shared(several, alone) == alone


def test_seeds_that_differ_between_sizes_have_the_pooled_variance():
    logs = 0.01 * np.random.default_rng(0).normal(size=(3, 4))
    sizes, seeds = np.indices((3, 4))
    table = pd.DataFrame({"width": 8 * 2.0 ** sizes.ravel(), "loss": np.exp(logs.ravel())})
    noise = estimate_noise(read_runs(table.assign(seed=np.arange(12)), size="width"))
    assert noise.own_sd == noise.size_sd == pytest.approx(np.sqrt(logs.var(1, ddof=1).mean()))
    assert (noise.shared_sd, noise.own_dof, noise.n_seeds) == (0.0, 9, 1)
    two = read_runs(table.assign(seed=seeds.ravel())[:8], size="width")  # a third size is needed
    assert (estimate_noise(two).own_dof, estimate_noise(two).shared_sd) == (6, 0.0)


def test_without_replicates_the_scatter_about_a_parabola_serves(sweep_table):
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


def test_means_with_standard_deviations_over_seeds_tell_the_noise_as_their_runs_do(sweep_table):
    """Rows that are means, each of two, three or four seeds."""
    frame = sweep_table(noise=0.003, seeds=4)
    frame = frame[frame["seed"] < 2 + frame["width"].rank(method="dense").mod(3)]
    frame = frame.assign(seed=range(len(frame)))  # a seed has no part at all sizes
    means = frame.groupby(["width", "lr"], as_index=False)["loss"].agg(["mean", "std", "size"])
    means = means.rename(columns={"mean": "loss_mean", "std": "loss_std", "size": "n_seeds"})
    seeds, noise = estimate_noise(read_runs(frame)), estimate_noise(read_runs(means))
    assert noise.size_sd < noise.own_sd == pytest.approx(seeds.size_sd, rel=0.1)
    assert (noise.own_dof, noise.source, noise.is_replicated) == (seeds.size_dof, "means", True)
    assert noise.row_sd == noise.size_sd
    assert not [flag for flag in forecast(means).flags if "no-replicates" in flag]


def test_one_run_a_size_says_nothing_about_noise(sweep_table):
    table = sweep_table(seeds=1, rates=(0.01,))
    noise = estimate_noise(read_runs(table, size="width"))
    assert (noise.own_sd, noise.log_sd, noise.own_dof) == (None, None, 0)
    assert (noise.size_sd, noise.source) == (None, "none")


def test_wild_runs_far_from_the_optimum_hardly_count(sweep_table):
    """The median of the other cells counts as 8 degrees of freedom, however wild a part is."""
    table = sweep_table(noise=0.002)
    wild = table.copy()
    far = wild["lr"] == wild["lr"].max()
    wild.loc[far, "loss"] *= np.exp(0.5 * np.random.default_rng(0).normal(size=far.sum()) ** 2)
    plain, other = (estimate_noise(read_runs(t, size="width", tune="lr")) for t in (table, wild))
    assert other.log_sd == pytest.approx(plain.log_sd, rel=0.35)
    assert (other.size_sd, other.own_dof) == (plain.size_sd, plain.own_dof)


def of_sizes(sd, *, n_seeds=6, seed=0):
    """Losses at five widths, each with its own standard deviation of the log loss."""
    rng = np.random.default_rng(seed)
    return crossed(sd[:, None] * rng.normal(size=(len(sd), n_seeds)))


def test_noise_that_falls_with_size_is_that_of_the_largest_size_and_known_at_each():
    """Standard deviations of .3 at width 8 to .01875 at 128: a power of −1."""
    sd = 0.3 * 2.0 ** -np.arange(5)
    log_ratios = []
    for seed in range(40):
        noise = estimate_noise(read_runs(of_sizes(sd, seed=seed), size="width", tune=()))
        if noise.trend < 0:
            at_small = noise.at_size({"width": 8.0})
            log_ratios.append([np.log(noise.log_sd / sd[-1]), np.log(at_small.log_sd / sd[0])])
    assert len(log_ratios) >= 36
    # a regression over five sizes errs by about .3 at its ends, for each of 40 sweeps
    assert np.mean(log_ratios, axis=0) == pytest.approx(0, abs=0.15)
    beyond = noise.at_size({"width": 4096.0})
    assert beyond.log_sd == noise.log_sd


def test_noise_that_is_the_same_at_all_sizes_seldom_shows_a_trend():
    """A test at 1 % in 60 sweeps; more than 4 have a chance of a thousandth."""
    trends = [
        estimate_noise(read_runs(of_sizes(np.full(5, 0.02), seed=s), size="width", tune=())).trend
        for s in range(60)
    ]
    assert sum(trend != 0 for trend in trends) <= 4


def test_cells_that_differ_from_the_best_by_noise_tell_of_it_too():
    """Three rates whose means are within 20 % noise: 2 · 3 · 4 degrees of freedom, not 2 · 4."""
    axes = {"width": 8 * 2.0 ** np.arange(4), "lr": 2.0 ** np.arange(3), "seed": range(3)}
    table = simulate(lambda width, lr, seed: 1.0, noise=0.2, rng=1, **axes)
    noise = estimate_noise(read_runs(table, size="width", tune="lr"))
    assert noise.log_sd == pytest.approx(0.2, rel=0.25)
    assert noise.own_dof > 8


def table(seeds=3, noise=0.003):
    """Five sizes, seven rates; the best rate is 2^-8 at every size, off it 3 % per octave²."""

    def loss(width, lr, seed):
        return (1.5 + 4 * width**-0.5) * np.exp(0.03 * (np.log2(lr) + 8) ** 2)

    axes = {"width": 2.0 ** np.arange(4, 9), "lr": 2.0 ** np.arange(-11, -4)}
    return simulate(loss, noise=noise, **axes, seed=range(seeds))


def rows_of(frame):
    found = find_outliers(read_runs(frame, size="width", tune="lr"))
    return {outlier.row: math.exp(outlier.log_deviation) for outlier in found}


def row_of(frame, octaves, seed=1):
    at = (frame["width"] == 64) & np.isclose(frame["lr"], 2.0 ** (octaves - 8))
    return int(frame.index[at & (frame["seed"] == seed)][0])


@pytest.mark.parametrize(
    ("octaves", "factor", "is_named"),
    [(0, 0.7, True), (0, 1.3, True), (3, 0.7, True), (3, 1.5, False), (0, 1.01, False)],
)
def test_a_run_far_from_its_cell_is_named_but_for_instability_off_the_optimum(
    octaves, factor, is_named
):
    frame = table()
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    wrong = row_of(frame, octaves)
    frame.loc[wrong, "loss"] *= factor
    found = rows_of(frame)
    assert list(found) == [wrong] * is_named
    if is_named:
        assert found[wrong] == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize(("factor", "is_named"), [(0.985, False), (0.975, True)])
def test_a_deviation_below_2_percent_is_not_named_however_small_the_noise_is(factor, is_named):
    frame = table(noise=1e-5)
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= factor
    assert list(rows_of(frame)) == [wrong] * is_named


def test_two_seeds_do_not_tell_which_is_wrong_and_larger_runs_are_left_out():
    frame = table(seeds=2)
    frame.loc[row_of(frame, 0), "loss"] *= 0.7
    assert not rows_of(frame)
    frame = table().assign(stage="tune", status="complete")
    wrong = row_of(frame, 0)
    frame.loc[wrong, ["loss", "stage"]] = [0.7 * frame.loc[wrong, "loss"], "check"]
    runs = Runs.from_frame(frame, sizes=["width"], tuned=["lr"])
    assert len(runs) == len(frame)
    assert not find_outliers(runs)


def test_the_forecast_names_it_and_says_what_it_is_without():
    clean, frame = table(), table()
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= 0.7
    made = forecast(read_runs(frame, size="width", tune="lr"))
    (flag,) = [flag for flag in made.flags if flag.startswith("outlier")]
    assert f"row {wrong + 1} (width 64, lr 0.00391, seed 1) is 30 % below" in flag
    assert "left out" in flag
    without = forecast(read_runs(clean.drop(index=wrong), size="width", tune="lr"))
    alone = without.at(width=512)
    assert f"is {format_estimate(alone.loss, alone.loss_pi)} without" in flag
    assert not any("outlier" in flag for flag in without.flags)
    assert len(made.runs) == len(frame) - 1
    assert (made.optima, made.noise) == (without.optima, without.noise)


@pytest.mark.parametrize("case", ["too high", "others apart"])
def test_a_run_that_may_be_right_is_kept(case):
    """One above its cell, or one below three others that differ by half of its deviation."""
    frame = table(seeds=4)
    wrong = row_of(frame, 0)
    frame.loc[wrong, "loss"] *= 1.3 if case == "too high" else 0.7
    if case == "others apart":
        frame.loc[row_of(frame, 0, seed=2), "loss"] *= math.exp(0.5 * math.log(0.7))
    made = forecast(read_runs(frame, size="width", tune="lr"))
    assert len(made.runs) == len(frame)
    flags = [flag for flag in made.flags if flag.startswith("outlier")]
    assert f"row {wrong + 1} " in flags[0]
    assert not any("left out" in flag for flag in flags)
