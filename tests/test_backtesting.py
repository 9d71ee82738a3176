"""Backtests of sweeps whose truth is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.backtesting import Backtest, Holdout, backtest, backtest_document
from extrap.errors import DataError
from extrap.fitting.splits import MAX_CUTS, MAX_HELD_OUT

Table = Callable[..., pd.DataFrame]
WIDTHS = (16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)


def true_loss(width: float) -> float:
    return 1.5 + 2.0 * (width / 16) ** -0.4


def read(table: pd.DataFrame, tune: str | tuple[str, ...] = "lr") -> extrap.Runs:
    return extrap.read_runs(table, size="width", tune=tune)


@pytest.fixture(scope="module")
def found(sweep_table: Table) -> Backtest:
    return backtest(read(sweep_table(widths=WIDTHS)))


def one_run_a_size(n: int, *, noise: float = 0.003) -> extrap.Runs:
    rng = np.random.default_rng(1)
    width = np.geomspace(16, 4096, n)
    loss = [true_loss(w) * math.exp(noise * rng.normal()) for w in width]
    return read(pd.DataFrame({"width": width, "loss": loss, "seed": 0}), tune=())


def test_each_larger_size_is_predicted_from_four_sizes_on(found: Backtest) -> None:
    pairs = [(h.n_fitted, h.size["width"]) for h in found.holdouts]
    assert pairs == [(4, 64), (4, 96), (4, 128), (5, 96), (5, 128), (6, 128)]
    assert found.holdouts[2].extrapolation_ratio == pytest.approx(128 / 48)
    assert (found.n_sizes, found.n_failed, found.failures) == (7, 0, ())


def test_prediction_is_that_of_a_forecast_that_never_saw_the_size(
    found: Backtest, sweep_table: Table
) -> None:
    table = sweep_table(widths=WIDTHS)
    made = extrap.forecast(read(table[table["width"] <= 64]), level=0.9)
    held = next(h for h in found.holdouts if (h.n_fitted, h.size["width"]) == (5, 128))
    assert held.predicted == pytest.approx(made.at(width=128).loss, rel=1e-9)
    assert held.last_value == made.last_value()
    found_lr = extrap.forecast(read(table)).optima[-1].tuned["lr"].value
    octaves = math.log2(found_lr / made.at(width=128).tuned["lr"].value)
    assert held.tuned_octaves == {"lr": pytest.approx(octaves)}


def test_held_out_size_is_judged_by_the_optimum_of_the_whole_sweep(
    found: Backtest, sweep_table: Table
) -> None:
    optimum = extrap.forecast(read(sweep_table(widths=WIDTHS))).optima[-1]
    for held in found.holdouts:
        if held.size == optimum.size:
            assert held.observed == optimum.loss
            assert held.observed_log_se == optimum.paired_loss_se / optimum.loss
            assert held.deviation == pytest.approx(held.observed / held.predicted - 1)


def test_later_sizes_cannot_change_a_prediction(found: Backtest, sweep_table: Table) -> None:
    table = sweep_table(widths=WIDTHS)
    table.loc[table["width"] == 128, "loss"] *= 1.5
    again = backtest(read(table))
    for before, after in zip(found.holdouts, again.holdouts, strict=True):
        assert after.predicted == before.predicted
        if before.size["width"] == 128:
            assert not after.covered[0.9]


def test_mean_of_several_seeds_is_held_against_a_narrower_interval_than_one_run(
    sweep_table: Table,
) -> None:
    table = sweep_table(widths=WIDTHS, seeds=4, noise=0.02)
    made = extrap.forecast(read(table[table["width"] < 128]), level=0.9)
    held = backtest(read(table)).holdouts[-1]
    single = made.at(width=128).loss_pi
    assert single.lower < held.predicted_pi.lower < held.predicted_pi.upper < single.upper


def test_single_run_is_held_against_the_interval_of_a_new_run() -> None:
    runs = one_run_a_size(8)
    table = runs.to_frame()
    made = extrap.forecast(read(table.iloc[:-1], tune=()), level=0.9)
    held = backtest(runs).holdouts[-1]
    assert held.predicted_pi == pytest.approx(made.at(**held.size).loss_pi)


def test_summary_of_all_is_made_of_its_bins(found: Backtest) -> None:
    table = found.summary()
    *bins, total = table.to_dict("records")
    assert list(table["extrapolation_ratio"]) == ["1 to 2", "2 to 4", "all"]
    assert sum(row["n"] for row in bins) == total["n"] == 6
    frame = found.frame()
    errors = np.log1p(frame["deviation"])
    last = np.log1p(frame["last_deviation"])
    assert total["bias"] == pytest.approx(errors.mean())
    assert total["rms_error"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert total["skill"] == pytest.approx(1 - np.sqrt((errors**2).mean() / (last**2).mean()))
    assert total["coverage_80"] == frame["covered_80"].mean()
    assert total["crps"] == pytest.approx(frame["crps"].mean())
    assert bins[0]["n"] == (frame["extrapolation_ratio"] <= 2 + 1e-9).sum()


def test_law_beats_the_last_value_where_the_truth_is_a_law(found: Backtest) -> None:
    total = found.summary().iloc[-1]
    assert total["skill"] > 0.5
    assert total["coverage_90"] >= 0.5
    assert abs(total["bias"]) < 0.02


def test_leaving_one_size_out_predicts_every_size_but_the_smallest(sweep_table: Table) -> None:
    found = backtest(read(sweep_table()), scheme="leave-one-out")
    assert [h.size["width"] for h in found.holdouts] == [32, 64, 128, 192]
    assert {h.n_fitted for h in found.holdouts} == {4}
    ratios = [h.extrapolation_ratio for h in found.holdouts]
    assert ratios == [pytest.approx(r) for r in (32 / 192, 64 / 192, 128 / 192, 1.5)]
    below = [true_loss(w) for w in (16, 32, 64, 128)]
    assert [h.last_value for h in found.holdouts] == pytest.approx(below, rel=0.01)


def test_size_without_an_optimum_is_counted_and_not_judged(sweep_table: Table) -> None:
    table = sweep_table(widths=WIDTHS)
    cut = (table["width"] == 128) & (table["lr"] > 0.001)
    found = backtest(read(table[~cut]))
    ((reason, count),) = found.failures
    assert "no optimum to be judged by; extend its grid" in reason
    assert (count, found.n_failed, len(found.holdouts)) == (3, 3, 3)


def test_sweep_no_part_of_which_carries_a_law_is_refused(sweep_table: Table) -> None:
    table = sweep_table(widths=WIDTHS[:4])
    cut = (table["width"] < 48) & (table["lr"] > 0.003)
    with pytest.raises(DataError, match="no size could be predicted from the others"):
        backtest(read(table[~cut]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "random"}, "the scheme must be one of rolling, leave-one-out, got 'random'"),
        ({"level": 90}, r"level must lie in \(0, 1\), got 90"),
        ({"min_sizes": 2}, "min_sizes must be at least 3"),
        ({"min_sizes": 7}, "needs at least 8 sizes, 7 to fit"),
    ],
)
def test_impossible_requests_are_refused(
    sweep_table: Table, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        backtest(read(sweep_table(widths=WIDTHS)), **options)


def test_only_the_sweep_is_used(found: Backtest, sweep_table: Table) -> None:
    judged = pd.DataFrame(
        {"width": [512.0], "lr": 0.003, "seed": 0, "loss": 9.0, "stage": "check"}
    )
    mixed = pd.concat([sweep_table(widths=WIDTHS).assign(stage="tune"), judged])
    assert backtest(read(mixed)).holdouts == found.holdouts


def test_many_checkpoints_cost_few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = extrap.forecast

    def counted(runs: extrap.Runs, **options: object) -> extrap.Forecast:
        made.append(len(runs))
        return real(runs, **options)

    monkeypatch.setattr("extrap.backtesting.forecast", counted)
    found = backtest(one_run_a_size(120))
    assert len(made) == MAX_CUTS + 1
    assert len(found.holdouts) <= MAX_CUTS * MAX_HELD_OUT


def test_pins_and_band_reach_every_forecast(sweep_table: Table) -> None:
    runs = read(sweep_table(widths=WIDTHS))
    table = runs.to_frame()
    found = backtest(runs, band="family", fix={"E": 1.5})
    small = read(table[table["width"] < 128])
    made = extrap.forecast(small, level=0.9, band="family", fix={"E": 1.5})
    assert found.holdouts[-1].predicted == pytest.approx(made.at(width=128).loss)
    assert found.holdouts[-1].predicted != backtest(runs).holdouts[-1].predicted


def test_document_holds_every_field_and_is_json(found: Backtest) -> None:
    document = backtest_document(found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema_version"] == 1
    assert {"level", "holdouts", "summary", "n_failed"} < set(document)
    assert set(document["holdouts"][0]) == {field.name for field in fields(Holdout)}
    assert document["summary"][-1]["extrapolation_ratio"] == "all"


def test_frame_has_one_row_a_prediction(found: Backtest) -> None:
    frame = found.frame()
    assert len(frame) == 6
    for column in ("width", "predicted_pi_lower", "covered_90", "lr_octaves", "last_deviation"):
        assert frame[column].notna().all()
