"""The mode of a surface: slopes by differences, known truths, and what diverged."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, simulate, true_loss, true_lr
from extrap.fitting.one_surface.answers import answer
from extrap.fitting.one_surface.draws import draw
from extrap.fitting.one_surface.surface import Surface, fit_surfaces
from extrap.fitting.one_surface.surface_noise import CellMeans, SurfaceNoise, estimate, seed_sd
from extrap.fitting.one_surface.sweep_arrays import arrays_of, complete_pruned

STEP = 1e-6


def arrays(table, tune=("lr",)):
    return arrays_of(extrap.read_runs(table, size="width", tune=list(tune)))


def diverging(table, octaves):
    """The runs of a table that lie so far above the best rate diverge."""
    off = np.log2(table["lr"] / true_lr(table["width"])) > octaves
    return table.assign(loss=table["loss"].where(~off, math.inf))


@pytest.fixture(scope="module")
def surface():
    return Surface(arrays(diverging(make_table(noise=0.01, seed=3), 1.6)))


def test_arrays_are_the_runs(surface):
    table = diverging(make_table(noise=0.01, seed=3), 1.6)
    found = surface.sweep
    assert 2 ** found.log_sizes[found.size][:, 0] == pytest.approx(table["width"].to_numpy())
    assert 2 ** found.values[:, 0] == pytest.approx(table["lr"].to_numpy())
    assert found.diverged.tolist() == np.isinf(table["loss"]).tolist()
    done = ~found.diverged
    assert np.exp(found.log_loss[done]) == pytest.approx(table["loss"].to_numpy()[done])
    assert len(np.unique(found.cell)) == 5 * 8
    assert (found.n_common, found.seeds.shape[1]) == (3, 3 + 15)


def test_slopes_of_runs_and_odds_are_those_of_differences(surface):
    rng = np.random.default_rng(0)
    theta = surface.theta + 0.05 * rng.normal(size=len(surface.theta))

    def values(point):
        state = surface._at(point)
        near = state.residual[state.is_plain]
        return np.concatenate([-near, [state.odds[0]]])

    state = surface._at(theta)
    slopes = np.vstack([state.slopes[state.is_plain], state.odds[1] @ state.odds[3]])
    for i in range(len(theta)):
        by = np.zeros(len(theta))
        by[i] = STEP
        expected = (values(theta + by) - values(theta - by)) / (2 * STEP)
        assert slopes[:, i] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_odds_of_many_points_are_those_of_each(surface):
    rng = np.random.default_rng(1)
    thetas = surface.theta + 0.02 * rng.normal(size=(5, len(surface.theta)))
    each = [surface.divergences.at(theta, surface.places)[0] for theta in thetas]
    assert surface.divergences.log_likelihoods(thetas, surface.places) == pytest.approx(each)


def test_the_mode_is_one(surface):
    """Uphill nowhere: the steps that are left are small against what is not known."""
    information, pull = surface._normal(surface.state, surface._variance)
    pull = pull - surface.precision @ (surface.theta - surface.mean)
    step = np.linalg.solve(information + surface.precision, pull)
    assert np.abs(step / np.sqrt(np.diag(surface.covariance))).max() < 0.1


def test_optima_losses_and_noise_of_a_known_truth():
    surface = Surface(arrays(make_table(noise=0.004, shared_noise=0.003, seed=7, seeds=4)))
    widths = 2 ** surface.sweep.log_sizes[:, 0]
    at, sd = surface.places, np.sqrt(np.diag(surface.covariance))
    off = surface.theta[at.optimum[:, 0]] - np.log2(true_lr(widths))
    assert np.abs(off / sd[at.optimum[:, 0]]).max() < 3
    assert np.abs(off).max() < 0.25
    assert np.exp(surface.theta[at.loss]) == pytest.approx(true_loss(widths), rel=0.02)
    assert 0.003 < surface.noise.sigma < 0.0055
    assert 0.0012 < surface.noise.common_sd < 0.007


def test_a_threshold_is_found_and_kept_from():
    table = diverging(make_table(noise=0.005, seed=5), 1.2)
    surfaces, weights = fit_surfaces(arrays(table))
    (found,), _ = draw(surfaces, weights, np.log2([[768.0]]), rng=np.random.default_rng(0))
    threshold = found.optimum[:, 0] + found.threshold / found.steepness[:, 0]
    truth = math.log2(true_lr(768)) + 1.2
    low, high = np.quantile(threshold, [0.025, 0.975])
    assert low < truth < high
    advised = answer(found)
    assert advised.values[0] < truth
    assert advised.chance < 0.1
    assert not advised.refusal


def test_a_value_is_refused_where_the_largest_size_diverged():
    table = make_table(noise=0.005, seed=5)
    table.loc[table["width"] == 192, "loss"] = math.inf
    surfaces, weights = fit_surfaces(arrays(table))
    (found,), _ = draw(surfaces, weights, np.log2([[768.0]]), rng=np.random.default_rng(0))
    assert answer(found).refusal == "diverges"


def test_a_sweep_without_a_loss_is_refused():
    with pytest.raises(extrap.DataError, match="none of 120"):
        fit_surfaces(arrays(make_table().assign(loss=math.inf)))


@pytest.mark.parametrize("ratio", [2, 4])
def test_answer_beyond_the_sweep_holds_the_truth_and_is_narrow(ratio):
    surfaces, weights = fit_surfaces(arrays(make_table(noise=0.004, seed=2)))
    assert weights.sum() == pytest.approx(1)
    size = 192.0 * ratio
    (found,), losses = draw(surfaces, weights, np.log2([[size]]), rng=np.random.default_rng(0))
    assert losses.shape == (4096, 5)
    advised, truth = answer(found), math.log2(true_lr(size))
    assert advised.low[0] < truth < advised.high[0]
    assert advised.high[0] - advised.low[0] < 1.5
    assert abs(advised.values[0] - truth) < 0.5
    assert advised.mistuned < 0.01


def test_draws_at_a_fitted_size_are_those_of_its_parameters():
    surfaces, weights = fit_surfaces(arrays(make_table(noise=0.004, seed=2)))
    (found,), losses = draw(surfaces, weights, np.log2([[64.0]]), rng=np.random.default_rng(0))
    first = surfaces[int(np.argmax(weights))]
    place = first.places.optimum[2, 0]
    sd = math.sqrt(first.covariance[place, place])
    assert found.optimum.mean() == pytest.approx(first.theta[place], abs=0.3 * sd)
    assert 0.7 < found.optimum.std() / sd < 1.5
    assert losses.mean(axis=0) == pytest.approx(first.theta[first.places.loss], abs=0.005)


def test_two_columns_of_which_one_does_nothing():
    """The flat one ends with a small curvature; the other is found."""

    def loss(width, lr, wd):
        return 2 + 0.02 * np.log2(lr / 0.01) ** 2 + 0 * wd + 8 / width

    axes = {"width": (16, 32, 64, 128), "lr": 0.01 * 2.0 ** np.arange(-3, 4), "wd": (0.01, 0.1, 1)}
    table = simulate(loss, noise=0.003, rng=1, **axes)
    surface = Surface(arrays(table, ("lr", "wd")))
    curvature = np.exp(surface.theta[surface.places.curvature])
    assert curvature[1] < curvature[0] / 10
    assert surface.theta[surface.places.optimum[:, 0]] == pytest.approx(math.log2(0.01), abs=0.3)


def test_noise_of_cells_of_a_known_truth():
    """300 cells of four runs: noise 1 % that grows by .1 a doubling, misfit 20 % of the excess.

    Runs of a cell scatter by both, and what a cell's mean is off by is not less for its runs.
    """
    rng = np.random.default_rng(4)
    cell = np.repeat(np.arange(300), 4)
    logs, excess = -np.repeat(rng.uniform(0, 4, 300), 4), np.repeat(rng.uniform(0, 0.2, 300), 4)
    noise, misfit = 0.01 * np.exp(0.1 * logs), 0.2 * excess
    scatter = (np.hypot(noise, misfit) * rng.normal(size=len(cell))).reshape(300, 4)
    scatter -= scatter.mean(axis=1, keepdims=True)
    mean = np.hypot(noise / 2, misfit) * np.repeat(rng.normal(size=300), 4)
    residual = mean + scatter.ravel()
    cells = CellMeans.of(
        cell, residual, size_logs=logs, excess=excess, leverage=np.zeros(len(cell))
    )
    now = SurfaceNoise(sigma=0.02)
    for _ in range(3):
        now = estimate(cells, now, n_sizes=5)
    assert now.sigma == pytest.approx(0.01, rel=0.1)
    assert now.growth == pytest.approx(0.1, abs=0.05)
    assert now.share == pytest.approx(0.2, rel=0.2)


def test_sd_of_seed_effects_that_are_known_well():
    effects = 0.01 * np.random.default_rng(2).normal(size=40)
    prior, raw = 1.0, 1e-4**2
    variance = 1 / (1 / raw + 1 / prior**2)
    sd = seed_sd(effects, np.full(40, variance), sigma=0.01, now=prior, shares=(1.5, 3.0))
    assert sd == pytest.approx(effects.std(), rel=0.15)
    assert seed_sd(np.zeros(0), np.zeros(0), sigma=0.01, now=prior, shares=(1.5, 3.0)) == 0


def test_a_pruned_run_gains_what_the_median_finished_run_did():
    finals = (2.0, 2.2, 2.4, 2.6)
    rows = [{"width": 8, "lr": 0.01 * 2**i, "seed": 0, "loss": y} for i, y in enumerate(finals)]
    rows.append({"width": 8, "lr": 1.0, "seed": 0, "loss": None, "status": "pruned"})
    points = [
        {"run": i, "step": step, "loss": y * (1.5 + 0.01 * i if step == 50 else 1)}
        for i, y in enumerate(finals)
        for step in (50, 100)
    ]
    points.append({"run": 4, "step": 50, "loss": 4.5})
    table = pd.DataFrame(rows).assign(status=lambda t: t.get("status").fillna("complete"))
    runs = extrap.Runs.from_frame(
        table, sizes=["width"], tuned=["lr"], curves=pd.DataFrame(points)
    )
    completed = complete_pruned(runs)
    gains = -np.log([1.5, 1.51, 1.52, 1.53])
    assert completed.loc[4, "loss"] == pytest.approx(4.5 * math.exp(np.median(gains)))
    assert completed.loc[4, "status"] == "complete"
    assert completed.loc[4, "completion_sd"] == 0.01  # the least
    assert len(arrays_of(runs).size) == 5
