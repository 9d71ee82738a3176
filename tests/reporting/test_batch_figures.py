"""What the pictures of a batch study show, as numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.batching import BatchFindings
from extrap.records import BatchStudy
from extrap.reporting.batch_plates import course_plate
from extrap.reporting.figures import (
    batch_rates_info,
    batch_steps_info,
    draw_batch_front,
    draw_batch_steps,
    draw_noise_by_loss,
    draw_noise_course,
    draw_noise_pairs,
    draw_rate_rules,
    draw_svg,
    forecast_front_info,
    measured_front_info,
    noise_courses_info,
    noise_pairs_info,
)

Study = tuple[BatchStudy, tuple[BatchFindings, ...]]


def drawn(draw, info) -> str:
    return draw_svg(lambda ax: draw(ax, info), width=480, height=360, key="k", label="x")


def test_steps_of_a_size_have_points_curves_and_held_out_batches(one_task: Study) -> None:
    info = batch_steps_info(one_task[1][0].result, {"width": 64.0})
    assert info is not None
    assert info.targets == (2.5, 2.2)
    assert sorted(info.points["x"].unique()) == [8, 32, 128, 512, 2048]
    assert list(info.held["x"]) == [64, 64]
    assert (info.points["lower"] <= info.points["steps"]).all()
    assert (info.points["upper"] >= info.points["steps"]).all()
    for _, curve in info.curve.groupby("target"):
        assert (np.diff(curve["steps"]) < 0).all()
        assert (curve["lower"] <= curve["steps"]).all()
    perfect, maximal = info.regimes
    assert maximal == pytest.approx(20 * perfect)  # B_crit / 5 and 4 B_crit
    svg = drawn(draw_batch_steps, info)
    for words in ("diminishing", "perfect", "maximal", "loss 2.2"):
        assert words in svg


def test_size_without_a_hyperbola_has_no_picture(one_task: Study) -> None:
    result = one_task[1][0].result
    assert batch_steps_info(result, {"width": 7.0}) is None
    assert measured_front_info(result, {"width": 7.0}) is None


def test_censored_batches_are_bounds_and_open_regimes_are_not_shaded(one_task: Study) -> None:
    result = one_task[1][0].result
    group = result.critical.groups[0]
    first = replace(group.points[0], values=(), bounds=(20000.0,))
    groups = (replace(group, points=(first, *group.points[1:])), *result.critical.groups[1:])
    info = batch_steps_info(
        replace(result, critical=replace(result.critical, groups=groups)), {"width": 16.0}
    )
    assert info is not None
    assert info.bounds.to_dict("records") == [{"target": 2.2, "x": 8, "steps": 20000.0}]
    assert "perfect" not in drawn(draw_batch_steps, replace(info, regimes=(None, 5.0)))


def test_front_bends_at_twice_both_limits(one_task: Study) -> None:
    (found,) = one_task[1]
    info = measured_front_info(found.result, {"width": 128.0})
    assert info is not None
    corner = info.corners.iloc[0]
    curve = info.curve[info.curve["target"] == corner["target"]]
    place = int((curve["batch"] - corner["b_crit"]).abs().argmin())
    near = curve.iloc[place]
    assert near["steps"] == pytest.approx(2 * corner["s_min"], rel=0.1)
    assert near["steps"] * near["batch"] == pytest.approx(2 * corner["e_min"], rel=0.1)
    assert "batch " in drawn(draw_batch_front, info)
    assert not info.is_forecast


def test_forecast_front_has_what_was_counted(one_task: Study) -> None:
    (found,) = one_task[1]
    info = forecast_front_info(found.front, found.checked, level=0.95)
    assert (info.size, info.is_forecast, len(info.points)) == ({"width": 256.0}, True, 12)
    waiting = forecast_front_info(found.front, None, level=0.95)
    assert waiting.points.empty
    drawn(draw_batch_front, waiting)
    assert len(info.curve) == len(found.front.table)
    assert info.corners["b_crit"].between(30, 400).all()
    blank = found.front.table.assign(lower=None, upper=None)
    open_ended = forecast_front_info(replace(found.front, table=blank), None, level=0.95)
    assert open_ended.curve["lower"].isna().all()
    drawn(draw_batch_front, open_ended)
    width = np.log(info.curve["upper"] / info.curve["lower"])
    sweep = measured_front_info(found.result, {"width": 128.0})
    assert width.mean() > np.log(sweep.curve["upper"] / sweep.curve["lower"]).mean()


def test_rates_are_those_each_law_was_fitted_to(one_task: Study) -> None:
    result = one_task[1][0].result
    info = batch_rates_info(result)
    assert info is not None
    assert [size["width"] for size in info.sizes] == [16, 32, 64, 128]
    for place, key in enumerate(sorted(result.rate_laws)):
        assert (info.points["size"] == place).sum() == result.rate_laws[key].n
    assert set(info.points["target"]) == {2.2}
    assert set(info.rules["name"]) == {"linear", "square-root", "constant", "saturating", "surge"}
    svg = drawn(draw_rate_rules, info)
    assert "linear ✗" in svg
    assert "square-root ✗" not in svg
    assert batch_rates_info(replace(result, rate_laws={})) is None


def test_noise_has_a_line_a_size_or_a_task(one_task: Study, two_tasks: Study) -> None:
    by_size = noise_courses_info(one_task[1])
    by_task = noise_courses_info(two_tasks[1])
    assert by_size is not None
    assert by_task is not None
    assert by_size.names == tuple(f"width\u00a0{w}" for w in (16, 32, 64, 128))
    assert by_task.names == ("easy", "hard")
    assert "hard" in drawn(draw_noise_course, by_task)
    (easy, hard) = two_tasks[1]
    nothing = easy.result.courses.assign(noise_scale=math.nan)
    silent = replace(easy, result=replace(easy.result, courses=nothing))
    plate = course_plate([silent, hard])
    assert plate is not None
    assert "No window tells it from infinite: easy." in plate.text
    assert course_plate([silent]) is None
    assert "training goes right" in drawn(draw_noise_by_loss, by_size)
    gap = by_size.windows.assign(noise_scale=by_size.windows["noise_scale"].mask(lambda v: v > 99))
    drawn(draw_noise_course, replace(by_size, windows=gap))


def test_pairs_without_a_number_are_not_drawn(two_tasks: Study) -> None:
    info = noise_pairs_info(two_tasks[1])
    assert info is not None
    assert (len(info.pairs), info.tasks) == (4, ("easy", "hard"))
    pairs = info.pairs.copy()
    pairs.loc[0, "noise_scale"] = math.nan
    pairs.loc[1, ["b_lower", "upper"]] = math.nan
    assert "a factor of 10" in drawn(draw_noise_pairs, replace(info, pairs=pairs))
    (easy, _) = two_tasks[1]
    nothing = pd.DataFrame()
    silent = replace(easy, result=replace(easy.result, noise=nothing, courses=nothing))
    assert noise_pairs_info([silent]) is None
    assert noise_courses_info([silent]) is None
