"""Backtests of sweeps whose truth is known."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import simulate, true_loss
from extrap.errors import DataError
from extrap.fitting.splits import MAX_CUTS, MAX_HELD_OUT
from extrap.forecasting.backtesting import backtest
from extrap.records import Runs
from tests.forecasting.horizons import TOKENS, best_lr, grid, sweep

WIDTHS = (16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)


def read(table, tune="lr"):
    return extrap.read_runs(table, size="width", tune=tune)


@pytest.fixture(scope="module")
def found(sweep_table):
    return backtest(read(sweep_table(widths=WIDTHS)))


def one_run_a_size(n, *, noise=0.003):
    table = simulate(true_loss, noise=noise, rng=1, width=np.geomspace(16, 4096, n))
    return read(table.assign(seed=0), tune=())


def test_each_larger_size_is_predicted_from_four_sizes_on(found):
    pairs = [(h.n_fitted, h.size["width"]) for h in found.holdouts]
    assert pairs == [(4, 64), (4, 96), (4, 128), (5, 96), (5, 128), (6, 128)]
    assert found.holdouts[2].extrapolation_ratio == pytest.approx(128 / 48)
    assert (found.n_sizes, found.n_failed, found.failures) == (7, 0, ())


def test_prediction_is_that_of_a_forecast_that_never_saw_the_size(found, sweep_table):
    table = sweep_table(widths=WIDTHS)
    made = extrap.forecast(read(table[table["width"] <= 64]), level=0.9)
    held = next(h for h in found.holdouts if (h.n_fitted, h.size["width"]) == (5, 128))
    assert held.predicted == pytest.approx(made.at(width=128).loss, rel=1e-9)
    assert held.last_value == made.last_value()
    found_lr = extrap.forecast(read(table)).optima[-1].tuned["lr"].value
    octaves = math.log2(found_lr / made.at(width=128).tuned["lr"].value)
    assert held.tuned_octaves == {"lr": pytest.approx(octaves)}


def test_held_out_size_is_judged_by_the_optimum_of_the_whole_sweep(found, sweep_table):
    optimum = extrap.forecast(read(sweep_table(widths=WIDTHS))).optima[-1]
    for held in found.holdouts:
        if held.size == optimum.size:
            assert held.observed == optimum.loss
            assert held.observed_log_se == optimum.paired_loss_se / optimum.loss
            assert held.deviation == pytest.approx(held.observed / held.predicted - 1)


def test_later_sizes_cannot_change_a_prediction(found, sweep_table):
    table = sweep_table(widths=WIDTHS)
    table.loc[table["width"] == 128, "loss"] *= 1.5
    (again,) = backtest(read(table), min_sizes=6).holdouts
    assert again.predicted == found.holdouts[-1].predicted
    assert again.deviation == pytest.approx(1.5 * (1 + found.holdouts[-1].deviation) - 1)
    assert not any(again.covered.values())
    assert again.p_value < 0.01


def test_single_run_is_held_against_the_interval_of_a_new_run():
    runs = one_run_a_size(8)
    table = runs.to_frame()
    made = extrap.forecast(read(table.iloc[:-1], tune=()), level=0.9)
    (held,) = backtest(runs, min_sizes=7).holdouts
    prediction = made.predict_loss(held.size)
    assert held.predicted_pi == pytest.approx(made.at(**held.size).loss_pi)
    assert held.observed_log_se is None
    off = math.log(held.observed / held.predicted)
    assert held.deviation == pytest.approx(math.expm1(off))
    assert held.p_value == pytest.approx(prediction.p_value(held.observed))
    for level, inside in held.covered.items():
        assert inside == (held.observed in prediction.interval(level, new_run=True))
    assert held.last_deviation == pytest.approx(held.observed / table["loss"].iloc[-2] - 1)


def test_summary_of_all_is_made_of_its_bins(found):
    table = found.summary()
    *bins, total = table.to_dict("records")
    assert list(table["extrapolation_ratio"]) == ["1 to 2", "2 to 4", "all"]
    assert sum(row["n"] for row in bins) == total["n"] == 6
    frame = found.frame()
    for column in ("width", "predicted_pi_lower", "lr_octaves"):
        assert frame[column].notna().all()
    errors = np.log1p(frame["deviation"])
    last = np.log1p(frame["last_deviation"])
    assert total["bias"] == pytest.approx(errors.mean())
    assert total["rms_error"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert total["skill"] == pytest.approx(1 - np.sqrt((errors**2).mean() / (last**2).mean()))
    assert total["skill"] > 0.5
    assert total["coverage_80"] == frame["covered_80"].mean()
    assert bins[0]["n"] == (frame["extrapolation_ratio"] <= 2 + 1e-9).sum()


def test_size_without_an_optimum_is_counted_and_not_judged(sweep_table):
    table = sweep_table(widths=WIDTHS)
    cut = (table["width"] == 128) & (table["lr"] > 0.001)
    found = backtest(read(table[~cut]))
    ((reason, count),) = found.failures
    assert "no bracketed optimum" in reason
    assert (count, found.n_failed, len(found.holdouts)) == (3, 3, 3)


def test_sweep_no_part_of_which_can_be_judged_is_refused(sweep_table):
    """The largest of four sizes is held out: its rates are too low, or two others diverged."""
    table = sweep_table(widths=WIDTHS[:4])
    low = table[(table["width"] < 48) | (table["lr"] < 0.001)]
    diverged = table.assign(loss=table["loss"].mask(table["width"].isin([24, 32]), math.inf))
    for worse, message in ((low, "no bracketed optimum"), (diverged, "have a finished run")):
        with pytest.raises(DataError, match=f"no size could be .*{message}"):
            backtest(read(worse))


def test_an_accuracy_has_no_backtest_but_its_error_has(sweep_table):
    table = sweep_table(widths=WIDTHS[:4])
    table["acc"] = 1 - table.pop("loss") / 100
    options = {"size": "width", "tune": "lr", "loss": "acc", "maximise": "acc"}
    with pytest.raises(DataError, match=r'no law of size; .* say loss_kind="error" if'):
        backtest(table, **options)
    assert len(backtest(table, **options, loss_kind="error").holdouts) == 1


def test_only_the_sweep_is_used(found, sweep_table):
    judged = pd.DataFrame(
        {"width": [512.0], "lr": 0.003, "seed": 0, "loss": 9.0, "stage": "check"}
    )
    mixed = pd.concat([sweep_table(widths=WIDTHS).assign(stage="tune"), judged])
    assert backtest(read(mixed), min_sizes=6).holdouts == found.holdouts[-1:]


def test_many_checkpoints_cost_few_fits(monkeypatch):
    made = []
    real = extrap.forecast

    def counted(runs, **options):
        made.append(len(runs))
        return real(runs, **options)

    monkeypatch.setattr("extrap.forecasting.backtesting.forecast", counted)
    found = backtest(one_run_a_size(4 * MAX_CUTS))
    assert len(made) == MAX_CUTS + 1
    assert len(found.holdouts) <= MAX_CUTS * MAX_HELD_OUT


def test_pins_and_band_reach_every_forecast(found, sweep_table):
    runs = read(sweep_table(widths=WIDTHS))
    table = runs.to_frame()
    pinned = backtest(runs, band="family", fix={"E": 1.5}, min_sizes=6).holdouts[-1]
    small = read(table[table["width"] < 128])
    made = extrap.forecast(small, level=0.9, band="family", fix={"E": 1.5})
    assert pinned.predicted == pytest.approx(made.at(width=128).loss)
    assert pinned.predicted != found.holdouts[-1].predicted


def test_a_tuned_value_that_is_refused_is_not_judged_and_the_loss_is(sweep_table):
    """At the fitted sizes all rates are far too large; the whole sweep knows the last optimum."""
    too_large = tuple(2.0 ** (k - 5.5) for k in range(5))
    parts = [sweep_table(widths=(16, 32, 64), rates=too_large), sweep_table(widths=(128,))]
    table = pd.concat(parts)
    made = extrap.forecast(read(table[table["width"] < 128]), level=0.9)
    assert made.at(width=128).refusals.keys() == {"lr"}
    (held,) = backtest(read(table)).holdouts
    assert held.tuned_octaves == {"lr": None}
    assert held.predicted == pytest.approx(made.at(width=128).loss)
    assert held.covered[0.9]


def test_a_flat_column_is_predicted():
    """Of a rate that hardly matters any prediction is as good as another."""
    rows = [
        (width, lr, seed, 1 + width**-0.5 + (lr - 0.05) ** 2 + 0.001 * seed)
        for width in (8, 16, 32, 64)
        for lr in np.geomspace(2**-6, 2**-3, 5)
        for seed in (0, 1)
    ]
    frame = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    (held,) = backtest(Runs.from_frame(frame, sizes=["width"], tuned=["lr"])).holdouts
    assert abs(held.tuned_octaves["lr"]) < 1


def test_rules_start_at_the_fitted_sizes_and_cost_what_the_whole_sweep_says():
    """The best rate goes as params^−.4 tokens^−.2; from the smallest size on."""
    tested = backtest(sweep(grid()))
    held = tested.holdouts[-1]
    size = held.size
    rules = {rule.rule: rule for rule in held.rules}
    power = rules["inverse_root_tokens"].value / rules["constant"].value
    assert power == pytest.approx((size["tokens"] / TOKENS[0]) ** -0.5)
    for rule in held.rules:
        octaves = math.log2(rule.value / best_lr(**size))
        assert rule.octaves == pytest.approx(octaves, abs=0.15)
        if abs(octaves) < 2:  # within the rates that were tried
            assert rule.expected_regret == pytest.approx(0.02 * octaves**2, abs=0.006)
    n = tested.rule_costs()["n"]
    assert set(n) == {len(tested.holdouts)}
    costs = tested.rule_costs().set_index("rule")
    of_constant = [
        r.expected_regret for h in tested.holdouts for r in h.rules if r.rule == "constant"
    ]
    assert costs.loc["constant", "mean_cost"] == pytest.approx(np.mean(of_constant))
    assert costs.loc["constant", "largest_cost"] == max(of_constant)
    octaves = [r.octaves for h in tested.holdouts for r in h.rules if r.rule == "constant"]
    assert costs.loc["constant", "rms_octaves"] == pytest.approx(
        np.sqrt(np.mean(np.square(octaves)))
    )
    assert costs.loc["constant", "n"] == len(tested.holdouts)
    assert costs.index[0] == "fitted"
    assert costs["mean_cost"].is_monotonic_increasing


def test_a_sweep_without_tuned_values_has_no_rules():
    assert backtest(one_run_a_size(6)).rule_costs().empty
