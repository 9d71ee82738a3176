"""Options for the next runs: their runs, their cost, and the intervals they would leave."""

import json
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import grid
from extrap.forecasting import planning
from extrap.forecasting.planning import plan
from extrap.records import Interval
from extrap.records.codec import document
from extrap.reporting.text import result_text

TARGET = {"width": 1024.0}
NOISE = 0.002


def loss_at(width, lr):
    """On a parabola, without noise."""
    best = -8 - 0.5 * np.log2(width / 32)
    return (1.5 + 2 * width**-0.5) * np.exp(0.02 * (np.log2(lr) - best) ** 2)


def trained(cells, *, seed=5):
    """Losses with a little seeded noise, and FLOPs ∝ width²."""
    noise = np.exp(NOISE * np.random.default_rng(seed).normal(size=len(cells)))
    losses = loss_at(cells["width"], cells["lr"])
    return cells.assign(loss=losses * noise, flops=1e6 * cells["width"] ** 2.0)


def parabolas(*, rates=range(-4, 5), seeds=2, widths=(16, 32, 64, 128)):
    """Quadratic parabolas about a power law."""
    lr = 2.0 ** (-8 + 0.7 * np.array(rates))
    return trained(grid(width=widths, lr=lr, seed=range(seeds)))


def runs_of(table):
    return extrap.read_runs(table, size="width", tune="lr")


@cache
def planned(**options):
    return plan(extrap.forecast(runs_of(parabolas())), at=TARGET, **options)


def log_width(interval):
    return math.log(interval.upper / interval.lower)


def test_the_options_are_seeds_values_and_sizes_and_each_run_has_its_cost():
    found = planned()
    kinds = [(option.name, *{size["width"] for size in option.sizes}) for option in found.options]
    sizes = [("between", 23), ("larger", 181), ("larger", 256), ("target", 1024)]
    assert kinds[2:-2] == [kind for kind in sizes for _ in range(2)]
    assert [kind[0] for kind in kinds[-2:]] == ["grid"] * 2
    assert {size["width"] for size in found.options[-1].sizes} == {23, 181, 256}
    assert [kind[0] for kind in kinds[:2]] == ["seed", "finer"]
    assert {len(option.sizes) for option in found.options[:2]} == {4}
    for option in found.options:
        assert option.cost == pytest.approx(sum(1e6 * r.size["width"] ** 2 for r in option.runs))
        cells = [(*r.size.values(), *r.tuned.values(), r.seed) for r in option.runs]
        assert len(set(cells)) == len(cells)
    assert {run.seed for run in found.options[0].runs} == {2}
    one, all_seeds = found.options[2:4]
    assert ({r.seed for r in one.runs}, {r.seed for r in all_seeds.runs}) == ({0}, {0, 1})
    assert len(one.runs) == 5
    assert {option.in_budget for option in found.options} == {True}
    assert found.spent == pytest.approx(parabolas()["flops"].sum())


def test_new_sizes_are_tried_on_both_sides_of_the_predicted_optimum():
    (target, _) = [option for option in planned().options if option.name == "target"]
    octaves = np.array([math.log2(run.tuned["lr"]) + 10.5 for run in target.runs])
    assert np.diff(octaves) == pytest.approx([np.diff(octaves)[0]] * 4)
    assert octaves.mean() == pytest.approx(0, abs=0.2)
    excess = 0.02 * (octaves[3] - octaves[2]) ** 2 / 0.8**2
    assert excess == pytest.approx(0.01, rel=0.1)  # where the weight of a run halves


def test_the_intervals_now_are_those_of_the_forecast():
    found, point = planned(), extrap.forecast(runs_of(parabolas())).at(**TARGET)
    assert (found.loss_pi, found.tuned_pi["lr"]) == (point.loss_pi, point.tuned["lr"].pi)
    for option in found.options:
        widths = [log_width(option.loss_pi), log_width(option.tuned_pi["lr"])]
        now = [log_width(found.loss_pi), log_width(found.tuned_pi["lr"])]
        assert option.gain == pytest.approx(float(np.sum(np.log(now) - np.log(widths))))


def test_more_runs_narrow_more_and_a_larger_size_more_than_a_smaller_one():
    gains = [option.gain for option in planned().options]
    one_seed = gains[2:-2:2]
    assert one_seed == sorted(one_seed)
    assert all(both >= one for one, both in zip(gains[4::2], gains[5::2], strict=True))


@pytest.mark.parametrize("name", ["larger", "target"])
def test_after_training_the_intervals_are_about_as_expected(name):
    """Within a factor of two: one replicate, whose noise another seed would change."""
    option = [o for o in planned().options if o.name == name][-1]
    cells = [{**run.size, **run.tuned, "seed": run.seed} for run in option.runs]
    more = pd.concat([parabolas(), trained(pd.DataFrame(cells), seed=6)])
    point = extrap.forecast(runs_of(more)).at(**TARGET)
    ratios = [
        log_width(point.loss_pi) / log_width(option.loss_pi),
        log_width(point.tuned["lr"].pi) / log_width(option.tuned_pi["lr"]),
    ]
    assert all(1 / 2 < ratio < 2 for ratio in ratios)


