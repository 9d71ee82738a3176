import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.analyses.batch_size import critical_batch, steps_to_target, tuned_steps

STEPS = np.arange(10, 1001, 10, dtype=float)


def loss_at(step):
    return 1.5 + 3.0 * (step / 20) ** -0.5


def step_at(loss):
    return 20 * ((loss - 1.5) / 3) ** -2


def runs_of(curves, *, status=None):
    n = len(curves)
    points = [
        (i, *point) for i, curve in enumerate(curves) for point in zip(STEPS, curve, strict=False)
    ]
    frame = pd.DataFrame({"width": 16.0, "lr": 0.1, "batch_size": 2.0 ** np.arange(n)})
    frame = frame.assign(seed=range(n), loss=1.0, status=status or ["complete"] * n)
    long = pd.DataFrame(points, columns=["run", "step", "loss"])
    return extrap.Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=long)


def test_crossing_is_interpolated_in_log_step_and_log_loss():
    """Between (10, 4) and (40, 1) the loss of 2 is at 20; a point may be the crossing."""
    for points, targets, expected in (
        ({"step": [10, 40], "loss": [4.0, 1.0]}, [4.0, 2.0, 1.0, 0.9], [10, 20, 40]),
        ({"step": [5, 10, 20, 40], "loss": [8.0, 4.0, 2.0, 1.0]}, [9, 3, 1], [5, 40 / 3, 40]),
    ):
        curve = pd.DataFrame({"run": 0, **points})
        frame = runs_of([np.array([5.0])]).to_frame()
        made = extrap.Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curve)
        found = steps_to_target(made, targets=targets)
        assert found["steps"].dropna().tolist() == pytest.approx(expected)
        assert (found["budget"] == 40).all()
    assert steps_to_target(made, targets=0.9)["status"].tolist() == ["censored"]


def test_crossing_of_a_smooth_curve_with_few_points_is_not_late():
    """Points 18 % apart; straight pieces through them cross .3 % late on average."""
    grid = np.geomspace(10, 1000, 29)
    curves = pd.DataFrame({"run": 0, "step": grid, "loss": loss_at(grid)})
    frame = runs_of([np.array([5.0])]).to_frame()
    made = extrap.Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curves)
    found = steps_to_target(made, targets=np.linspace(2.0, 4.0, 40))
    assert np.log(found["steps"] / step_at(found["target"])).mean() == pytest.approx(0, abs=5e-4)


@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02])
def test_noise_does_not_bias_the_crossing(noise):
    """A running minimum crosses 1 to 12 % early."""
    rng = np.random.default_rng(0)
    curves = [loss_at(STEPS) * np.exp(noise * rng.normal(size=len(STEPS))) for _ in range(200)]
    found = steps_to_target(runs_of(curves), targets=2.1)["steps"]
    off = np.log(found / step_at(2.1))
    assert off.mean() == pytest.approx(0, abs=0.012)
    assert off.std() < 4 * noise
    running = [np.interp(-2.1, -np.minimum.accumulate(c), np.log(STEPS)) for c in curves]
    assert np.mean(running) - np.log(step_at(2.1)) < -0.01


def test_status_follows_from_the_curve_and_the_run():
    """A diverged run may have been there before; a blow-up or an empty curve reaches nothing."""
    curve, risen, lost, wild = (loss_at(STEPS) for _ in range(4))
    risen[70:] += 0.03 * np.arange(30)
    lost[70:] = np.nan
    wild[50:] = wild[50:] * np.exp(np.linspace(0, 8, 50) ** 2)
    runs = runs_of(
        [curve[:50], risen, lost, lost, wild, np.empty(0)],
        status=["complete", "complete", "diverged", "complete", "complete", "failed"],
    )
    found = steps_to_target(runs, targets=[2.2, 1.9]).set_index(["seed", "target"])
    assert found["status"].unstack()[2.2].tolist() == ["reached"] * 5 + ["infeasible"]
    late = ["censored", "censored", "infeasible", "infeasible", "censored", "infeasible"]
    assert found["status"].unstack()[1.9].tolist() == late
    assert found["budget"].unstack()[1.9].tolist()[:5] == [500, 1000, 1000, 1000, 1000]
    assert found["steps"].unstack()[2.2][1] == pytest.approx(step_at(2.2), rel=0.01)
    assert found["steps"].unstack()[1.9].isna().all()


RATES = 0.01 * 2.0 ** np.arange(-3, 4)


def swept(*, noise=0.0, seeds=3, budget=1e9):
    """ln S: hyperbola (1000, 500) plus .1 octaves² about .01 √(B / 64); 2.2 octaves diverge."""
    rng = np.random.default_rng(0)
    grid = [(b, lr, s) for b in 2.0 ** np.arange(4, 11) for lr in RATES for s in range(seeds)]
    data = pd.DataFrame(grid, columns=["batch_size", "lr", "seed"])
    u = np.log2(data["lr"] / (0.01 * (data["batch_size"] / 64) ** 0.5))
    noise = np.exp(0.1 * u**2 + noise * rng.normal(size=len(data)))
    steps = 500 * (1 + 1000 / data["batch_size"]) * noise
    status = np.where(u > 2.2, "infeasible", np.where(steps > budget, "censored", "reached"))
    known = steps.where(status == "reached")
    return data.assign(width=16, target=2.0, steps=known, budget=budget, status=status)


