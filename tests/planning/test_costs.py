"""What being wrong costs: nats, compute, hours, money, and their intervals."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.plans import simulated
from extrap.cli import main
from extrap.errors import DataError
from extrap.planning import Cost, cost, cost_document
from extrap.planning.run_costs import read_run_cost
from extrap.reporting.costs import cost_text
from tests.planning.test_next_runs import runs_of, valleys

SWEEP = Path(__file__).parents[2] / "examples" / "sweep.csv"
TARGET = {"width": 1024.0}


@cache
def shipped() -> extrap.Forecast:
    return extrap.forecast(extrap.read_runs(SWEEP, size="width", tune="lr"))


@cache
def wrong() -> Cost:
    return cost(shipped(), at=TARGET, tuned={"lr": 0.01}, flops_per_s=1e12, price=2.0)


def flops_of(width: float) -> float:
    return 768_000 * (2 * width**2 + 515 * width + 256)


def test_the_flops_of_a_larger_run_are_those_of_the_network() -> None:
    for width in (1024.0, 4096.0):
        found = cost(shipped(), at={"width": width})
        assert found.flops == pytest.approx(flops_of(width), rel=1e-6)
        assert not any("cost-extrapolated" in flag for flag in found.flags)


def test_costs_that_no_curve_fits_follow_the_largest_sizes_and_are_flagged() -> None:
    table = valleys(widths=(16, 32, 64, 128, 256))
    odd = {16: 5e9, 32: 1e9, 64: 4e9, 128: 8e9, 256: 16e9}
    made = extrap.forecast(runs_of(table.assign(flops=table["width"].map(odd))))
    found = cost(made, at=TARGET)
    assert found.flops == pytest.approx(64e9, rel=1e-6)
    assert any("cost-extrapolated" in flag for flag in found.flags)


def test_parameters_and_tokens_that_are_sizes_count_at_the_target_itself() -> None:
    frame = pd.DataFrame({"n_params": [1e6, 2e6, 4e6], "n_tokens": [3e7, 5e7, 9e7]})
    runs = extrap.read_runs(frame.assign(loss=[3.0, 2.9, 2.8]), size=["n_params", "n_tokens"])
    price = read_run_cost(runs)
    assert price.of({"n_params": 1e9, "n_tokens": 2e10}) == pytest.approx(1.2e20)


def test_a_value_far_off_lies_in_its_interval_and_is_flagged() -> None:
    for rate in (0.5, 1e-5):
        found = cost(shipped(), at=TARGET, tuned={"lr": rate})
        for measure in (found.chosen.relative, found.chosen.nats):
            assert measure.value in measure.ci
        assert any("far-off: lr" in flag for flag in found.flags)
    assert not any("far-off" in flag for flag in wrong().flags)


def test_compute_below_the_laws_reach_is_said_to_be() -> None:
    text = cost_text(cost(shipped(), at=TARGET, tuned={"lr": 1e-5}))
    assert "as well below the law's reach" in text


def test_hours_that_do_not_grow_with_size_tell_no_share_of_compute() -> None:
    table = valleys().drop(columns="flops")
    for hours in (3600.0 / table["width"], 3600.0):
        made = extrap.forecast(runs_of(table.assign(wall_s=hours)))
        found = cost(made, at=TARGET, tuned={"lr": 0.01})
        assert found.chosen.equivalent_compute.value is None
        assert found.chosen.wasted_gpu_hours.value is None
        assert any("cost-does-not-grow" in flag for flag in found.flags)
        assert "as well" not in cost_text(found)


def test_shares_of_compute_lie_between_nothing_and_all() -> None:
    for each in (*wrong().around, *wrong().kept):
        low, high = each.penalty.equivalent_compute.ci
        assert 0 <= (low or 0) <= (high or 0) <= 1
        assert (each.penalty.wasted_flops.ci.lower or 0) >= 0


def test_the_penalty_is_the_valleys_averaged_over_where_the_optimum_may_lie() -> None:
    known = shipped().recommend(**TARGET)
    assert known is not None
    found = cost(shipped(), at=TARGET)
    assert found.is_recommended
    assert found.chosen.tuned == known.tuned
    # the mean of 4,000 draws of a squared normal: its standard error is 2 %
    log_excess = math.log1p(found.chosen.relative.value or 0)
    assert log_excess == pytest.approx(known.expected_excess, rel=0.05)


def test_nats_are_the_relative_penalty_of_the_tuned_loss() -> None:
    found = wrong()
    assert found.chosen.nats.value == pytest.approx(
        found.loss * (found.chosen.relative.value or 0), rel=1e-9
    )


def test_intervals_hold_their_values_and_wasted_sides_mirror_the_compute() -> None:
    chosen = wrong().chosen
    for measure in (chosen.relative, chosen.nats, chosen.equivalent_compute, chosen.wasted_flops):
        assert measure.value in measure.ci
    share, wasted = chosen.equivalent_compute, chosen.wasted_flops
    flops = wrong().flops or 0
    assert wasted.value == pytest.approx(flops * (1 - (share.value or 0)))
    assert wasted.ci.lower == pytest.approx(flops * (1 - (share.ci.upper or 0)))


def test_a_tuned_run_of_the_equivalent_compute_reaches_the_same_loss() -> None:
    found = wrong()
    share = found.chosen.equivalent_compute.value or math.nan
    paid = share * flops_of(1024.0)  # 768,000 (2 w² + 515 w + 256), solved for w
    width = (math.sqrt(515**2 - 8 * (256 - paid / 768_000)) - 515) / 4
    smaller = shipped().at(width=width).loss or math.nan
    assert smaller == pytest.approx(found.loss + (found.chosen.nats.value or 0), rel=2e-3)


def test_hours_and_money_follow_from_the_speed_and_the_price() -> None:
    found = wrong()
    assert found.gpu_hours == pytest.approx((found.flops or 0) / 1e12 / 3600)
    assert found.money == pytest.approx(2.0 * (found.gpu_hours or 0))
    share = found.chosen.equivalent_compute.value or 0
    assert found.chosen.wasted_money.value == pytest.approx((found.money or 0) * (1 - share))


def test_hours_given_win_over_those_that_follow_from_flops() -> None:
    found = cost(shipped(), at=TARGET, gpu_hours=100.0, flops_per_s=1e12, price=3.0)
    assert found.gpu_hours == 100.0
    assert found.money == 300.0


def test_what_is_not_known_is_none_and_said() -> None:
    made = extrap.forecast(runs_of(valleys().drop(columns="flops")))
    found = cost(made, at=TARGET, price=2.0)
    assert found.flops is None
    assert found.money is None
    assert found.chosen.equivalent_compute.value is None
    assert any("cost-of-a-run-unknown" in flag for flag in found.flags)
    json.dumps(cost_document(found), allow_nan=False)


def test_kept_values_are_those_of_the_smallest_and_the_largest_swept_size() -> None:
    smallest, largest = wrong().kept
    assert smallest.kept_from == {"width": 16.0}
    assert largest.kept_from == {"width": 192.0}
    optima = [o.tuned["lr"].value for o in shipped().optima]
    assert smallest.penalty.tuned["lr"] == pytest.approx(optima[0])
    assert (smallest.penalty.relative.value or 0) > (largest.penalty.relative.value or 0)


def test_farther_off_costs_more_on_both_sides() -> None:
    by_factor = {e.factor: e.penalty.relative.value or 0 for e in wrong().around}
    assert by_factor[0.25] > by_factor[0.5] > by_factor[1.0]
    assert by_factor[4.0] > by_factor[2.0] > by_factor[1.0]


def test_the_same_seed_gives_the_same_interval_and_another_one_nearly() -> None:
    again = cost(shipped(), at=TARGET, tuned={"lr": 0.01}, flops_per_s=1e12, price=2.0)
    assert again == wrong()
    other = cost(shipped(), at=TARGET, tuned={"lr": 0.01}, seed=1)
    assert other.chosen.relative.ci.upper == pytest.approx(
        wrong().chosen.relative.ci.upper, rel=0.15
    )


def test_unknown_columns_and_impossible_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="tuned columns are lr"):
        cost(shipped(), at=TARGET, tuned={"beta": 0.9})
    with pytest.raises(ValueError, match="positive and finite"):
        cost(shipped(), at=TARGET, tuned={"lr": -1.0})
    with pytest.raises(ValueError, match="price must be positive"):
        cost(shipped(), at=TARGET, price=0.0)


def test_a_sweep_without_optima_cannot_price() -> None:
    made = extrap.forecast(runs_of(valleys(rates=range(2, 6))))
    with pytest.raises(DataError, match="extend the sweep"):
        cost(made, at=TARGET)


def test_the_text_and_the_command_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--size", "width", "--tune", "lr", "--at", "1024", "--set", "lr=0.01"]
    money = ["--flops-per-s", "1e12", "--price", "2"]
    assert main(["cost", str(SWEEP), *options, *money]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == cost_text(wrong()).strip()
    assert "money" in printed


@pytest.mark.slow
def test_the_interval_of_the_penalty_holds_the_true_one() -> None:
    """24 sweeps × 2 values at 90 %: a share below 80 % would be 2.3 standard errors off."""
    held = []
    for seed in range(24):
        bed = simulated(2000 + seed)
        assert bed.excess is not None
        made = bed.forecast(bed.cells)
        for octaves in (-1.0, 1.5):
            value = 2.0 ** (float(bed.log2_optima[0]) + octaves)
            low, high = cost(made, at=bed.at, tuned={"lr": value}).chosen.relative.ci
            true = math.expm1(bed.excess(np.array([math.log2(value)])))
            held.append((low or 0.0) <= true <= (high or math.inf))
    assert np.mean(held) >= 0.8
