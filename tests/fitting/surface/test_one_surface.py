"""The mode of a surface: slopes by differences, known truths, and what diverged."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, simulate, true_loss, true_lr
from extrap.fitting.surface.answers import answer
from extrap.fitting.surface.draws import draw, draw_parameters
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.surface_noise import (
    VARIANCE_SHARES,
    CellMeans,
    SurfaceNoise,
    estimate,
    of_seeds,
)
from extrap.fitting.surface.sweep_arrays import arrays_of, complete_pruned
from tests.checking.byhand import size_draws

STEP = 1e-6


def arrays(table, tune=("lr",)):
    return arrays_of(extrap.read_runs(table, size="width", tune=list(tune)))


def hot_table():
    return make_table(noise=0.01, seed=3, cliff=1.6)


@pytest.fixture(scope="module")
def surface():
    return Surface(arrays(hot_table()))


def test_draws_are_the_same_whatever_the_signs_and_the_order_of_axes(monkeypatch):
    """Processors differ in both, and sealed files are compared between them."""
    surfaces, weights = fit_surfaces(arrays(make_table(noise=0.01, seed=3)))

    def drawn():
        return draw_parameters(surfaces, weights, rng=np.random.default_rng(0), n=200).theta

    usual, eigh = drawn(), np.linalg.eigh
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 1000)

    def another(matrix):
        values, axes = eigh(matrix)
        return values[::-1], (axes * signs[: len(values)])[:, ::-1]

    monkeypatch.setattr("extrap.fitting.surface.draws.np.linalg.eigh", another)
    assert drawn() == pytest.approx(usual, rel=1e-5, abs=1e-6)


def test_arrays_are_the_runs(surface):
    table = hot_table()
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
        state = surface._state_at(point)
        near = state.residual[state.is_plain]
        return np.concatenate([-near, [state.odds[0]]])

    state = surface._state_at(theta)
    of_odds = np.zeros(len(theta))
    of_odds[surface.places.divergence] = state.odds[1] @ state.odds[3]
    slopes = np.vstack([state.slopes[state.is_plain], of_odds])
    for i in range(len(theta)):
        by = np.zeros(len(theta))
        by[i] = STEP
        expected = (values(theta + by) - values(theta - by)) / (2 * STEP)
        assert slopes[:, i] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_odds_of_many_points_are_those_of_each(surface):
    rng = np.random.default_rng(1)
    thetas = surface.theta + 0.02 * rng.normal(size=(5, len(surface.theta)))
    each = [surface.divergences.at(theta, surface.places)[0] for theta in thetas]
    every = np.ones(len(surface.divergences.share), dtype=bool)
    found = surface.divergences.log_likelihoods(thetas, surface.places, every)
    assert found == pytest.approx(each)


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
    surfaces, weights = fit_surfaces(arrays(make_table(noise=0.005, seed=5, cliff=1.2)))
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
    targets = np.log2([[192.0], [768.0]])
    (own, beyond), _ = draw(surfaces, weights, targets, rng=np.random.default_rng(0))
    rates = np.log2(np.sort(table["lr"].unique()))[:, None]
    assert own.chances(rates).mean(axis=0).min() > 0.8
    for drawn in (own, beyond):
        said = answer(drawn)
        assert said.values[0] < rates.min()
        assert said.refusal


def test_a_sweep_without_a_loss_is_refused():
    with pytest.raises(extrap.DataError, match="120"):
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


def test_information_is_the_curvature_of_the_density():
    """Of the losses, by second differences."""
    table = make_table(noise=0.01, seed=2, seeds=6)
    table["loss"] *= np.exp(0.01 * np.random.default_rng(5).standard_t(4, len(table)))
    surface = Surface(arrays(table))
    ratios = []
    for place in surface.places.loss:
        by = np.zeros(len(surface.theta))
        by[place] = 1e-4
        points = [surface.theta + sign * by for sign in (-1, 0, 1)]
        costs = [surface._cost(surface._state_at(p), p, surface._variance) for p in points]
        curvature = (costs[0] - 2 * costs[1] + costs[2]) / 1e-8 / 2
        ratios.append(surface.information[place, place] / curvature)
    assert np.mean(ratios) == pytest.approx(1, abs=0.07)


def test_draws_move_to_the_mode_of_other_spreads():
    """Optima that scatter: where the spreads of the law let them, and where they do not."""
    table = make_table(noise=0.01, seed=2)
    table.loc[table["width"] == 64, "lr"] *= 1.3
    surface = Surface(arrays(table))
    grid = surface.processes[0].grid
    for scatter in (0.03, 0.5):
        number = next(i for i, g in enumerate(grid) if (g.scatter, g.walk) == (scatter, 0))
        other = Surface(surface.sweep, like=surface)
        other._spreads = [grid[number]]
        other._set_priors()
        other._climb(25)
        surface.weights = [np.eye(len(grid))[number]]
        (drawn,), _ = draw([surface], np.ones(1), np.log2([[64.0]]), rng=np.random.default_rng(0))
        mode = other.theta[other.places.optimum[2, 0]]
        assert drawn.optimum.mean() == pytest.approx(mode, abs=0.35 * drawn.optimum.std())


def test_cost_of_mistuning_is_over_what_can_be_reached():
    """Where runs diverge just above the optimum, the best safe value is not mistuned."""
    said = answer(size_draws(np.zeros((600, 1)), curvature=0.03, steepness=5.0, cliff=0.2))
    assert said.values[0] < -0.3
    assert said.cost > 0.002
    assert said.mistuned < 1e-4


def test_the_best_runs_of_a_size_are_never_taken_to_be_far_off():
    """However low the loss at the optimum is thought to be."""
    surface = Surface(arrays(make_table(noise=0.01, seed=2)))
    theta = surface.theta.copy()
    theta[surface.places.loss] -= 1.0
    assert np.bincount(surface._size[surface._state_at(theta).is_plain]).min() >= 3
    assert surface._state_at(theta).residual[surface._state_at(theta).is_plain].min() > 0.5


def test_a_threshold_does_not_hide_what_another_column_costs():
    optimum = np.random.default_rng(0).normal(size=(2000, 2)) * [0.2, 2.0]
    plain, far = (
        answer(size_draws(optimum, curvature=0.03, steepness=5.0, cliff=cliff)).mistuned
        for cliff in (math.inf, 10.0)
    )
    assert plain == pytest.approx(0.06, rel=0.1)
    assert far == pytest.approx(plain, rel=0.05)


def test_two_columns_of_which_one_does_nothing():
    """The flat one ends with a small curvature; the other is found."""

    def loss(width, lr, wd):
        return 2 + 0.02 * np.log2(lr / 0.01) ** 2 + 8 / width

    axes = {"width": (16, 32, 64, 128), "lr": 0.01 * 2.0 ** np.arange(-3, 4), "wd": (0.01, 0.1, 1)}
    table = simulate(loss, noise=0.003, rng=1, **axes)
    surface = Surface(arrays(table, ("lr", "wd")))
    curvature = np.exp(surface.theta[surface.places.curvature])
    assert curvature[1] < curvature[0] / 10
    assert surface.theta[surface.places.optimum[:, 0]] == pytest.approx(math.log2(0.01), abs=0.3)


def cells_of(rng):
    """Numbers, sizes and excesses of 300 cells."""
    return np.arange(300), -rng.uniform(0, 4, 300), rng.uniform(0, 0.2, 300)


def test_noise_of_cells_of_a_known_truth():
    """300 cells of four runs: noise 1 % that grows by .1 a doubling, misfit 20 % of the excess.

    Runs of a cell scatter by both, and what a cell's mean is off by is not less for its runs.
    """
    found = []
    for seed in range(4, 9):
        rng = np.random.default_rng(seed)
        cell, logs, excess = (np.repeat(part, 4) for part in cells_of(rng))
        noise, misfit = 0.01 * np.exp(0.1 * logs), 0.2 * excess
        scatter = (np.hypot(noise, misfit) * rng.normal(size=len(cell))).reshape(300, 4)
        scatter -= scatter.mean(axis=1, keepdims=True)
        mean = np.hypot(noise / 2, misfit) * np.repeat(rng.normal(size=300), 4)
        cells = CellMeans.of(
            cell,
            mean + scatter.ravel(),
            size_logs=logs,
            excess=excess,
            leverage=np.zeros(len(cell)),
        )
        now = SurfaceNoise(sigma=0.02)
        for _ in range(3):
            now = estimate(cells, now, n_sizes=5).mean()
        found.append((math.log(now.sigma), now.growth, math.log(now.share)))
    sigma, growth, share = np.mean(found, axis=0)
    assert math.exp(sigma) == pytest.approx(0.01, rel=0.1)  # that of one is known to a tenth
    assert growth == pytest.approx(0.1, abs=0.03)
    assert math.exp(share) == pytest.approx(0.2, rel=0.05)


def test_draws_of_noise_are_its_posterior():
    """Of the sigma that 200 cells of two runs leave: sd of ln sigma is 1 / sqrt(2 · 200)."""
    rng = np.random.default_rng(4)
    cell = np.repeat(np.arange(200), 2)
    residual = 0.01 * rng.normal(size=400)
    zeros = np.zeros(400)
    cells = CellMeans.of(cell, residual, size_logs=zeros, excess=zeros, leverage=zeros + 0.5)
    found = estimate(cells, SurfaceNoise(sigma=0.02), n_sizes=1)
    drawn = [found.draw(50, rng) for _ in range(40)]
    sigmas = np.log(np.concatenate([noise.sigma * scale for noise, scale in drawn]))
    assert sigmas.mean() == pytest.approx(math.log(found.mean().sigma), abs=0.01)
    assert sigmas.std() == pytest.approx(1 / math.sqrt(400), rel=0.3)
    shares = np.log([noise.share for noise, _ in drawn])
    assert shares.std() > 0.4  # nothing is said of misfit: its prior


def test_shares_of_seeds_whose_effects_are_known_well():
    effects = 0.01 * np.random.default_rng(2).normal(size=40)
    prior, raw = 1.0, 1e-4**2
    variance = 1 / (1 / raw + 1 / prior**2)
    given = {"sigma": 0.01, "now": prior, "shares": (1.5, 3.0)}
    weights = of_seeds(effects, np.full(40, variance), **given)
    logs = 0.5 * np.log(VARIANCE_SHARES / (1 - VARIANCE_SHARES))
    assert 0.01 * math.exp(weights @ logs) == pytest.approx(effects.std(), rel=0.15)
    assert len(of_seeds(np.zeros(0), np.zeros(0), **given)) == 0


def test_a_lone_seed_has_the_share_of_the_prior():
    """Its effect cannot be told from the losses, which are so much less known."""
    one = Surface(arrays(make_table(noise=0.004, seed=7, seeds=1)))
    mean = 1.5 / (1.5 + 3)
    common = one.noise.common_sd**2
    assert common / (common + one.noise.sigma**2) == pytest.approx(mean, abs=0.1)
    _, losses = draw([one], np.ones(1), np.log2([[64.0]]), rng=np.random.default_rng(0))
    assert losses.std(axis=0).min() > math.hypot(one.noise.common_sd, one.noise.own_sd)


def test_effects_of_seeds_grow_as_noise_does():
    """The same law of noise at all sizes, half of the variance a seed's: growth is found."""
    rng = np.random.default_rng(3)
    table = make_table(noise=0, seed=3, seeds=8)
    at = np.log2(table["width"] / table["width"].max())
    effects = rng.normal(size=(8, table["width"].nunique() + 1))
    own = table["width"].rank(method="dense").astype(int).to_numpy()
    seed = table["seed"].to_numpy()
    parts = effects[seed, 0] + 0.5 * effects[seed, own] + rng.normal(size=len(table))
    table["loss"] *= np.exp(0.004 * np.exp(-0.4 * at) * parts)
    surface = Surface(arrays(table))
    assert surface.noise.growth == pytest.approx(-0.4, abs=0.12)
    assert surface.noise.sigma == pytest.approx(0.004, rel=0.35)
    of_seeds = surface.theta[surface.places.effects[:8]]  # in units of the largest size
    assert np.polyfit(0.004 * effects[:, 0], of_seeds, 1)[0] == pytest.approx(1, abs=0.4)


