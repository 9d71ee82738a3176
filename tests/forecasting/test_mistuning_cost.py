"""What tuned values cost: against closed forms, and one number in every place that states it."""

import json
import math
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.calibrate import CheckedSweep, draw
from extrap.analyses.sweep.answer import transfer_answer
from extrap.analyses.sweep.cost_page import cost_blocks
from extrap.analyses.sweep.page import forecast_page
from extrap.fitting.run_costs import read_run_cost
from extrap.fitting.surface.draws import SurfaceDraws
from extrap.forecasting.mistuning_cost import cost
from extrap.records.codec import document
from tests.analyses.conftest import figures, plain, tables_of
from tests.checking.byhand import EVEN, LARGE, KnownDraws, by_hand, loss_at, of_rate, sweep

SWEEP = Path(__file__).parents[2] / "examples" / "sweep.csv"
FLOPS = 7 * 1024**2


@cache
def shipped():
    return extrap.forecast(extrap.read_runs(SWEEP, size="width", tune="lr"))


def square(table):
    return 7 * table["width"] ** 2


def priced(**changes):
    """The forecast by hand; a run costs seven times its width squared."""
    return by_hand(**{"runs": sweep(flops=square), **changes})


class ExactDraws(KnownDraws):
    """The optimum is known; the curvature has a standard deviation of its log."""

    curvature_sd = 0.0

    def at(self, log_size):
        there = super().at(log_size).median()
        log_curvature = there.log_curvature + self.curvature_sd * EVEN[:, None]
        shape = {
            name: np.repeat(getattr(there, name), len(EVEN), 0) for name in ("optimum", "law")
        }
        asymmetry = np.zeros((2, len(EVEN), 1))
        turns = np.zeros((len(EVEN), 0))
        return replace(
            there, log_curvature=log_curvature, asymmetry=asymmetry, turns=turns, **shape
        )


def exact(*, draws=ExactDraws, **changes):
    """The same where the best rate is known exactly."""
    known = of_rate()
    draws = draws(**{field.name: getattr(known, field.name) for field in fields(SurfaceDraws)})
    return priced(surface=draws, **changes)


@pytest.mark.parametrize("width", [512.0, 1024.0])
def test_keeping_the_small_widths_rate_costs_one_number_in_every_place(width):
    """The forecast's answer, `cost`, `check` and the page, on the default sweep."""
    made, at = shipped(), {"width": width}
    point = made.at(**at)
    (stated,), (carried,) = point.kept_smallest, point.transfer
    expected = math.expm1(stated.penalty), *map(math.expm1, stated.penalty_pi)
    small, large = cost(made, at=at).kept
    asked = cost(made, at=at, tuned={"lr": stated.kept}).chosen
    for each in (small, asked):
        assert (each.relative.value, *each.relative.ci) == pytest.approx(expected, rel=1e-12)
    assert math.expm1(carried.penalty) == pytest.approx(large.relative.value, rel=1e-12)
    (rule,) = (row for row in point.rules if row.rule == "constant")
    (row,) = made.frame_at_values([at], tuned={"lr": stated.kept}).to_dict("records")
    assert [rule.expected_regret, row["log_excess"]] == pytest.approx([stated.penalty] * 2)
    loss = 1.05 * math.exp(stated.penalty) * point.loss
    run = pd.DataFrame([{**at, "lr": stated.kept, "seed": 9, "loss": loss}])
    (verdict,) = extrap.check(made, run)
    assert verdict.evidence["expected_excess"] == pytest.approx(expected[0])
    answer, page = transfer_answer(made, point), forecast_page(made, at=[at])
    _, _, number, _, *interval = figures(answer)
    assert [number, *interval] == pytest.approx([100 * share for share in expected], rel=0.05)
    assert page.answer.text.endswith(answer)
    for blocks in (cost_blocks(cost(made, at=at)), page.blocks):
        rows = [row for table in tables_of(blocks).values() for row in table.rows]
        (costs,) = [row[1] for row in rows if plain(row[0]).endswith("best at width 16")]
        assert figures(costs) == [number, *interval]


