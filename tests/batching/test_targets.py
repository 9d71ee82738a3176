import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

import extrap
from extrap.batching import critical_batch, seed_steps, smooth_curve, steps_to_target, tuned_steps
from extrap.batching.targets import FLOOR, _vertex
from extrap.errors import DataError

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


def test_unsmoothed_crossing_is_interpolated_in_log_step_and_log_loss():
    """Between (10, 4) and (40, 1) the loss of 2 is at 20; a point may be the crossing."""
    runs = runs_of([np.array([5.0, 4.0, 4.0])])
    curve = pd.DataFrame({"run": 0, "step": [5, 10, 40, 80], "loss": [5.0, 4.0, 1.0, 0.5]})
    frame = runs.to_frame()
    made = extrap.Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curve)
    found = steps_to_target(made, targets=[5.0, 4.0, 2.0, 0.5, 0.4], smoothing=0)
    assert found["steps"].tolist()[:4] == pytest.approx([5, 10, 20, 80])
    assert found["status"].tolist() == ["reached"] * 4 + ["censored"]
    assert found["is_first"].tolist() == [True] + [False] * 4
    assert (found["budget"] == 80).all()


def test_smoothed_curve_is_a_local_parabola_made_to_fall():
    """numpy's polynomials in windows of ± .5 in ln step, then scikit-learn's isotonic fit."""
    rng = np.random.default_rng(0)
    y, x = np.log(loss_at(STEPS)) + 0.02 * rng.normal(size=100), np.log(STEPS)
    smooth = []
    for i in range(100):
        near = np.abs(x - x[i]) <= 0.5
        near[max(i - 2, 0) : i + 3] = True
        value = np.polyval(np.polyfit(x[near] - x[i], y[near], 2), 0.0)
        smooth.append(max(value, y[near].min()))
    end = int(np.argmin(smooth)) + 1
    falling = IsotonicRegression(increasing=False).fit_transform(np.arange(end), smooth[:end])
    found = np.log(smooth_curve(STEPS, np.exp(y)))
    assert found[:end] == pytest.approx(falling, rel=1e-6)
    assert found[end:] == pytest.approx(falling[-1], rel=1e-6)
    raw = np.log(smooth_curve(STEPS, np.exp(y), smoothing=0))
    end = int(np.argmin(y)) + 1
    falling = IsotonicRegression(increasing=False).fit_transform(np.arange(end), y[:end])
    assert raw[:end] == pytest.approx(falling)


@pytest.mark.parametrize(("noise", "smoothing"), [(0.01, 0.5), (0.02, 0.5), (0.01, 0.0)])
def test_noise_does_not_bias_the_crossing(noise, smoothing):
    """A running minimum of the raw curve crosses 4 to 12 % early at these noises."""
    rng = np.random.default_rng(0)
    ours, running = [], []
    for _ in range(200):
        curve = loss_at(STEPS) * np.exp(noise * rng.normal(size=len(STEPS)))
        for found, falls in (
            (ours, smooth_curve(STEPS, curve, smoothing=smoothing)),
            (running, np.minimum.accumulate(curve)),
        ):
            found.append(np.interp(-2.1, -falls, np.log(STEPS)) - np.log(step_at(2.1)))
    assert np.mean(ours) == pytest.approx(0, abs=0.012)
    assert np.std(ours) < 4 * noise
    assert np.mean(running) < -0.03


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


def test_runs_without_curves_or_batches_are_errors():
    runs = runs_of([loss_at(STEPS)])
    bare = extrap.Runs.from_frame(runs.to_frame(), sizes=["width"], tuned=["lr"])
    for each, options, error, words in (
        (runs, {"targets": 2.0, "batch": "bs"}, DataError, "no column 'bs'"),
        (runs, {"targets": []}, ValueError, "must be positive"),
        (runs, {"targets": 0.0}, ValueError, r"got \[0\.0\]"),
        (runs, {"targets": 2.0, "smoothing": -1}, ValueError, "got -1"),
        (bare, {"targets": 2.0}, DataError, "have none"),
    ):
        with pytest.raises(error, match=words):
            steps_to_target(each, **options)


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
    found = tuned_steps(swept(), by=["width"])
    inside = found[~found["at_edge"]]
    batch = inside["batch_size"]
    assert len(inside) >= 6
    best, steps = 0.01 * (batch / 64) ** 0.5, 500 * (1 + 1000 / batch)
    assert inside["lr_opt"].tolist() == pytest.approx(best.tolist(), rel=1e-6)
    assert inside["steps"].tolist() == pytest.approx(steps.tolist(), rel=1e-6)
    assert inside["lr_se"].min() >= 0.25 * np.log(2) * 0.99
    assert (found["n_reached"] + found["n_infeasible"] == 21).all()
    data = swept(noise=0.03)
    whole, seeds = tuned_steps(data, by=["width"]), seed_steps(data, by=["width"])
    means = np.log(seeds["steps"]).groupby(seeds["batch_size"]).agg(["mean", "sem"])
    assert np.log(whole["steps"]).tolist() == pytest.approx(means["mean"].tolist())
    assert whole["log_steps_se"].tolist() == pytest.approx(means["sem"].tolist())
    for change, words in (
        (swept().drop(columns="lr"), "need the column"),
        (pd.concat([swept(), swept()]), "some have more"),
    ):
        with pytest.raises(DataError, match=words):
            tuned_steps(change)
    assert len(tuned_steps(pd.concat([swept(), swept().assign(target=1.0)]))) == 14


