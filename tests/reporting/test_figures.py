"""Pictures are tested by the numbers they draw, and by what their SVG must not hold."""

import math

import numpy as np
import pytest

from extrap.fitting.optimum import GRID_FLOOR
from extrap.forecasting import forecast
from extrap.reporting import figures as drawing
from extrap.reporting.figures.local import parabola_vertex
from extrap.reporting.groups import group_at_forecast, group_near, group_verdicts
from extrap.reporting.sizes import size_axis

from .conftest import RATES, WIDTHS, as_runs, sweep_frame, true_loss, true_optimum


@pytest.fixture(scope="module")
def groups(judge):
    return group_verdicts(judge())


@pytest.fixture(scope="module")
def axis(made, groups):
    return size_axis(made, [g.size for g in groups])


def test_replicates_form_groups_with_their_mean(made, groups, axis):
    assert [len(g.verdicts) for g in groups] == [2] * 7
    losses = [true_loss(512, groups[0].tuned["lr"], seed) for seed in (0, 1)]
    assert groups[0].mean_loss == pytest.approx(np.mean(losses))
    seen = abs(losses[0] - losses[1]) / 2  # of two
    assert groups[0].loss_se(None) == pytest.approx(seen)
    assert groups[0].loss_se(0.1) == pytest.approx(0.1 * np.mean(losses) / 2**0.5)
    group = group_at_forecast(made, groups, {"width": 1024.0})  # within half an octave
    assert group.tuned["lr"] == pytest.approx(true_optimum(1024))
    assert group_near(groups, {"width": 1024.0}, {"lr": 1.0}) is None
    assert (axis.low, axis.tuned_high, axis.high) == (16, 256, 1024)


def test_fixed_law_is_that_of_the_smallest_sizes_and_foreseen_to_fail(made, axis):
    fixed = drawing.fixed_law_info(made, axis)
    assert fixed.tuned == {"lr": 2**-6}  # the value of the grid nearest their optimum
    assert list(fixed.points["x"]) == list(WIDTHS)
    assert list(fixed.points["fitted"]) == [True, True, True, False, False]
    assert fixed.fit.n_points == 3
    truth = true_loss(1024, 2**-6)
    assert fixed.line["loss"].iloc[-1] < 0.9 * truth
    last = fixed.expected.iloc[-1]
    assert last["loss"] == pytest.approx(truth, rel=0.05)
    found = made.frame_at_values([{"width": 1024.0}], tuned={"lr": 2**-6}).iloc[0]
    assert (last["x"], last["loss"]) == (1024, pytest.approx(found["loss"]))
    assert (last["lower"], last["upper"]) == (found["loss_pi_lower"], found["loss_pi_upper"])
    no_optimum = forecast(as_runs(sweep_frame(rates=RATES[:3])))
    assert drawing.fixed_law_info(no_optimum, size_axis(no_optimum)).expected.empty
    few = forecast(as_runs(sweep_frame(widths=(16, 64, 256))))
    assert drawing.fixed_law_info(few, size_axis(few)) is None


def test_trend_holds_known_rules_along_the_axis(made, groups, axis):
    rules = drawing.optimum_trend_info(made, groups, axis, "lr").rules
    assert set(rules["rule"]) == {"constant", "inverse_width", "inverse_root_width"}
    half = rules[rules["rule"] == "inverse_root_width"].set_index("x")["value"]
    assert {axis.low, axis.high} <= set(half.index)
    assert half[axis.high] == pytest.approx(half[axis.low] / 8)
    assert half[axis.low] == pytest.approx(made.optima[0].tuned["lr"].value)


def test_local_sweep_measures_the_distance_of_the_best_from_the_forecast(made, groups):
    info, largest = drawing.local_sweeps_info(made, groups)
    assert largest.size == {"width": 1024}
    assert not largest.valley.empty
    truth = math.log2(true_optimum(512) / made.at(width=512).tuned["lr"].value)
    assert info.size == {"width": 512}
    assert info.octaves == pytest.approx(truth, abs=0.15)
    assert info.octaves_se >= GRID_FLOOR * 0.5  # rates half an octave apart
    assert parabola_vertex([-1, 0, 1], [1.25, 0.25, 0.25 + 1e-9]) == pytest.approx(0.5)
    assert parabola_vertex([-1, 0, 1], [0.1, 0.2, 0.4]) is None