def test_a_value_costs_what_the_parabola_and_the_power_laws_say():
    """Two octaves: .08 of log loss; the loss falls with the 1/20 power of the compute."""
    result = cost(exact(), at=LARGE, tuned={"lr": 0.01}, flops_per_second=1e6, price=3.0)
    at, chosen, hours = loss_at(1024), result.chosen, FLOPS / 1e6 / 3600
    assert result.loss == pytest.approx(at)
    assert dict(result.run) == pytest.approx(
        {"flops": FLOPS, "gpu_hours": hours, "money": 3 * hours}
    )
    assert (result.level, result.is_recommended, result.knows_compute) == (0.95, False, True)
    assert chosen.octaves["lr"] == pytest.approx(2)
    assert (chosen.relative.value, *chosen.relative.ci) == pytest.approx([math.expm1(0.08)] * 3)
    assert chosen.nats.value == pytest.approx(at * math.expm1(0.08))
    share = math.exp(-20 * 0.08)
    assert chosen.equivalent_compute.value == pytest.approx(share, rel=1e-6)
    for name, total in result.run.items():
        assert chosen.wasted[name].value == pytest.approx(total * (1 - share), rel=1e-6)
    log_excess = {e.factor: math.log1p(e.relative.value) for e in result.around}
    assert log_excess == pytest.approx({0.25: 0.08, 0.5: 0.02, 1: 0, 2: 0.02, 4: 0.08}, abs=1e-9)
    kept = [(e.kept_from["width"], e.octaves["lr"]) for e in result.kept]
    assert kept == [(16, pytest.approx(3)), (256, pytest.approx(1))]


def test_an_unknown_optimum_costs_the_mean_over_where_it_may_lie():
    """.02 σ² of the normal distribution, whose .9875 quantile is 2.2414."""
    result = cost(priced(), at=LARGE, tuned={"lr": 0.0025}, gpu_hours=5.0, price=2.0)
    sd = 0.26 / math.log(2)
    assert math.log1p(result.chosen.relative.value) == pytest.approx(0.02 * sd**2, rel=0.01)
    upper = math.log1p(result.chosen.relative.ci.upper)
    assert upper == pytest.approx(0.02 * (sd * 2.2414) ** 2, rel=0.02)  # of 2048 draws
    assert (result.run["gpu_hours"], result.run["money"]) == (5, 10)
    far = cost(exact(), at=LARGE, tuned={"lr": 0.0025 * 2**8}).chosen
    assert far.relative.value == pytest.approx(math.expm1(1.0))  # as of a diverged run
    assert (far.equivalent_compute.value, far.wasted["flops"].ci.upper) == (None, None)


def test_an_uncertain_curve_costs_its_mean_over_the_draws():
    """A lognormal factor of log standard deviation .3 on two octaves' .08."""

    class Uncertain(ExactDraws):
        curvature_sd = 0.3

    result = cost(exact(draws=Uncertain), at=LARGE, tuned={"lr": 0.01}).chosen
    mean = 0.08 * math.exp(0.3**2 / 2)
    assert math.log1p(result.relative.value) == pytest.approx(mean, rel=0.002)
    ends = [0.08 * math.exp(0.3 * z) for z in (-1.96, 1.96)]
    assert [math.log1p(side) for side in result.relative.ci] == pytest.approx(ends, rel=0.01)


@pytest.mark.parametrize(("octaves", "is_far"), [(1.99, False), (2.01, True), (-2.01, True)])
def test_values_beyond_those_of_the_sweep_are_flagged(octaves, is_far):
    flags = cost(exact(), at=LARGE, tuned={"lr": 0.0025 * 2**octaves}).flags
    assert any(flag.startswith("far-off: lr") for flag in flags) == is_far