def test_the_choice_is_the_best_in_the_budget_and_none_where_nothing_is_affordable(monkeypatch):
    known = {(o.runs[0].size["width"], len(o.runs)): o for o in planned().options}

    def then(_, cells, target):
        option = known[(cells[0][0]["width"], len(cells))]
        return option.loss_pi, option.tuned_pi

    monkeypatch.setattr(planning._Sweep, "then", then)
    assert len(known) == len(planned().options)
    costs = sorted(option.cost for option in planned().options)
    for budget in (*costs, costs[0] * 0.99):
        found = planned(budget=budget)
        affordable = [option for option in found.options if option.cost <= budget]
        assert [option for option in found.options if option.in_budget] == affordable
        if found.chosen is None:
            assert all(option.gain <= 0 for option in affordable)
        else:
            assert found.options[found.chosen] in affordable
    assert found.chosen is None
    assert "more than the budget" in result_text(found)
    assert found.frame().empty


def test_an_optimum_at_an_edge_is_bracketed_first():
    table = pd.concat(
        [parabolas(widths=(16, 32, 64, 96)), parabolas(widths=(128,), rates=range(1, 5))]
    )
    found = plan(extrap.forecast(runs_of(table)), at=TARGET)
    assert found.chosen == 0
    low = table.loc[table["width"] == 128, "lr"].min()
    step = 2**0.7
    assert {(run.size["width"], run.seed) for run in found.runs} == {(128, 0), (128, 1)}
    rates = sorted({run.tuned["lr"] for run in found.runs})
    assert rates == pytest.approx([low / step**2, low / step])


def test_optima_beyond_all_values_are_bracketed_first_and_no_seed_is_added_there():
    found = plan(extrap.forecast(runs_of(parabolas(rates=range(2, 6)))), at=TARGET)
    names = [option.name for option in found.options]
    assert (names[0], found.chosen, "seed" in names) == ("bracket", 0, False)
    assert {run.size["width"] for run in found.runs} == {16, 32, 64, 128}
    assert found.options[0].gain > 0
    now, then = log_width(found.tuned_pi["lr"]), log_width(found.options[0].tuned_pi["lr"])
    assert then < now / 2


def test_without_a_law_of_the_loss_the_only_option_is_to_bracket():
    """All runs of the largest of three sizes diverged: nothing can be bracketed there."""
    table = parabolas(widths=(16, 32, 64), rates=range(2, 6))
    gone = table["width"] == 64
    table = table.assign(
        loss=table["loss"].mask(gone), status=np.where(gone, "diverged", "complete")
    )
    found = plan(extrap.forecast(runs_of(table)), at=TARGET)
    assert [option.name for option in found.options] == ["bracket"]
    assert ({run.size["width"] for run in found.runs}, found.chosen) == ({16, 32}, 0)
    assert (found.loss_pi, found.options[0].loss_pi) == (Interval(), Interval())
    assert "unknown" in result_text(found)
    json.dumps(document(found), allow_nan=False)


def test_without_tuned_columns_a_run_is_a_size_and_a_seed():
    table = parabolas(rates=range(0, 1), widths=(16, 24, 32, 48, 64, 96)).drop(columns="lr")
    found = plan(extrap.forecast(extrap.read_runs(table, size="width")), at=TARGET)
    assert {option.name for option in found.options} == {
        "seed",
        "between",
        "larger",
        "target",
        "grid",
    }
    assert [(run.size["width"], run.seed) for run in found.options[0].runs] == [
        (w, 2) for w in (16, 24, 32, 48, 64, 96)
    ]


def test_two_size_columns_get_pairs_that_were_not_swept_together():
    cells = [(n, d) for n in (1e6, 2e6, 4e6) for d in (2e7, 4e7, 8e7) if (n, d) != (4e6, 2e7)]
    frame = pd.DataFrame(cells, columns=["n_params", "n_tokens"])
    loss = 1.5 + 100 * frame["n_params"] ** -0.4 + 200 * frame["n_tokens"] ** -0.4
    runs = extrap.read_runs(frame.assign(loss=loss), size=["n_params", "n_tokens"])
    found = plan(extrap.forecast(runs), at={"n_params": 3.2e7, "n_tokens": 6.4e8})
    between = [option.sizes for option in found.options if option.name == "between"]
    assert between == [({"n_params": 4e6, "n_tokens": 2e7},)]
    assert {option.cost for option in found.options if option.name == "between"} == {4.8e14}


def test_named_seeds_keep_their_names():
    table = parabolas()
    found = plan(
        extrap.forecast(runs_of(table.assign(seed=table["seed"].map({0: "a", 1: "b"})))), at=TARGET
    )
    assert {run.seed for run in found.options[3].runs} == {"a", "b"}
    assert {run.seed for run in found.options[0].runs}.isdisjoint({"a", "b"})
