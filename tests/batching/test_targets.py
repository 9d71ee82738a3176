from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.batching import (
    critical_batch,
    seed_steps,
    smooth_curve,
    steps_to_target,
    tuned_steps,
)
from extrap.batching.targets import FLOOR, _vertex
from extrap.errors import DataError

STEPS = np.arange(10, 1001, 10, dtype=float)


def loss_at(step: np.ndarray) -> np.ndarray:
    return 1.5 + 3.0 * (step / 20) ** -0.5


def step_at(loss: float) -> float:
    return 20 * ((loss - 1.5) / 3) ** -2


def runs_of(curves: list[np.ndarray], *, status: list[str] | None = None) -> extrap.Runs:
    n = len(curves)
    long = pd.concat(
        [
            pd.DataFrame({"run": i, "step": STEPS[: len(curve)], "loss": curve})
            for i, curve in enumerate(curves)
        ]
    )
    frame = pd.DataFrame(
        {
            "width": 16.0,
            "lr": 0.1,
            "batch_size": 2.0 ** np.arange(n),
            "seed": range(n),
            "loss": 1.0,
            "status": status or ["complete"] * n,
        }
    )
    return extrap.Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=long)


def test_crossing_is_that_of_the_curve():
    found = steps_to_target(runs_of([loss_at(STEPS)]), targets=[2.4, 2.1])
    assert list(found["status"]) == ["reached", "reached"]
    assert found["steps"].tolist() == pytest.approx([step_at(2.4), step_at(2.1)], rel=0.01)
    assert list(found.columns) == [
        "width",
        "lr",
        "batch_size",
        "seed",
        "target",
        "steps",
        "budget",
        "status",
        "is_first",
    ]


def test_unsmoothed_crossing_is_interpolated_in_log_step():
    found = steps_to_target(runs_of([loss_at(STEPS)]), targets=2.4, smoothing=0)
    assert found["steps"][0] == pytest.approx(step_at(2.4), rel=1e-3)


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.02])
def test_noise_does_not_bias_the_crossing(noise):
    """A running minimum of the raw curve crosses 4 to 12 % early at these noises."""
    rng = np.random.default_rng(0)
    off = []
    for _ in range(300):
        curve = smooth_curve(STEPS, loss_at(STEPS) * np.exp(noise * rng.normal(size=len(STEPS))))
        log_step = np.interp(-2.1, -curve, np.log(STEPS))
        off.append(log_step - np.log(step_at(2.1)))
    assert abs(np.mean(off)) < 0.012
    assert np.std(off) < 2.5 * noise


@pytest.mark.parametrize("n", [15, 30])
@pytest.mark.parametrize("spaced", [np.linspace, np.geomspace])
def test_few_points_do_not_bias_the_crossing(n, spaced):
    step = spaced(10.0, 2000.0, n)
    smoothed = smooth_curve(step, loss_at(step))
    found = np.interp(-2.0, -smoothed, np.log(step))
    assert found == pytest.approx(np.log(step_at(2.0)), abs=0.012)


def test_curve_made_to_fall_does_not_prefer_the_first_lucky_point():
    rng = np.random.default_rng(0)
    off = []
    for _ in range(200):
        curve = loss_at(STEPS) * np.exp(0.01 * rng.normal(size=len(STEPS)))
        falls = smooth_curve(STEPS, curve, smoothing=0)
        off.append([falls, np.minimum.accumulate(curve)])
    crossings = [[np.interp(-2.2, -c, np.log(STEPS)) for c in pair] for pair in off]
    ours, running_minimum = np.mean(crossings, axis=0) - np.log(step_at(2.2))
    assert abs(ours) < 0.01
    assert running_minimum < -0.03


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_curves_of_hardly_any_points_are_taken_as_they_are(n):
    step = np.array([10.0, 20.0, 20.0])[:n]
    assert len(smooth_curve(step, np.array([3.0, 2.0, 1.5])[:n])) == n


def test_smoothed_curve_falls_and_ignores_what_comes_after_its_minimum():
    curve = loss_at(STEPS)
    curve[70:] += 0.03 * np.arange(30)
    smoothed = smooth_curve(STEPS, curve)
    assert (np.diff(smoothed) <= 1e-12).all()
    found = steps_to_target(runs_of([curve]), targets=2.2)
    assert found["steps"][0] == pytest.approx(step_at(2.2), rel=0.01)


def test_a_target_beyond_the_budget_is_censored():
    found = steps_to_target(runs_of([loss_at(STEPS[:50])]), targets=[2.4, 1.9])
    assert list(found["status"]) == ["reached", "censored"]
    assert list(found["budget"]) == [500, 500]
    assert np.isnan(found["steps"][1])


