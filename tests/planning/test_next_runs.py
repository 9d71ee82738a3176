"""`extrap plan`: what is bought, what it costs, how wide the intervals will then be."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.cli import main
from extrap.fitting.vertices import VertexModel
from extrap.planning import next_runs
from extrap.planning.candidates import Market, read_among
from extrap.planning.expectations import Foresight, Widths
from extrap.planning.next_runs import plan
from extrap.records.codec import document
from extrap.reporting.plans import plan_blocks
from extrap.reporting.text import blocks_text

TARGET = {"width": 1024.0}


def loss_at(width, lr):
    """On a parabola, without noise."""
    best = -8 - 0.5 * math.log2(width / 32)
    return (1.5 + 2 * width**-0.5) * math.exp(0.02 * (math.log2(lr) - best) ** 2)


def parabolas(*, rates=range(-4, 5), seeds=2, widths=(16, 32, 64, 128)):
    """Quadratic parabolas about a power law, with a little seeded noise."""
    rng = np.random.default_rng(5)
    rows = []
    for width in widths:
        for rate in rates:
            for seed in range(seeds):
                lr = 2.0 ** (-8 + 0.7 * rate)
                noise = math.exp(0.002 * rng.normal())
                rows.append((width, lr, seed, loss_at(width, lr) * noise))
    table = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    return table.assign(flops=1e6 * table["width"] ** 2.0)


def runs_of(table: pd.DataFrame) -> extrap.Runs:
    return extrap.read_runs(table, size="width", tune="lr")


def test_only_cells_on_offer_are_bought_and_each_once() -> None:
    table = parabolas(seeds=4)
    owned = (table["seed"] < 2) & (table["width"] < 128) | (table["width"] < 64)
    offer = table.loc[~owned, ["width", "lr", "seed"]]
    runs = runs_of(pd.concat([table[owned], parabolas(widths=(8, 24))]))
    found = plan(runs, at=TARGET, budget=1e12, among=offer)
    bought = [(p.size["width"], p.tuned["lr"], p.seed) for p in found.purchases]
    on_offer = {(w, lr, s) for w, lr, s in offer.itertuples(index=False)}
    assert bought
    assert set(bought) <= on_offer
    assert len(set(bought)) == len(bought)


def test_an_optimum_at_the_edge_is_bracketed_first() -> None:
    table = pd.concat(
        [parabolas(widths=(16, 32, 64, 96)), parabolas(widths=(128,), rates=range(1, 5))]
    )
    found = plan(runs_of(table), at=TARGET, n_runs=10)
    first = found.purchases[0]
    assert first.reason == "bracket"
    assert first.size == {"width": 128.0}
    assert first.tuned["lr"] < table.loc[table["width"] == 128, "lr"].min()
    assert any("brackets-first" in flag for flag in found.flags)


@pytest.mark.parametrize("budget", [1e10, 1e11, 3e12])
def test_no_step_widens_and_no_cell_has_a_fifth_seed(monkeypatch, budget) -> None:
    """The loss and the rate after every step; the shipped sweep has four seeds a cell."""
    steps: list[tuple[float, float]] = []
    best = next_runs.best_plan

    def watched(*given):
        found = best(*given)
        told = (found.now, *(step.widths for step in found.steps))
        steps.extend((widths.loss or 0.0, widths.tuned["lr"] or 0.0) for widths in told)
        return found

    monkeypatch.setattr(next_runs, "best_plan", watched)
    found = plan(runs_of(pd.read_csv("examples/sweep.csv")), at=TARGET, budget=budget)
    assert np.all(np.diff(steps, axis=0) <= 0)
    assert len(steps) == len({p.step for p in found.purchases}) + 1
    cells = [(p.size["width"], p.tuned["lr"]) for p in found.purchases]
    assert max(map(cells.count, cells), default=0) <= 4
    assert not {width for width, _ in cells} & {16, 24, 32, 48, 64, 96, 128, 192}


def test_where_nothing_narrows_none_is_bought_and_that_is_said(monkeypatch) -> None:
    def widened(self, designs, *, n_new):
        return Widths(loss=1.0, tuned={"lr": 9.0})

    monkeypatch.setattr(Foresight, "refitted", widened)
    found = plan(runs_of(parabolas()), at=TARGET, n_runs=8)
    assert not found.purchases
    assert found.then == found.now
    assert "without widening" in found.advice[0]


def test_after_runs_at_the_target_the_interval_is_as_foreseen() -> None:
    at = {"width": 512.0}
    found = plan(runs_of(parabolas()), at=at, n_runs=3)
    bought = found.frame()
    assert set(bought["width"]) == {512}
    losses = [loss_at(w, lr) for w, lr in zip(bought["width"], bought["lr"], strict=True)]
    more = pd.concat([parabolas(), bought.assign(loss=losses)[["width", "lr", "seed", "loss"]]])
    lower, upper = extrap.forecast(runs_of(more)).at(**at).loss_pi
    seen = math.log((upper or math.inf) / (lower or math.nan))
    assert seen == pytest.approx(found.then.loss_width, rel=0.1)
    assert seen < found.now.loss_width / 2


def test_a_count_of_seeds_is_checked() -> None:
    for bad, kind in ((0, ValueError), (2.5, TypeError), (None, TypeError)):
        with pytest.raises(kind, match="most_seeds"):
            plan(runs_of(parabolas()), at=TARGET, n_runs=8, most_seeds=bad)


def test_without_any_law_the_plan_only_brackets_and_tells_no_width() -> None:
    found = plan(runs_of(parabolas(rates=range(2, 6))), at=TARGET, n_runs=20)
    assert {p.reason for p in found.purchases} == {"bracket"}
    assert found.now.loss_width is None
    assert "plan again" in found.advice[0]
    json.dumps(document(found), allow_nan=False)


def test_seeds_with_names_are_one_and_the_same_in_both_tables() -> None:
    table = parabolas(seeds=4)
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
    assert set(found.frame()["seed"]) == {"d"}
    assert " d " in blocks_text(plan_blocks(found))


def test_a_new_size_of_three_values_about_its_optimum_may_be_bought() -> None:
    rates = [2.0**o for o in (-10.5, -9.5, -8.5)]
    offer = pd.DataFrame({"width": 256, "lr": rates, "seed": 0})
    found = plan(runs_of(parabolas()), at=TARGET, n_runs=8, among=offer)
    assert [p.reason for p in found.purchases] == ["new size"] * 3
    one_sided = plan(runs_of(parabolas()), at=TARGET, n_runs=8, among=offer.assign(lr=rates[2]))
    assert not one_sided.purchases
    assert "both sides" in one_sided.advice[0]


def test_sizes_alone_on_offer_mean_the_next_seed_that_is_free() -> None:
    table = parabolas(rates=range(0, 1), seeds=2, widths=(16, 24, 32, 48, 64, 96))
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


def test_the_command_writes_the_runs_for_a_trainer(tmp_path, capsys):
    table, out = tmp_path / "runs.csv", tmp_path / "next.csv"
    parabolas().to_csv(table, index=False)
    options = ["--size", "width", "--tune", "lr", "--at", "1024", "--runs", "6"]
    options += ["--most-seeds", "3"]
    assert main(["plan", str(table), *options, "--out", str(out), "--json"]) == 0
    told = [each["tuned"]["lr"] for each in json.loads(capsys.readouterr().out)["purchases"]]
    assert list(pd.read_csv(out)["lr"]) == pytest.approx(told)
    assert {"width", "lr", "seed"} <= set(pd.read_csv(out))


@pytest.mark.slow
def test_widths_come_out_as_foreseen() -> None:
    """Buy what is planned from the same truth: the interval of the loss is about as foreseen."""
    full = parabolas(seeds=4, widths=(16, 24, 32, 48, 64, 96))
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