def test_a_threshold_that_falls_faster_than_the_optimum_is_seen():
    """From 2.5 octaves above it at the smallest size it comes nearer by .5 a doubling."""
    widths, rates = (16, 32, 64, 128, 256), 0.01 * 2.0 ** np.arange(-4, 3, 0.5)
    table = make_table(widths=widths, rates=rates, seeds=1, noise=0.005)
    off = np.log2(table["lr"] / true_lr(table["width"])) - 2.5 + 0.5 * np.log2(table["width"] / 16)
    table.loc[off > 0, "loss"] = math.inf
    surfaces, weights = fit_surfaces(arrays(table))
    (found,), _ = draw(surfaces, weights, np.log2([[1024.0]]), rng=np.random.default_rng(0))
    threshold = np.median(found.threshold / found.steepness[:, 0])
    assert threshold == pytest.approx(-0.5, abs=0.5)
    assert found.chances(np.log2([[true_lr(1024) * 1.5]])).mean() > 0.7


def pruned_runs(gains):
    """Four finished runs and a pruned one, at step 50 at log loss 4.5; gains of the finished."""
    finals = (2.0, 2.2, 2.4, 2.6)
    rows = [{"width": 8, "lr": 0.01 * 2**i, "seed": 0, "loss": y} for i, y in enumerate(finals)]
    rows.append({"width": 8, "lr": 1.0, "seed": 0, "loss": None, "status": "pruned"})
    points = [
        {"run": i, "step": step, "loss": y * (math.exp(-gain) if step == 50 else 1)}
        for i, (y, gain) in enumerate(zip(finals, gains, strict=True))
        for step in (50, 100)
    ]
    points.append({"run": 4, "step": 50, "loss": 4.5})
    table = pd.DataFrame(rows).assign(status=lambda t: t.get("status").fillna("complete"))
    return extrap.Runs.from_frame(
        table, sizes=["width"], tuned=["lr"], curves=pd.DataFrame(points)
    )