def test_a_diverged_run_is_infeasible_unless_it_was_there_before():
    curve = loss_at(STEPS)
    curve[70:] = np.nan
    found = steps_to_target(
        runs_of([curve, curve], status=["diverged", "complete"]), targets=[2.1, 1.95]
    )
    assert list(found["status"]) == ["reached", "infeasible"] * 2


def test_a_blow_up_is_no_target_reached():
    curve = loss_at(STEPS)
    curve[50:] = curve[50:] * np.exp(np.linspace(0, 8, 50) ** 2)
    assert (steps_to_target(runs_of([curve]), targets=[1.9, 1.0])["status"] == "censored").all()


def test_a_run_without_a_curve_is_judged_by_its_status():
    found = steps_to_target(
        runs_of([loss_at(STEPS), np.empty(0)], status=["complete", "failed"]), targets=2.4
    )
    assert list(found["status"]) == ["reached", "infeasible"]


def test_runs_without_curves_or_batches_are_errors():
    runs = runs_of([loss_at(STEPS)])
    with pytest.raises(DataError, match="no column 'bs'"):
        steps_to_target(runs, targets=2.0, batch="bs")
    with pytest.raises(ValueError, match="targets must be positive"):
        steps_to_target(runs, targets=[])
    with pytest.raises(ValueError, match="smoothing must be at least 0"):
        steps_to_target(runs, targets=2.0, smoothing=-1)
    bare = extrap.Runs.from_frame(runs.to_frame(), sizes=["width"], tuned=["lr"])
    with pytest.raises(DataError, match="have none"):
        steps_to_target(bare, targets=2.0)


RATES = 0.01 * 2.0 ** np.arange(-3, 4)


def swept(*, noise: float = 0.0, seeds: int = 3, budget: float = 1e9) -> pd.DataFrame:
    """ln S: hyperbola (1000, 500) plus .1 octaves² about .01 √(B / 64); 2.2 octaves diverge."""
    rng = np.random.default_rng(0)
    rows = []
    for batch in 2.0 ** np.arange(4, 11):
        for lr in RATES:
            for seed in range(seeds):
                u = np.log2(lr / (0.01 * (batch / 64) ** 0.5))
                steps = 500 * (1 + 1000 / batch) * np.exp(0.1 * u**2 + noise * rng.normal())
                lost = u > 2.2
                late = not lost and steps > budget
                rows.append(
                    {
                        "width": 16,
                        "target": 2.0,
                        "batch_size": batch,
                        "lr": lr,
                        "seed": seed,
                        "steps": np.nan if lost or late else steps,
                        "budget": budget,
                        "status": "infeasible" if lost else "censored" if late else "reached",
                    }
                )
    return pd.DataFrame(rows)


def test_rate_is_tuned_anew_at_every_batch():
    found = tuned_steps(swept(), by=["width"])
    batch = found["batch_size"]
    inside = ~found["at_edge"]
    assert inside.sum() >= 6
    best = 0.01 * (batch / 64) ** 0.5
    assert found["lr_opt"][inside].tolist() == pytest.approx(best[inside].tolist(), rel=1e-6)
    steps = 500 * (1 + 1000 / batch)
    assert found["steps"][inside].tolist() == pytest.approx(steps[inside].tolist(), rel=1e-6)
    assert found["lr_se"][inside].min() >= 0.25 * np.log(2) * 0.99
    assert (found["n_runs"] == 21).all()
    assert (found["n_reached"] + found["n_infeasible"] == 21).all()


def test_seed_rows_average_to_the_tuned_steps():
    data = swept(noise=0.03)
    whole, seeds = tuned_steps(data, by=["width"]), seed_steps(data, by=["width"])
    means = np.log(seeds["steps"]).groupby(seeds["batch_size"]).agg(["mean", "sem"])
    assert np.log(whole["steps"]).tolist() == pytest.approx(means["mean"].tolist())
    assert whole["log_steps_se"].tolist() == pytest.approx(means["sem"].tolist())
    group = critical_batch(seeds, by="width").groups[0]
    assert 1000 in group.b_crit.ci
    assert len(group.points[0].values) == 3


def test_an_optimum_at_the_edge_is_said():
    data = swept()
    found = tuned_steps(data[data["lr"] >= 0.01])
    first = found.iloc[0]
    assert first["at_edge"]
    assert "at the edge of its grid: try smaller" in first["warning"]
    assert first["lr_opt"] == pytest.approx(0.01)
    assert found.iloc[-2]["warning"] == ""


