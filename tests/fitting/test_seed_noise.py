"""What seeds do: from rows that are means over seeds, at other sizes, and to a mean of runs."""

import math

import pandas as pd
import pytest

import extrap
from extrap.fitting.seed_noise import Noise, noise_of_means
from extrap.fitting.surface.fitted_sizes import fit_sweep


def runs_of(frame, tune="lr"):
    return extrap.read_runs(frame, size="width", tune=tune)


def fitted_noise(frame, tune="lr"):
    return fit_sweep(runs_of(frame, tune), level=0.95).noise


def test_means_with_standard_deviations_over_seeds_tell_the_noise_as_their_runs_do(sweep_table):
    """Rows that are means, each of two, three or four seeds; the noise of a run is .003."""
    frame = sweep_table(noise=0.003, seeds=4)
    frame = frame[frame["seed"] < 2 + frame["width"].rank(method="dense").mod(3)]
    means = frame.groupby(["width", "lr"], as_index=False)["loss"].agg(["mean", "std", "size"])
    means = means.rename(columns={"mean": "loss_mean", "std": "loss_std", "size": "n_seeds"})
    noise = fitted_noise(means)
    near = means[means["loss_mean"] <= 1.05 * means.groupby("width")["loss_mean"].transform("min")]
    dof = near["n_seeds"] - 1
    variance = (dof * (near["loss_std"] / near["loss_mean"]) ** 2).sum() / dof.sum()
    assert noise.own_sd == pytest.approx(math.sqrt(variance))
    assert noise.own_sd == pytest.approx(0.003, rel=3 / math.sqrt(2 * dof.sum()))
    assert (noise.own_dof, noise.source, noise.is_replicated) == (dof.sum(), "means", True)
    assert not [flag for flag in extrap.forecast(means).flags if "no-replicates" in flag]


def test_a_mean_of_one_size_has_the_error_of_its_seeds():
    """Untuned rows: the mean of n seeds is off by the noise of a run over √n."""
    means = {"loss": [2.0, 1.9, 1.82], "loss_std": [0.02, 0.019, 0.0182], "n_seeds": [4, 9, 16]}
    runs = runs_of(pd.DataFrame({"width": [8, 16, 32], **means}), tune=())
    noise = noise_of_means(runs)
    assert (noise.own_sd, noise.own_dof) == (pytest.approx(0.01), 3 + 8 + 15)
    optima = fit_sweep(runs, level=0.95).optima
    errors = [optimum.loss_se / optimum.loss for optimum in optima]
    assert errors == pytest.approx([0.01 / 2, 0.01 / 3, 0.01 / 4])
    assert [optimum.loss for optimum in optima] == means["loss"]


def test_one_run_of_each_size_says_nothing_about_noise():
    frame = pd.DataFrame({"width": [8, 16, 32], "loss": [2.0, 1.9, 1.82]})
    noise = fitted_noise(frame, tune=())
    assert (noise.own_sd, noise.log_sd, noise.own_dof, noise.source) == (None, None, 0, "none")


def test_seeds_of_means_are_known_or_new():
    """Mean of n runs: known effects shift it; new ones add their share of the shared variance."""
    noise = Noise(own_sd=0.03, own_dof=9, shared_sd=0.04, seed_effects={"0": 0.02, "1": -0.02})
    assert noise.of_mean([0, 1]) == pytest.approx((0.0, 1 / 2, 0.0, 0.0))
    assert noise.of_mean([0]) == pytest.approx((0.02, 1.0, 0.0, 0.0))
    assert noise.of_mean([0, 7]) == pytest.approx((0.01, 1 / 2, 1 / 4, 1 / 4))
    assert noise.of_mean([7, 7]) == pytest.approx((0.0, 1 / 2, 1.0, 1.0))
    assert noise.log_sd == pytest.approx(0.05)


def test_noise_follows_its_trend_and_half_of_it_as_far_again_as_the_sweep_spans():
    """A trend of −1/2: at a fourth of the geometric mean of two size columns, twice the noise."""
    noise = Noise(
        own_sd=0.01,
        own_dof=9,
        shared_sd=0.02,
        seed_effects={"0": 0.03},
        trend=-0.5,
        log_scale=math.log(1000.0),
        log_span=math.log(16.0),
    )
    small = noise.at_size({"n": 1.0, "d": 250.0**2})
    assert (small.own_sd, small.shared_sd) == pytest.approx((0.02, 0.04))
    assert small.seed_effects["0"] == pytest.approx(0.06)
    assert noise.at_size({"n": 100.0, "d": 1e4}).own_sd == pytest.approx(0.01)
    for times, share in ((4.0, math.sqrt(1 / 2)), (16.0, 1 / 2), (1e6, 1 / 2)):
        larger = noise.at_size({"n": times * 100.0, "d": times * 1e4})
        assert larger.own_sd == pytest.approx(0.01 * share)
