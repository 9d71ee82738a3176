"""`extrap plan`: what is bought, what it costs, how wide the intervals will then be."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.cli import main
from extrap.errors import DataError
from extrap.planning import plan_document, purchases_table
from extrap.planning.advice import advise
from extrap.planning.candidates import Market, read_among
from extrap.planning.next_runs import plan
from extrap.planning.plans import Outlook, Plan
from extrap.planning.vertices import VertexModel
from extrap.reporting.plans import plan_text

SWEEP = Path(__file__).parents[2] / "examples" / "sweep.csv"
TARGET = {"width": 1024.0}
BUDGET = 3e11


@cache
def shipped() -> extrap.Forecast:
    return extrap.forecast(extrap.read_runs(SWEEP, size="width", tune="lr"))


@cache
def small_plan() -> Plan:
    return plan(shipped(), at=TARGET, budget=BUDGET)


def valleys(
    *, rates: range = range(-4, 5), seeds: int = 2, widths: tuple[int, ...] = (16, 32, 64, 128)
) -> pd.DataFrame:
    """Quadratic valleys about a power law, with a little seeded noise."""
    rng = np.random.default_rng(5)
    rows = []
    for width in widths:
        best = -8 - 0.5 * math.log2(width / 32)
        for rate in rates:
            for seed in range(seeds):
                at = -8 + 0.7 * rate
                loss = (1.5 + 2 * width**-0.5) * math.exp(0.02 * (at - best) ** 2)
                rows.append((width, 2.0**at, seed, loss * math.exp(0.002 * rng.normal())))
    table = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    return table.assign(flops=1e6 * table["width"] ** 2.0)


def runs_of(table: pd.DataFrame) -> extrap.Runs:
    return extrap.read_runs(table, size="width", tune="lr")


def test_purchases_cost_no_more_than_the_budget_and_none_exists_already() -> None:
    found = small_plan()
    assert 0 < found.cost <= BUDGET
    assert found.cost == pytest.approx(sum(p.cost for p in found.purchases))
    frame = shipped().runs.to_frame()
    owned = set(zip(frame["width"], frame["lr"], frame["seed"], strict=True))
    bought = [(p.size["width"], p.tuned["lr"], p.seed) for p in found.purchases]
    assert len(set(bought)) == len(bought)
    assert not owned & set(bought)


def test_the_first_outlook_is_the_forecasts_own_interval() -> None:
    point = shipped().at(**TARGET)
    lower, upper = point.loss_pi
    assert small_plan().now.loss_width == pytest.approx(math.log((upper or 0) / (lower or 1)))
    low, high = point.tuned["lr"].pi
    assert small_plan().now.tuned_width["lr"] == pytest.approx(math.log2((high or 0) / (low or 1)))


def test_what_is_bought_narrows_the_rate_and_the_floor_lies_below() -> None:
    found = small_plan()
    now, then, floor = (o.tuned_width["lr"] or 0 for o in (found.now, found.then, found.floor))
    assert floor < then < now


def test_costs_are_those_of_the_column_flops() -> None:
    frame = shipped().runs.to_frame()
    known = frame.groupby("width")["flops"].median()
    found = small_plan()
    for purchase in found.purchases:
        if purchase.size["width"] in known.index:
            assert purchase.cost == pytest.approx(known[purchase.size["width"]])
    assert found.spent == pytest.approx(frame["flops"].sum())
    assert found.unit == "FLOPs"


def test_values_lie_near_the_predicted_optimum() -> None:
    for purchase in small_plan().purchases:
        best = shipped().predict_tuned(purchase.size)["lr"].value or math.nan
        assert abs(math.log2(purchase.tuned["lr"] / best)) < 3


def test_a_bound_on_runs_alone_is_a_budget() -> None:
    found = plan(shipped(), at=TARGET, n_runs=6)
    assert 0 < len(found.purchases) <= 6
    assert found.budget is None


def test_a_formula_says_what_a_run_costs() -> None:
    found = plan(runs_of(valleys()), at=TARGET, budget=1e6, cost="width ** 2")
    assert found.unit == "units"
    assert all(p.cost == pytest.approx(p.size["width"] ** 2, rel=1e-6) for p in found.purchases)


def test_a_table_without_costs_asks_for_a_formula() -> None:
    with pytest.raises(DataError, match="give a formula"):
        plan(runs_of(valleys().drop(columns="flops")), at=TARGET, budget=1e6)


def test_only_cells_on_offer_are_bought_and_each_once() -> None:
    table = valleys(seeds=4)
    owned = (table["seed"] < 2) & (table["width"] < 128) | (table["width"] < 64)
    offer = table.loc[~owned, ["width", "lr", "seed"]]
    runs = runs_of(pd.concat([table[owned], valleys(widths=(8, 24))]))
    found = plan(runs, at=TARGET, budget=1e12, among=offer)
    bought = [(p.size["width"], p.tuned["lr"], p.seed) for p in found.purchases]
    on_offer = {(w, lr, s) for w, lr, s in offer.itertuples(index=False)}
    assert bought
    assert set(bought) <= on_offer
    assert len(set(bought)) == len(bought)


def test_an_optimum_at_the_edge_is_bracketed_first() -> None:
    table = pd.concat(
        [valleys(widths=(16, 32, 64, 96)), valleys(widths=(128,), rates=range(1, 5))]
    )
    found = plan(runs_of(table), at=TARGET, n_runs=10)
    first = found.purchases[0]
    assert first.reason == "bracket"
    assert first.size == {"width": 128.0}
    assert first.tuned["lr"] < table.loc[table["width"] == 128, "lr"].min()
    assert any("brackets-first" in flag for flag in found.flags)


def test_without_any_law_the_plan_only_brackets_and_tells_no_width() -> None:
    found = plan(runs_of(valleys(rates=range(2, 6))), at=TARGET, n_runs=20)
    assert {p.reason for p in found.purchases} == {"bracket"}
    assert found.now.loss_width is None
    assert "plan again" in found.advice[0]
    json.dumps(plan_document(found), allow_nan=False)


def test_without_tuned_columns_seeds_and_sizes_are_bought() -> None:
    table = valleys(rates=range(0, 1), seeds=2, widths=(16, 24, 32, 48, 64, 96))
    runs = extrap.read_runs(table.drop(columns="lr"), size="width")
    found = plan(runs, at=TARGET, budget=2e11)
    assert found.purchases
    assert all(p.tuned == {} for p in found.purchases)
    assert (found.then.loss_width or 0) <= (found.now.loss_width or 0)


def test_a_larger_size_is_named_where_small_runs_cannot_help() -> None:
    found = plan(shipped(), at={"width": 4096.0}, budget=BUDGET)
    assert any("Only a larger size helps" in line for line in found.advice)
    assert found.larger[0].size["width"] > 192


def test_no_budget_has_a_worse_plan_than_a_smaller_round_one() -> None:
    sums = []
    for budget in (1e11, 5e11, 1e12, 1.5e12, 5e12):
        then = plan(shipped(), at={"width": 4096.0}, budget=budget).then
        sums.append(math.log((then.loss_width or 0) * (then.tuned_width["lr"] or 0)))
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] < sums[0] - 0.2


def test_seeds_with_names_are_one_and_the_same_in_both_tables() -> None:
    table = valleys(seeds=4)
    table = table.assign(seed=table["seed"].map(dict(enumerate("abcd"))))
    owned = table["seed"] < "d"
    found = plan(
        runs_of(table[owned]),
        at=TARGET,
        n_runs=8,
        among=table.loc[table["seed"] >= "c", ["width", "lr", "seed"]],
    )
    assert found.purchases
    assert {p.seed for p in found.purchases} == {"d"}
    assert set(purchases_table(found)["seed"]) == {"d"}
    assert " d " in plan_text(found)


def test_a_new_size_of_three_values_about_its_optimum_may_be_bought() -> None:
    rates = [2.0**o for o in (-10.5, -9.5, -8.5)]
    offer = pd.DataFrame({"width": 256, "lr": rates, "seed": 0})
    found = plan(runs_of(valleys()), at=TARGET, n_runs=8, among=offer)
    assert [p.reason for p in found.purchases] == ["new size"] * 3
    one_sided = plan(runs_of(valleys()), at=TARGET, n_runs=8, among=offer.assign(lr=rates[2]))
    assert not one_sided.purchases
    assert "both sides" in one_sided.advice[0]


def test_sizes_alone_on_offer_mean_the_next_seed_that_is_free() -> None:
    table = valleys(rates=range(0, 1), seeds=2, widths=(16, 24, 32, 48, 64, 96))
    runs = extrap.read_runs(table.drop(columns="lr"), size="width")
    market = Market(
        forecast=extrap.forecast(runs),
        model=VertexModel.of(None, extrap.forecast(runs).noise, scatter=0.0),
        among=read_among(pd.DataFrame({"width": [96, 96]}), runs),
    )
    bought = []
    for _ in range(2):
        (move,) = market.moves({"width": 96.0}, is_known=True)
        market.take(move)
        bought += [seed for _, seed in move.cells]
    assert bought == [2, 3]
    assert market.moves({"width": 96.0}, is_known=True) == []


def test_an_offer_without_rows_is_refused() -> None:
    with pytest.raises(DataError, match="a row at least"):
        plan(shipped(), at=TARGET, n_runs=4, among=pd.DataFrame({"width": [], "lr": []}))


def test_a_step_that_is_too_large_is_named() -> None:
    found = plan(shipped(), at=TARGET, n_runs=1)
    assert not found.purchases
    assert "the smallest step, 2 runs at" in found.advice[0]
    assert "over the number of runs" in found.advice[0]
    poor = plan(shipped(), at=TARGET, budget=1e3)
    assert "over the budget" in poor.advice[0]


def test_an_interval_is_said_to_do_what_it_does() -> None:
    now = Outlook(n_runs=0, cost=0.0, loss_width=0.1, tuned_width={"lr": 1.0})
    then = Outlook(n_runs=1, cost=1.0, loss_width=0.2, tuned_width={"lr": 1.001})
    one = replace(small_plan(), purchases=small_plan().purchases[:1], outlooks=(now, then))
    (text, *_) = advise(one)
    assert text.startswith("1 run for")
    assert "the loss widens from 11 % to 22 %" in text
    assert "lr stays at 1 octave." in text
    assert "1 run," in plan_text(one)


def test_only_a_larger_size_helps_is_not_said_of_a_plan_that_narrows() -> None:
    found = plan(shipped(), at={"width": 4096.0}, budget=BUDGET)
    width = found.now.loss_width or 0
    better = replace(found.now, n_runs=9, loss_width=0.8 * width)
    told = advise(replace(found, outlooks=(found.now, better)))
    assert not any("Only a larger size" in line for line in told)


def test_no_budget_is_refused_and_so_is_an_unknown_aim() -> None:
    with pytest.raises(ValueError, match="needs a budget"):
        plan(shipped(), at=TARGET)
    with pytest.raises(ValueError, match="positive and finite"):
        plan(shipped(), at=TARGET, budget=-1.0)
    with pytest.raises(ValueError, match="at least 1"):
        plan(shipped(), at=TARGET, n_runs=0)
    with pytest.raises(TypeError, match="a budget is a number"):
        plan(shipped(), at=TARGET, budget=True)
    with pytest.raises(TypeError, match="whole number"):
        plan(shipped(), at=TARGET, n_runs=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aim is one of loss, lr"):
        plan(shipped(), at=TARGET, budget=BUDGET, aim="batch")


def test_limits_are_shares_of_the_variance() -> None:
    for parts in small_plan().limits.values():
        assert sum(parts.values()) == pytest.approx(1)
        assert min(parts.values()) > 0


def test_the_document_is_plain_json_and_the_table_has_a_row_a_run() -> None:
    found = small_plan()
    document = json.loads(json.dumps(plan_document(found), allow_nan=False))
    assert document["kind"] == "extrap-plan"
    assert len(document["purchases"]) == len(found.purchases)
    assert set(document["outlooks"][0]) == {"n_runs", "cost", "loss_width", "tuned_width"}
    table = purchases_table(found)
    assert list(table)[:3] == ["width", "lr", "seed"]
    assert len(table) == len(found.purchases)


def test_the_text_says_what_to_buy_and_how_wide_it_leaves_the_intervals() -> None:
    text = plan_text(small_plan())
    assert "runs to buy, in order" in text
    assert "any number of runs at the swept sizes alone" in text
    assert "what makes lr uncertain now" in text


def test_the_command_writes_the_runs_for_a_trainer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "runs.csv", tmp_path / "next.csv"
    valleys().to_csv(table, index=False)
    options = ["--size", "width", "--tune", "lr", "--at", "1024", "--runs", "6"]
    assert main(["plan", str(table), *options, "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    bought = pd.read_csv(out)
    assert len(json.loads(printed.out)["purchases"]) == len(bought)
    assert {"width", "lr", "seed"} <= set(bought)


def test_two_units_of_a_budget_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "runs.csv"
    valleys().to_csv(table, index=False)
    options = ["--size", "width", "--at", "1024", "--budget", "1", "--budget-hours", "1"]
    assert main(["plan", str(table), *options]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.slow
def test_widths_come_out_as_foreseen() -> None:
    """Buy what is planned from the same truth: the interval of the loss is about as foreseen."""
    full = valleys(seeds=4, widths=(16, 24, 32, 48, 64, 96))
    owned = (full["seed"] < 2) & (full["width"] <= 64)
    found = plan(
        runs_of(full[owned]),
        at=TARGET,
        budget=float(full["flops"].sum()) / 4,
        among=full.loc[~owned, ["width", "lr", "seed"]],
    )
    bought = {(p.size["width"], p.tuned["lr"], p.seed) for p in found.purchases}
    keys = zip(full["width"], full["lr"], full["seed"], strict=True)
    is_bought = np.array([key in bought for key in keys])
    then = extrap.forecast(runs_of(full[owned | is_bought]))
    lower, upper = then.at(**TARGET).loss_pi
    seen = math.log((upper or math.inf) / (lower or math.nan))
    assert seen == pytest.approx(found.then.loss_width, rel=0.5)