def test_a_rate_with_a_lost_seed_is_counted_and_never_a_number():
    data = swept(noise=0.01)
    batch = data["batch_size"] == 64
    hit = batch & (data["lr"] == 0.01) & (data["seed"] == 1)
    data.loc[hit, ["steps", "status"]] = [np.nan, "infeasible"]
    found = tuned_steps(data).set_index("batch_size").loc[64]
    assert found["n_infeasible"] == 1 + (data[batch & ~hit]["status"] == "infeasible").sum()
    assert found["lr_opt"] in (pytest.approx(0.005), pytest.approx(0.02))
    assert found["steps"] > 1.05 * 500 * (1 + 1000 / 64)


def test_no_rate_within_the_budget_is_a_lower_bound():
    data = swept(budget=10_000.0)
    found = tuned_steps(data).set_index("batch_size")
    assert list(found.index[found["is_censored"]]) == [16, 32]
    assert found.loc[16, "steps"] == 10_000
    assert found.loc[16, "status"] == "censored"
    group = critical_batch(tuned_steps(data)).groups[0]
    assert group.points[0].bounds == (10_000,)
    assert group.points[0].values == ()
    by_seed = seed_steps(data)
    assert by_seed[by_seed["batch_size"] == 16]["steps"].isna().all()
    assert critical_batch(by_seed).groups[0].points[0].bounds == (10_000,)


def test_seeds_that_reached_the_target_are_kept_where_others_did_not():
    data = swept()
    batch = data["batch_size"] == 64
    late = batch & (data["seed"] == 1) & (data["status"] == "reached")
    data.loc[late, ["steps", "status", "budget"]] = [np.nan, "censored", 9e3]
    by_seed = seed_steps(data)
    here = by_seed[by_seed["batch_size"] == 64].set_index("seed")
    true_steps = 500 * (1 + 1000 / 64)
    assert here.loc[[0, 2], "steps"].tolist() == pytest.approx([true_steps] * 2)
    assert (here.loc[1, "status"], here.loc[1, "budget"]) == ("censored", pytest.approx(9e3))
    found = tuned_steps(data).set_index("batch_size").loc[64]
    assert found["is_censored"]
    assert np.isnan(found["log_steps_se"])
    assert true_steps < found["steps"] < 9e3
    group = critical_batch(by_seed).groups[0]
    assert group.b_crit.value == pytest.approx(1000, rel=0.15)


def test_a_rate_that_loses_a_seed_is_no_rate_to_train_at():
    data = swept()
    batch = (data["batch_size"] == 64) & (data["status"] == "reached")
    data.loc[batch & (data["seed"] == 1), ["steps", "status"]] = [np.nan, "infeasible"]
    found = tuned_steps(data).set_index("batch_size").loc[64]
    assert found["status"] == "infeasible"
    assert np.isnan(found["steps"])
    assert seed_steps(data).query("batch_size == 64")["steps"].isna().all()


def test_a_target_met_by_the_first_point_is_a_bound():
    found = steps_to_target(runs_of([np.linspace(1.5, 1.0, 10)]), targets=[1.6, 1.2])
    assert found["is_first"].tolist() == [True, False]
    data = swept().assign(is_first=lambda rows: rows["batch_size"] == 64)
    warnings = tuned_steps(data).set_index("batch_size")["warning"]
    assert "evaluate earlier" in warnings[64]
    assert warnings[128] == ""


def test_bound_is_the_least_budget_of_a_rate():
    data = swept(budget=10_000.0)
    data.loc[data["lr"] < 0.01, "budget"] = 8_000.0
    assert tuned_steps(data).set_index("batch_size").loc[16, "steps"] == 8_000


def test_all_rates_diverged_is_infeasible():
    data = swept()
    data.loc[data["batch_size"] == 16, ["steps", "status"]] = [np.nan, "infeasible"]
    found = tuned_steps(data).set_index("batch_size")
    assert found.loc[16, "status"] == "infeasible"
    assert not found.loc[16, "is_censored"]
    assert critical_batch(tuned_steps(data)).groups[0].points[0].n_infeasible == 1


def test_tables_that_cannot_be_tuned_are_errors():
    with pytest.raises(DataError, match="need the column"):
        tuned_steps(swept().drop(columns="lr"))
    with pytest.raises(DataError, match="one row, some have more"):
        tuned_steps(pd.concat([swept(), swept()]))


def test_error_of_the_best_rate_is_none_where_rounding_would_make_its_square_negative() -> None:
    y = np.array([[0.0, 0.4475324114464259], [0.0, 0.18953204845951152], [0.0, 0.471768784047199]])
    _, _, se = _vertex(np.log([0.125, 0.25, 0.5]), y)
    assert se == pytest.approx(FLOOR * np.log(2))