@pytest.mark.parametrize(
    ("made", "options", "doubts"),
    [
        (by_hand, {}, ["cost-of-a-run-unknown"]),
        (by_hand, {"price": 2.0}, ["cost-of-a-run-unknown"]),
        (by_hand, {"gpu_hours": 5.0}, []),
        (priced, {"price": 2.0}, ["hours-unknown"]),
        (priced, {"price": 2.0, "gpu_hours": 5.0}, []),
    ],
)
def test_what_a_cost_does_not_know_is_flagged(made, options, doubts):
    result = cost(made(), at=LARGE, **options)
    names = [flag.partition(":")[0] for flag in result.flags]
    assert [name for name in names if name.endswith("unknown")] == doubts
    json.dumps(document(result), allow_nan=False)


@pytest.mark.parametrize(("power", "knows"), [(0.025, True), (0.022, False)])
def test_compute_is_a_share_where_it_grows_by_a_tenth(power, knows):
    """From width 16 or little more to 1024: a factor of about 62."""
    made = exact(runs=sweep(flops=lambda t: 1e9 * t["width"] ** power))
    result = cost(made, at=LARGE, tuned={"lr": 0.01})
    assert result.knows_compute == knows
    assert any(flag.startswith("cost-does-not-grow") for flag in result.flags) != knows
    assert ("compute" in cost_blocks(result)[0].text) == knows


def test_a_run_costs_what_the_table_says_and_beyond_it_the_last_slope():
    runs = sweep(flops=square, wall_s=lambda t: 36 * t["width"])
    found = read_run_cost(runs)
    assert (found.unit, found.source, found.flags) == ("FLOPs", "the column flops", ())
    sizes = (64.0, 100.0, 1024.0)
    assert [found.of({"width": w}) for w in sizes] == pytest.approx([7 * w**2 for w in sizes])
    hours = read_run_cost(runs, hours=True)
    assert (hours.unit, hours.of({"width": 1000.0})) == ("hours", pytest.approx(10))
    units = read_run_cost(runs, formula="width ** 2 + 1")
    assert (units.unit, units.of({"width": 100.0})) == ("units", 10001)
    bent = read_run_cost(sweep(flops=lambda t: 3 * t["width"] ** 2 + 500 * t["width"]))
    assert [flag.partition(":")[0] for flag in bent.flags] == ["cost-extrapolated"]
    slope = math.log(324608 / 113152) / math.log(2)
    assert bent.of({"width": 1024.0}) == pytest.approx(324608 * 4**slope)


def test_parameters_and_tokens_that_are_sizes_count_at_the_target_itself():
    sizes = {"n_params": [1e6, 2e6, 4e6], "n_tokens": [3e7, 5e7, 9e7]}
    frame = pd.DataFrame({**sizes, "loss": [3.0, 2.9, 2.8]})
    at = {"n_params": 1e9, "n_tokens": 2e10}
    of_formula = read_run_cost(extrap.read_runs(frame, size=list(sizes)))
    assert of_formula.of(at) == pytest.approx(1.2e20)
    frame = pd.DataFrame(
        [(n, d, 4 * n**1.05 * d, 3.0 - n / 1e7) for n in (1e6, 2e6, 4e6) for d in (1e7, 3e7)],
        columns=["n_params", "n_tokens", "flops", "loss"],
    )
    of_column = read_run_cost(extrap.read_runs(frame, size=list(sizes)))
    assert of_column.of(at) == pytest.approx(4 * 1e9**1.05 * 2e10)


@pytest.mark.slow
def test_the_interval_of_the_penalty_holds_the_true_one():
    """24 sweeps × 2 values at 90 %: a share below 80 % would be 2.3 standard errors off."""
    held = []
    for seed in range(24):
        sweep = CheckedSweep(draw(rng := np.random.default_rng([2000, seed])), rng)
        s = sweep.world.beyond(4)
        for octaves in (-1.0, 1.5):
            value = 2.0 ** (float(sweep.world.optimum(s)[0]) + octaves)
            made = replace(sweep.forecast, level=0.9)
            size = {"x": float(2.0 ** s[0, 0])}
            low, high = cost(made, at=size, tuned={"lr": value}).chosen.relative.ci
            true = math.expm1(sweep.world.excess(octaves))
            held.append((low or 0.0) <= true <= (high or math.inf))
    assert np.mean(held) >= 0.8