def test_rate_is_tuned_anew_at_every_batch_and_seeds_average_to_its_steps():
    """Between two rates half an octave off, a surface knows a tenth of their excess of .025."""
    found, _ = tuned_steps(swept(), by=["width"])
    batch = found["batch_size"]
    best, steps = 0.01 * (batch / 64) ** 0.5, 500 * (1 + 1000 / batch)
    assert found["lr_opt"].tolist() == pytest.approx(best.tolist(), rel=2e-3)
    assert found["steps"].tolist() == pytest.approx(steps.tolist(), rel=2.5e-3)
    assert found["steps"][::2].tolist() == pytest.approx(steps[::2].tolist(), rel=1e-4)
    whole, seeds = tuned_steps(swept(noise=0.03), by=["width"])
    means = np.log(seeds["steps"]).groupby(seeds["batch_size"]).mean()
    assert np.log(whole["steps"]).tolist() == pytest.approx(means.tolist())
    off = np.log(whole["lr_opt"] / best) / whole["lr_se"]
    assert (whole["lr_se"].between(0.02, 0.4).all(), (off.abs() < 3).all()) == (True, True)
    assert len(tuned_steps(pd.concat([swept(), swept().assign(target=1.0)]))[0]) == 14


def test_tuned_steps_of_the_whole_grid_give_the_critical_batch():
    """Noise of 3 %, three seeds: B_crit is 1,000 and S_min 500 in truth."""
    _, seeds = tuned_steps(swept(noise=0.03), by=["width"])
    group = critical_batch(seeds, by=["width", "target"]).groups[0]
    assert (1000 in group.b_crit.ci, 500 in group.s_min.ci) == (True, True)
    assert group.b_crit.value == pytest.approx(1000, rel=0.15)
    assert [len(point.values) for point in group.points] == [3] * 7


def test_a_run_that_ended_early_bounds_no_steps_of_others():
    data = swept(budget=1e6)
    data = changed(data, (data["lr"] == RATES[0]) & (data["seed"] == 1), "censored", budget=100.0)
    _, seeds = tuned_steps(data, by=["width"])
    assert (seeds["steps"] > 100).all()
    assert critical_batch(seeds, by=["width", "target"]).groups[0].b_crit.value == pytest.approx(
        1000, rel=0.05
    )


def changed(data, where, status, **cells):
    found = data.copy()
    found.loc[where, ["steps", "status", *cells]] = [np.nan, status, *cells.values()]
    return found


def test_an_optimum_at_the_edge_is_an_upper_bound_with_its_side():
    data = swept()
    found, _ = tuned_steps(data[data["lr"] >= 0.01])
    assert found["edge"].tolist()[:2] == ["low", "low"]
    assert (found["at_edge"] == (found["edge"] != "")).all()
    assert found["at_edge"].tolist()[4:] == [False] * 3
    assert np.isnan(found["lr_opt"][0])
    assert found["steps"][0] == pytest.approx(
        np.exp(0.1) * 31_750
    )  # an octave above the best rate
    assert tuned_steps(data[data["lr"] <= 0.005])[0]["edge"][3] == "high"


def test_lost_seeds_are_no_numbers_and_a_batch_needs_a_rate_with_most_of_them():
    """Noise of 1 %, three seeds: steps are known to .01."""
    data = swept(noise=0.01)
    batch, true = data["batch_size"] == 64, 500 * (1 + 1000 / 64)
    hit = batch & (data["lr"] == 0.01) & (data["seed"] == 1)
    one = batch & (data["status"] == "reached") & (data["seed"] == 1)
    for where, seeds_left in ((hit, {0, 1, 2}), (one, {0, 2})):
        found, seeds = tuned_steps(changed(data, where, "infeasible"))
        found = found.set_index("batch_size").loc[64]
        assert found["steps"] == pytest.approx(true, rel=0.02)
        assert set(seeds.query("batch_size == 64")["seed"]) == seeds_left
    two = batch & (data["status"] == "reached") & (data["seed"] > 0)
    for by in ([], ["width"]):
        found, seeds = tuned_steps(changed(data, two, "infeasible"), by=by)
        found = found.set_index("batch_size").loc[64]
        assert (found["status"], np.isnan(found["steps"])) == ("infeasible", True)
        assert seeds.query("batch_size == 64")["steps"].isna().all()


def test_a_best_rate_beyond_those_that_reached_the_target_is_an_upper_bound():
    """Runs are lost from .2 octaves below the best rate on: the best of the others, not less."""
    data = swept(noise=0.01)
    rate = 0.01 * (data["batch_size"] / 64) ** 0.5
    left = changed(data, np.log2(data["lr"] / rate) > -0.2, "infeasible")
    means = np.log(left["steps"]).groupby([left["batch_size"], left["lr"]]).mean()
    found, _ = tuned_steps(left)
    assert np.log(found["steps"]).tolist() == pytest.approx(means.groupby(level=0).min().tolist())
    assert (set(found["edge"]), found["lr_opt"].isna().all()) == ({"high"}, True)


def test_no_rate_within_the_budget_is_a_lower_bound():
    data = swept(budget=10_000.0)
    found = tuned_steps(data)[0].set_index("batch_size")
    assert list(found.index[found["status"] == "censored"]) == [16, 32]
    assert (found.loc[16, "steps"], found.loc[16, "status"]) == (10_000, "censored")
    for table in tuned_steps(data):
        point = critical_batch(table).groups[0].points[0]
        assert (point.bounds, point.values) == ((10_000,), ())
    data.loc[data["lr"] < 0.01, "budget"] = 8_000.0  # the least budget of a rate counts
    assert tuned_steps(data)[0].set_index("batch_size").loc[16, "steps"] == 8_000
    nothing, _ = tuned_steps(swept(budget=10.0))
    assert (nothing["status"] == "censored").sum() > 0