def test_a_pruned_run_gains_what_finished_runs_did():
    runs = pruned_runs([-0.4] * 4)
    completed = complete_pruned(runs)
    assert completed.loc[4, "loss"] == pytest.approx(4.5 * math.exp(-0.4), rel=1e-6)
    assert completed.loc[4, "status"] == "complete"
    assert completed.loc[4, "completion_sd"] == 0.01  # the least
    found = arrays_of(runs)
    assert len(found.size) == 5
    assert found.n_lacking == 0
    assert found.completed.tolist() == [[0], [0], [0], [0], [1]]


def test_a_run_that_stood_worse_gains_what_the_line_says():
    """Runs gain a tenth of their log loss more the worse they stand; the line is held to by .5."""
    at = np.log([2.0, 2.2, 2.4, 2.6])
    gains = [-0.1 - 0.1 * y for y in at]
    standing = at - gains
    slope = np.polyfit(standing, gains, 1)[0]
    runs = pruned_runs(gains)
    found = complete_pruned(runs).loc[4]
    line = np.median(gains) + slope * (math.log(4.5) - np.median(standing))
    assert math.log(found["loss"] / 4.5) == pytest.approx(line, abs=0.01)
    flat = complete_pruned(pruned_runs([-0.2] * 4)).loc[4]
    assert found["offset_sd"] > 0
    assert flat["offset_sd"] == pytest.approx(found["offset_sd"], rel=0.5)


@pytest.mark.parametrize(("n", "is_missing"), [(5, False), (10, True)])
def test_runs_that_a_sampler_saw_and_the_table_lacks_are_counted(n, is_missing):
    """Of 120 runs, up to 5 % may be missing."""
    table = make_table(seed=2).assign(status="complete")
    table.loc[: n - 1, ["loss", "status"]] = [math.nan, "pruned"]
    assert arrays(table).n_lacking == n
    made = extrap.forecast(table, size="width", tune="lr")
    flags = [flag for flag in made.flags if flag.startswith(f"runs-missing: {n} of 120 runs")]
    assert bool(flags) == is_missing
    assert (made.at(384).confidence.level == "low") == is_missing
