"""What is said of the sizes of a sweep: optima, losses and noise, against a known truth."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, simulate, true_loss, true_lr
from extrap.fitting.surface.fitted_sizes import fit_sweep


def fitted(table, *, tune="lr", **options):
    runs = extrap.read_runs(table, size="width", tune=tune).in_order()
    return fit_sweep(runs, level=0.95, **options)


def sizes_of(found):
    return np.array([optimum.size["width"] for optimum in found.optima])


def log_ratios(found, *, name="lr", truth=true_lr):
    """Octaves of each optimum above the truth."""
    values = np.array([optimum.tuned[name].value for optimum in found.optima])
    return np.log2(values / truth(sizes_of(found)))


@pytest.fixture(scope="module")
def plain():
    return fitted(make_table(noise=0.004, seed=1))


def test_optima_and_losses_are_the_truth_within_their_errors(plain):
    for optimum in plain.optima:
        width, rate = optimum.size["width"], optimum.tuned["lr"]
        assert abs(math.log(rate.value / true_lr(width))) < 3 * rate.se / rate.value
        assert rate.pi.lower < true_lr(width) < rate.pi.upper
        assert rate.pi.upper / rate.pi.lower < 2**0.5
        assert abs(optimum.loss - true_loss(width)) < 3 * optimum.loss_se
        # eight cells of three runs near an optimum: more than one run says, less than all
        assert 0.004 / math.sqrt(24) < optimum.paired_loss_se / optimum.loss < 0.004 / math.sqrt(3)
        assert optimum.paired_loss_se < optimum.loss_se
        assert (optimum.bracketed, optimum.edge) == (True, None)
        assert (optimum.n_runs, optimum.n_diverged) == (24, 0)


def test_losses_are_those_of_the_mean_of_the_seeds_of_the_sweep():
    """Seeds that shift all sizes alike by known amounts of 1 %, of which the mean is .3 %."""
    effects = np.array([0.01, -0.006, 0.005])
    table = make_table(noise=0.0005, seed=1)
    table["loss"] *= np.exp(effects[table["seed"]])
    found = fitted(table)
    for optimum in found.optima:
        off = math.log(optimum.loss / true_loss(optimum.size["width"]))
        assert off == pytest.approx(0.003, abs=0.002)
        own = optimum.paired_loss_se / optimum.loss
        shared = found.noise.at_size(optimum.size).shared_sd / math.sqrt(3)
        whole = math.hypot(own, shared, found.noise.level_sd)
        assert optimum.loss_se / optimum.loss == pytest.approx(whole, rel=0.05)
    assert found.noise.level_sd < 0.0005
    assert [found.noise.seed_effects[str(s)] for s in range(3)] == pytest.approx(
        effects - effects.mean(), abs=0.002
    )
    assert found.noise.shared_sd == pytest.approx(effects.std(ddof=1), rel=0.6)


@pytest.mark.parametrize(
    ("rates", "side"), [(2.0 ** np.arange(-5, 0), "low"), (2.0 ** np.arange(-16, -10), "high")]
)
def test_an_optimum_beyond_the_values_tried_has_a_side_a_wide_interval_and_a_loss(rates, side):
    """The loss at the optimum is lower than any measured, as far as its error says."""
    found = fitted(make_table(noise=0.004, rates=rates))
    assert [optimum.edge for optimum in found.optima] == [{"lr": side}] * 5
    errors = found.draws.losses.std(axis=0)  # most of which all sizes have in common
    for optimum, error in zip(found.optima, errors, strict=True):
        rate, width = optimum.tuned["lr"], optimum.size["width"]
        assert not optimum.bracketed
        assert rate.pi.lower < true_lr(width) < rate.pi.upper
        assert rate.pi.upper / rate.pi.lower > 8
        assert optimum.loss < optimum.best_loss
        assert abs(math.log(optimum.loss / true_loss(width))) < 3 * error


@pytest.mark.parametrize("width", [64, 192])
def test_a_size_whose_runs_all_diverged_has_no_loss_and_moves_no_other(plain, width):
    table = make_table(noise=0.004, seed=1)
    table.loc[table["width"] == width, "loss"] = math.inf
    found = fitted(table)
    for optimum, whole in zip(found.optima, plain.optima, strict=True):
        if optimum.size["width"] == width:
            assert (optimum.loss, optimum.loss_se, optimum.best_loss) == (None, None, None)
            assert (optimum.bracketed, optimum.n_diverged) == (False, 24)
        else:
            assert abs(optimum.loss - whole.loss) < whole.loss_se
            ratio = optimum.tuned["lr"].value / whole.tuned["lr"].value
            assert abs(math.log2(ratio)) < 0.1


def test_a_size_of_failed_runs_only_is_no_size():
    table = make_table().astype(object)
    table.loc[table["width"] == 64, "loss"] = None
    assert sizes_of(fitted(table)).tolist() == [16, 32, 128, 192]


def test_one_seed_that_diverged_by_chance_hides_no_better_values(plain):
    """At width 16, at the best rate that was tried."""
    table = make_table(noise=0.004, seed=1)
    here = table["width"] == 16
    best = table[here].groupby("lr")["loss"].mean().idxmin()
    table.loc[here & (table["lr"] == best) & (table["seed"] == 0), "loss"] = math.inf
    found = fitted(table)
    assert found.optima[0].bracketed
    assert log_ratios(found) == pytest.approx(log_ratios(plain), abs=0.1)
    others = table[here & (table["lr"] != best)].groupby("lr")["loss"].mean().min()
    assert found.optima[0].best_loss <= others


def test_equal_losses_bound_the_optimum_where_others_are_worse():
    """Of five rates from 2^-8 to 2^-4 three in a row are equally good, and lower by 5 %."""
    axes = {"width": (8, 16, 32, 64), "lr": 2.0 ** np.arange(-8, -3)}
    for best, middle, edge in (
        ((0, 1, 2), -7, None),
        ((1, 2, 3), -6, None),
        ((2, 3, 4), -5, None),
    ):

        def loss(width, lr, best=best):
            return (1 + 0.5 * (width / 8) ** -0.3) * np.where(
                np.isin(np.log2(lr) + 8, best), 2.0, 2.1
            )

        for optimum in fitted(simulate(loss, **axes)).optima:
            low, high = np.log2(optimum.tuned["lr"].pi)
            assert low < middle < high
            assert math.log2(optimum.tuned["lr"].value) == pytest.approx(middle, abs=0.5)
            assert (optimum.edge, optimum.bracketed) == (edge, True)


def test_beside_a_cliff_the_optimum_lies_between_the_values_seen_to_be_worse():
    """A slow fall over five octaves and then a cliff: no parabola."""
    logs = np.log([0.40, 0.21, 0.138, 0.104, 0.087, 2.08, 2.31])

    def loss(width, lr, seed):
        return np.exp(logs[(np.log2(lr) + 4).astype(int)] + 0.02 * (seed - 1))

    for optimum in fitted(
        simulate(loss, width=(8, 9), lr=2.0 ** np.arange(-4, 3), seed=range(3))
    ).optima:
        assert 2.0**-1 < optimum.tuned["lr"].value < 2.0
        assert optimum.loss == pytest.approx(0.087, rel=0.1)


def test_copies_of_rows_count_once_and_their_order_does_not_matter(plain):
    table = make_table(noise=0.004, seed=1)
    for other in (pd.concat([table] * 3), table.sample(frac=1, random_state=3)):
        found = fitted(other)
        assert (found.optima, found.noise) == (plain.optima, plain.noise)
        assert (found.draws.theta == plain.draws.theta).all()


@pytest.mark.parametrize("log2_factor", [-40, 30])
def test_units_of_sizes_and_values_do_not_matter(plain, log2_factor):
    factor = 2.0**log2_factor
    table = make_table(noise=0.004, seed=1)
    found = fitted(table.assign(lr=table["lr"] * factor, width=table["width"] * factor))
    for optimum, other in zip(found.optima, plain.optima, strict=True):
        ratio = optimum.tuned["lr"].value / factor / other.tuned["lr"].value
        assert ratio == pytest.approx(1, abs=1e-3)
        assert optimum.loss == pytest.approx(other.loss, rel=1e-5)


def test_two_tuned_values_are_found_together():
    def loss(width, lr, batch):
        u, v = np.log2(lr / 0.01), np.log2(batch / 40)
        return (1 + 8 / width) * np.exp(0.02 * u * u + 0.015 * v * v - 0.01 * u * v)

    axes = {"width": [8, 16, 32], "lr": 2.0 ** np.arange(-10, -3), "batch": 2.0 ** np.arange(3, 9)}
    found = fitted(simulate(loss, noise=0.001, **axes), tune=("lr", "batch"))
    assert log_ratios(found, truth=lambda w: 0.01 + 0 * w) == pytest.approx(0, abs=0.1)
    assert log_ratios(found, name="batch", truth=lambda w: 40 + 0 * w) == pytest.approx(
        0, abs=0.15
    )
    for optimum in found.optima:
        assert optimum.loss == pytest.approx(1 + 8 / optimum.size["width"], rel=0.003)


def test_without_tuned_columns_a_loss_is_the_mean_of_its_runs():
    table = pd.DataFrame({"width": [8, 16, 32], "loss": [3.0, 2.0, 1.5]})
    found = fitted(table, tune=())
    assert found.draws is None
    assert [optimum.loss for optimum in found.optima] == [3.0, 2.0, 1.5]
    assert [optimum.loss_se for optimum in found.optima] == [None] * 3
    seeds = simulate(
        lambda width, seed: 1 + 8 / width, noise=0.01, width=[8, 16, 32], seed=range(5)
    )
    for optimum in fitted(seeds, tune=()).optima:
        rows = seeds[seeds["width"] == optimum.size["width"]]
        mean = math.exp(np.log(rows["loss"]).mean())
        assert optimum.loss == pytest.approx(mean, rel=0.003)
        assert optimum.loss_se / optimum.loss == pytest.approx(0.01 / math.sqrt(5), rel=0.5)
        assert (optimum.tuned, optimum.n_runs) == ({}, 5)


@pytest.mark.parametrize("options", [{"noise": 0.004}, {"noise": 0.1}])
def test_noise_of_a_sweep_is_found(options):
    """120 runs of three seeds: within a factor of 1.3 on average, and 1.5 each."""
    ratios = [
        fitted(make_table(seed=seed, **options)).noise.log_sd / options["noise"]
        for seed in range(5)
    ]
    assert abs(np.log(ratios).mean()) < math.log(1.3)
    assert np.abs(np.log(ratios)).max() < math.log(1.5)


def test_noise_of_one_seed_is_found_and_half_of_it_may_be_shared():
    """By the scatter about the surface: eight rates of one seed at five sizes."""
    found = [fitted(make_table(noise=0.004, seeds=1, seed=seed)).noise for seed in range(5)]
    assert abs(np.mean([math.log(noise.log_sd / 0.004) for noise in found])) < math.log(1.5)
    for noise in found:
        assert (noise.source, noise.is_replicated) == ("surface", False)
        assert 0.2 < (noise.shared_sd / noise.log_sd) ** 2 < 0.6
        assert (noise.n_seeds, noise.seed_effects) == (1, {"0": 0.0})


def untuned(slope, seed):
    """Five widths and six seeds, each with its own noise: .02 at the largest, a power of size."""
    axes = {"width": 8.0 * 2.0 ** np.arange(5), "seed": range(6)}
    table = simulate(lambda width, seed: 1 + 8 / width, **axes)
    sd = 0.02 * (table["width"] / 128) ** -slope
    return table.assign(
        loss=table["loss"] * np.exp(sd * np.random.default_rng(seed).normal(size=len(table)))
    )


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_noise_that_falls_with_size_is_that_of_the_largest_and_known_at_each(slope):
    """A line through five standard deviations of six runs errs by .3 at its ends."""
    found = [fitted(untuned(slope, seed), tune=()).noise for seed in range(10)]
    at_ends = [[noise.log_sd, noise.at_size({"width": 8.0}).log_sd] for noise in found]
    off = np.log(np.array(at_ends) / [0.02, 0.02 * 16**slope])
    assert np.abs(off.mean(axis=0)).max() < math.log(1.3)
    assert np.mean([noise.trend for noise in found]) == pytest.approx(-slope, abs=0.12)


def test_wild_runs_far_from_the_optimum_hardly_count():
    table = make_table(noise=0.002)
    wild, far = table.copy(), table["lr"] == table["lr"].max()
    rng = np.random.default_rng(0)
    wild.loc[far, "loss"] *= np.exp(0.5 * rng.normal(size=far.sum()) ** 2)
    plain, other = fitted(table), fitted(wild)
    assert other.noise.log_sd == pytest.approx(plain.noise.log_sd, rel=0.35)
    assert log_ratios(other) == pytest.approx(log_ratios(plain), abs=0.1)


def test_losses_of_sizes_that_no_grid_reaches_have_an_error_in_common():
    """All rates lie octaves below the best: how far the loss still falls is not known."""
    found = fitted(make_table(noise=0.004, rates=2.0 ** np.arange(-16, -10)))
    off = [math.log(o.loss / true_loss(o.size["width"])) for o in found.optima]
    assert found.noise.level_sd > 0.03
    for error, optimum in zip(off, found.optima, strict=True):
        assert abs(error) < 3 * optimum.loss_se / optimum.loss
    assert fitted(make_table(noise=0.004)).noise.level_sd < 0.005


def test_a_loss_is_the_best_that_runs_reach_where_they_diverge_before_the_optimum():
    """Runs diverge from two octaves below the optimum on: no tuned run is at the optimum."""
    table = make_table(noise=0.002, seed=3, cliff=-2)
    best = table.groupby("width")["loss"].min()
    for optimum in fitted(table).optima:
        measured = best[optimum.size["width"]]
        assert optimum.loss > measured * (1 - 3 * optimum.loss_se / optimum.loss - 0.02)