def test_optimum_is_the_vertex_of_a_parabola_through_three_means():
    """numpy's parabola of the mean; its error from moving each seed's steps a little."""
    x, rng = np.log([0.01, 0.02, 0.04]), np.random.default_rng(0)
    y = np.array([0.3, 0.0, 0.2])[:, None] + 0.05 * rng.normal(size=(3, 4)) + 7
    rows = [(8, r, s, y[i, s]) for i, r in enumerate(np.exp(x)) for s in range(4)]
    data = pd.DataFrame(rows, columns=["batch_size", "lr", "seed", "log_steps"])
    data = data.assign(steps=np.exp(data["log_steps"]), budget=1e9, status="reached")

    def vertex(means):
        c, b, a = np.polyfit(x, means, 2)
        return -b / (2 * c), a - b * b / (4 * c)

    found = tuned_steps(data).iloc[0]
    place, value = vertex(y.mean(axis=1))
    assert (np.log(found["lr_opt"]), np.log(found["steps"])) == pytest.approx((place, value))
    step = 1e-6 * np.eye(3)
    gradient = np.array([vertex(y.mean(axis=1) + d)[0] - place for d in step]) / 1e-6
    se = np.std(gradient @ y, ddof=1) / 2
    assert found["lr_se"] == pytest.approx(np.hypot(0.25 * np.log(2), se), rel=1e-4)
    assert se > 0.01
    means = np.log(seed_steps(data)["steps"])
    assert found["log_steps_se"] == pytest.approx(means.sem())


def changed(data, where, status, **cells):
    found = data.copy()
    found.loc[where, ["steps", "status", *cells]] = [np.nan, status, *cells.values()]
    return found


def test_an_optimum_at_the_edge_is_said():
    data = swept()
    found = tuned_steps(data[data["lr"] >= 0.01])
    assert found["at_edge"].tolist()[4:] == [False] * 3
    assert "smaller" in found["warning"][0]
    assert found["lr_opt"][0] == pytest.approx(0.01)
    assert found["lr_se"][0] == pytest.approx(np.log(2) / 2)
    assert found["warning"][5] == ""
    assert "larger" in tuned_steps(data[data["lr"] <= 0.005])["warning"][3]
    assert (tuned_steps(data[data["lr"] == 0.01])["lr_se"] == 0).all()
    first = data.assign(is_first=lambda rows: rows["batch_size"] == 64)
    warnings = tuned_steps(first).set_index("batch_size")["warning"]
    assert ("evaluate earlier" in warnings[64], warnings[128]) == (True, "")


def test_a_rate_with_a_lost_seed_is_counted_and_never_a_number():
    data = swept(noise=0.01)
    batch = data["batch_size"] == 64
    hit = batch & (data["lr"] == 0.01) & (data["seed"] == 1)
    found = tuned_steps(changed(data, hit, "infeasible")).set_index("batch_size").loc[64]
    assert found["n_infeasible"] == 1 + (data[batch & ~hit]["status"] == "infeasible").sum()
    assert found["lr_opt"] in (pytest.approx(0.005), pytest.approx(0.02))
    assert found["steps"] > 1.05 * 500 * (1 + 1000 / 64)
    every = batch & (data["status"] == "reached") & (data["seed"] == 1)
    lost = changed(data, every, "infeasible")
    found = tuned_steps(lost).set_index("batch_size").loc[64]
    assert (found["status"], np.isnan(found["steps"])) == ("infeasible", True)
    assert not found["is_censored"]
    assert seed_steps(lost).query("batch_size == 64")["steps"].isna().all()


def test_no_rate_within_the_budget_is_a_lower_bound():
    data = swept(budget=10_000.0)
    found = tuned_steps(data).set_index("batch_size")
    assert list(found.index[found["is_censored"]]) == [16, 32]
    assert (found.loc[16, "steps"], found.loc[16, "status"]) == (10_000, "censored")
    by_seed = seed_steps(data)
    assert by_seed[by_seed["batch_size"] == 16]["steps"].isna().all()
    for table in (tuned_steps(data), by_seed):
        point = critical_batch(table).groups[0].points[0]
        assert (point.bounds, point.values) == ((10_000,), ())
    data.loc[data["lr"] < 0.01, "budget"] = 8_000.0  # the least budget of a rate counts
    assert tuned_steps(data).set_index("batch_size").loc[16, "steps"] == 8_000


def test_seeds_that_reached_the_target_are_kept_where_others_did_not():
    data = swept()
    batch = data["batch_size"] == 64
    late = batch & (data["seed"] == 1) & (data["status"] == "reached")
    data = changed(data, late, "censored", budget=9e3)
    by_seed = seed_steps(data)
    here = by_seed[by_seed["batch_size"] == 64].set_index("seed")
    true_steps = 500 * (1 + 1000 / 64)
    assert here.loc[[0, 2], "steps"].tolist() == pytest.approx([true_steps] * 2)
    assert (here.loc[1, "status"], here.loc[1, "budget"]) == ("censored", pytest.approx(9e3))
    found = tuned_steps(data).set_index("batch_size").loc[64]
    assert found["is_censored"]
    assert np.isnan(found["log_steps_se"])
    assert found["steps"] == pytest.approx((true_steps**2 * 9e3) ** (1 / 3))
    assert critical_batch(by_seed).groups[0].b_crit.value == pytest.approx(1000, rel=0.15)


def test_error_of_the_best_rate_is_none_where_rounding_would_make_its_square_negative():
    y = np.array([[0.0, 0.4475324114464259], [0.0, 0.18953204845951152], [0.0, 0.471768784047199]])
    _, _, se = _vertex(np.log([0.125, 0.25, 0.5]), y)
    assert se == pytest.approx(FLOOR * np.log(2))
