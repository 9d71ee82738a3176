"""What the pictures of a batch study show, as numbers."""

from dataclasses import replace

import numpy as np
import pytest

from extrap.reporting import figures as drawing


def test_steps_of_a_size_have_points_curves_bounds_and_held_out_batches(one_task):
    result = one_task[1][0].result
    info = drawing.batch_steps_info(result, {"width": 64.0})
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
    group = result.critical.groups[0]
    first = replace(group.points[0], values=(), bounds=(20000.0,))
    groups = (replace(group, points=(first, *group.points[1:])), *result.critical.groups[1:])
    censored = replace(result, critical=replace(result.critical, groups=groups))
    info = drawing.batch_steps_info(censored, {"width": 16.0})
    assert info.bounds.to_dict("records") == [{"target": 2.2, "x": 8, "steps": 20000.0}]
    assert drawing.batch_steps_info(result, {"width": 7.0}) is None
    assert drawing.measured_front_info(result, {"width": 7.0}) is None


def test_fronts_bend_at_twice_both_limits_and_have_what_was_counted(one_task):
    (found,) = one_task[1]
    sweep = drawing.measured_front_info(found.result, {"width": 128.0})
    corner = sweep.corners.iloc[0]
    curve = sweep.curve[sweep.curve["target"] == corner["target"]]
    near = curve.iloc[int((curve["batch"] - corner["b_crit"]).abs().argmin())]
    assert near["steps"] == pytest.approx(2 * corner["s_min"], rel=0.1)
    assert near["steps"] * near["batch"] == pytest.approx(2 * corner["e_min"], rel=0.1)
    assert not sweep.is_forecast
    info = drawing.forecast_front_info(found.front, found.checked, level=0.95)
    assert (info.size, info.is_forecast, len(info.points)) == ({"width": 256.0}, True, 12)
    assert drawing.forecast_front_info(found.front, None, level=0.95).points.empty
    assert len(info.curve) == len(found.front.table)
    assert info.corners["b_crit"].between(30, 400).all()
    width = np.log(info.curve["upper"] / info.curve["lower"])
    assert width.mean() > np.log(sweep.curve["upper"] / sweep.curve["lower"]).mean()
