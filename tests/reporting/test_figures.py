"""Pictures are tested by the numbers they draw, and by what their SVG must not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from extrap.fitting.optimum import GRID_FLOOR
from extrap.forecasting import forecast
from extrap.reporting.figures import (
    draw_loss_by_tuned,
    draw_optimum_trend,
    draw_svg,
    fixed_law_info,
    law_story_info,
    local_sweeps_info,
    optimum_trend_info,
    sweep_info,
)
from extrap.reporting.figures.local import parabola_vertex
from extrap.reporting.figures.scales import tick_values
from extrap.reporting.figures.trend import spread_labels
from extrap.reporting.groups import group_at_forecast, group_near, group_verdicts
from extrap.reporting.sizes import size_axis

from .conftest import RATES, WIDTHS, as_runs, sweep_frame, true_loss, true_optimum


@pytest.fixture(scope="module")
def groups(judge):
    return group_verdicts(judge())


@pytest.fixture(scope="module")
def axis(made, groups):
    return size_axis(made, [g.size for g in groups])


def test_replicates_form_groups_with_their_mean(groups):
    assert [len(g.verdicts) for g in groups] == [2] * 7
    losses = [true_loss(512, groups[0].tuned["lr"], seed) for seed in (0, 1)]
    assert groups[0].mean_loss == pytest.approx(np.mean(losses))


def test_runs_at_the_forecast_are_found_within_half_an_octave(made, groups):
    group = group_at_forecast(made, groups, {"width": 1024.0})
    assert group.tuned["lr"] == pytest.approx(true_optimum(1024))
    assert group_near(groups, {"width": 1024.0}, {"lr": 1.0}) is None


def test_story_reaches_from_the_smallest_tuned_to_the_largest_judged_size(axis):
    assert (axis.low, axis.tuned_high, axis.high) == (16, 256, 1024)


def test_fixed_law_uses_the_smallest_sizes_at_the_grid_value_nearest_their_optimum(made, axis):
    fixed = fixed_law_info(made, axis)
    assert fixed.tuned == {"lr": 2**-6}
    assert list(fixed.points["x"]) == list(WIDTHS)
    assert list(fixed.points["fitted"]) == [True, True, True, False, False]
    assert fixed.fit.n_points == 3


def test_expected_loss_at_the_fixed_value_foresees_that_its_law_fails(made, axis):
    fixed = fixed_law_info(made, axis)
    expected, promised = fixed.expected["loss"].iloc[-1], fixed.line["loss"].iloc[-1]
    truth = true_loss(1024, 2**-6)
    assert promised < 0.9 * truth
    assert expected == pytest.approx(truth, rel=0.05)


def test_expected_loss_at_the_fixed_value_comes_with_its_interval(made, axis):
    expected = fixed_law_info(made, axis).expected
    found = made.frame_at_values([{"width": 1024.0}], tuned={"lr": 2**-6}).iloc[0]
    last = expected.iloc[-1]
    assert last["x"] == 1024
    assert last["loss"] == pytest.approx(found["loss"])
    assert (last["lower"], last["upper"]) == (found["loss_pi_lower"], found["loss_pi_upper"])


def test_expected_loss_is_left_out_where_no_optimum_is_known():
    made = forecast(as_runs(sweep_frame(rates=RATES[:3])))
    assert fixed_law_info(made, size_axis(made)).expected.empty


def test_fixed_law_is_left_out_with_too_few_small_sizes():
    made = forecast(as_runs(sweep_frame(widths=(16, 64, 256))))
    assert fixed_law_info(made, size_axis(made)) is None


def test_story_curve_is_the_forecast(made, groups, axis):
    info = law_story_info(made, groups, axis, None)
    last = info.curve.iloc[-1]
    assert last["loss"] == pytest.approx(made.at(width=1024).loss)
    assert last["loss_pi_lower"] <= last["loss_ci_lower"] < last["loss"]
    assert set(info.judged["kind"]) == {"on", "mistuned"}


def test_sweep_cells_are_means_over_seeds(made, axis):
    info = sweep_info(made, axis, "lr")
    assert len(info.runs) == 2 * len(info.cells) == 2 * len(WIDTHS) * len(RATES)
    first = info.cells.iloc[0]
    losses = [true_loss(16, RATES[0], seed) for seed in (0, 1)]
    assert first["loss"] == pytest.approx(np.mean(losses))


def test_many_different_tuned_values_are_binned():
    rates = tuple(2 ** float(u) for u in np.linspace(-10, -4, 90))
    made = forecast(as_runs(sweep_frame(rates=rates, seeds=1)))
    info = sweep_info(made, size_axis(made), "lr")
    assert info.cells["v"].nunique() == 24
    assert "90 values of lr in 24 bins" in info.note


def test_trend_marks_the_best_of_a_larger_sweep(made, groups, axis):
    info = optimum_trend_info(made, groups, axis, "lr")
    best = info.judged[info.judged["best"]]
    assert list(best["x"]) == [512]
    assert best["value"].iloc[0] == pytest.approx(true_optimum(512))


def test_trend_holds_known_rules_along_the_axis(made, groups, axis):
    rules = optimum_trend_info(made, groups, axis, "lr").rules
    assert set(rules["rule"]) == {"constant", "inverse_width", "inverse_root_width"}
    half = rules[rules["rule"] == "inverse_root_width"].set_index("x")["value"]
    assert {axis.low, axis.high} <= set(half.index)
    assert half[axis.high] == pytest.approx(half[axis.low] / 8)
    assert half[axis.low] == pytest.approx(made.optima[0].tuned["lr"].value)


def test_rules_are_named_in_the_picture_and_where_they_leave_it(made, groups, axis):
    info = optimum_trend_info(made, groups, axis, "lr")
    svg = draw_svg(
        lambda ax: draw_optimum_trend(ax, info), width=480, height=360, key="k", label="l"
    )
    assert ">constant (muP)<" in svg
    assert ">1/√width<" in svg
    assert ">1/width ↓<" in svg


def test_labels_are_spread_in_order_and_stay_inside():
    found = spread_labels({"a": 0.5, "b": 0.51, "c": -3.0, "d": 2.0, "e": 1.0}, gap=0.1)
    assert sorted(found, key=lambda name: found[name]) == ["c", "a", "b", "e", "d"]
    heights = sorted(found.values())
    assert heights[0] >= 0
    assert heights[-1] <= 1
    assert np.diff(heights).min() >= 0.1 - 1e-9


def test_local_sweep_measures_the_distance_of_the_best_from_the_forecast(made, groups):
    info, largest = local_sweeps_info(made, groups)
    assert largest.size == {"width": 1024}
    assert not largest.valley.empty
    truth = math.log2(true_optimum(512) / made.at(width=512).tuned["lr"].value)
    assert info.size == {"width": 512}
    assert info.octaves == pytest.approx(truth, abs=0.15)
    assert info.octaves_se >= GRID_FLOOR * 0.5  # rates half an octave apart


def test_parabola_has_no_vertex_when_the_best_is_at_an_end():
    assert parabola_vertex([-1, 0, 1], [1.25, 0.25, 0.25 + 1e-9]) == pytest.approx(0.5)
    assert parabola_vertex([-1, 0, 1], [0.1, 0.2, 0.4]) is None


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (16, 1024, [16, 32, 64, 128, 256, 512, 1024]),
        (0.001, 0.02, [0.001, 0.002, 0.005, 0.01, 0.02]),
        (1.6, 2.2, [1.6, 1.8, 2.0, 2.2]),
        (1e6, 1e10, [1e6, 1e7, 1e8, 1e9, 1e10]),
    ],
)
def test_ticks_are_round_numbers(low, high, ticks):
    found = tick_values(low * 0.999, high * 1.001, most=7)
    assert set(np.round(ticks, 9)) <= set(np.round(found, 9))
    assert len(found) <= 9


def test_svg_takes_its_colours_from_the_page_and_names_nothing_outside(made, axis):
    info = sweep_info(made, axis, "lr")
    svg = draw_svg(
        lambda ax: draw_loss_by_tuned(ax, info), width=480, height=360, key="k", label="<b>"
    )
    assert "#fe0" not in svg
    assert "var(--ink)" in svg
    assert "://" not in svg
    assert "<style" not in svg
    assert 'aria-label="&lt;b&gt;"' in svg
