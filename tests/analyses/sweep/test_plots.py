import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection

import extrap
from extrap.analyses.sweep.charts import loss_chart, optimum_chart
from extrap.analyses.sweep.sizes import size_axis
from extrap.errors import DataError
from extrap.reporting.charts import Axis, XYChart
from extrap.reporting.drawing import chart_svg
from tests.reporting.hostile import PAYLOADS


@pytest.fixture(autouse=True)
def _no_window():
    """Figures are drawn in memory and closed after each test."""
    before = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def rendered(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


def points_of(ax):
    """Points of the lines and marks of axes."""
    lines = [line.get_xydata() for line in ax.get_lines()]
    marks = [c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)]
    return np.vstack([*lines, *marks])


def test_marks_of_the_charts_are_drawn(made):
    best, loss = made.plot().axes
    charts = (
        (best, optimum_chart(made, (), size_axis(made), "lr")),
        (loss, loss_chart(made, (), size_axis(made))),
    )
    for ax, chart in charts:
        points = points_of(ax)
        for xy in (xy for s in chart.series for xy in zip(s.x, s.y, strict=True)):
            assert np.isclose(points, xy).all(axis=1).any()
    assert "kept" in [text.get_text() for text in loss.get_legend().get_texts()]


def test_a_new_figure_has_room_for_its_legends_and_labels(made):
    for figure in (made.plot(), extrap.plot_backtest(extrap.backtest(made.runs)).figure):
        figure.draw_without_rendering()
        for ax in figure.axes:
            box = ax.get_tightbbox()
            assert figure.bbox.padded(1).contains(box.x0, box.y0)
            assert figure.bbox.padded(1).contains(box.x1, box.y1)
            assert ax.get_title() == ""
            assert ax.get_legend().get_window_extent().y0 >= ax.bbox.y1 - 1


def test_a_forecast_is_drawn_on_axes_of_one_s_own(made):
    with plt.style.context("dark_background"):
        figure, axes = plt.subplots(2, 1)
        assert made.plot(ax=axes) is figure
        assert axes[0].get_facecolor() == (0, 0, 0, 1)
        assert [ax.get_ylabel() for ax in axes] == ["best lr", "loss"]
        _, alone = plt.subplots()
        made.plot(ax=alone)
        assert alone.get_ylabel() == "loss"
        _, three = plt.subplots(3, 1)
        with pytest.raises(ValueError, match="or 2 of them, got 3"):
            made.plot(ax=three)


@pytest.mark.usefixtures("pictures")
def test_no_setting_of_matplotlib_changes(made):
    with plt.rc_context({"font.size": 7.25, "svg.fonttype": "path"}):
        before = dict(plt.rcParams)
        made.plot()
        chart_svg(XYChart(title="t", x=Axis("x"), y=Axis("y"), series=()), key="k")
        assert dict(plt.rcParams) == before


def test_a_backtest_is_drawn(made):
    found = extrap.backtest(made.runs)
    ax = extrap.plot_backtest(found)
    heights = points_of(ax)[:, 1]
    assert all(np.isclose(heights, h.deviation).any() for h in found.holdouts)
    with pytest.raises(DataError, match="none could be made"):
        extrap.plot_backtest(replace(found, holdouts=()))


@pytest.mark.parametrize("payload", [PAYLOADS["mathtext"], "a_b$x$"])
def test_names_are_not_read_as_mathematics(made, payload):
    frame = made.runs.to_frame().rename(columns={"width": payload, "lr": "$"})
    figure = extrap.forecast(extrap.read_runs(frame, size=payload, tune="$")).plot()
    assert rendered(figure)
    assert all(payload in ax.get_xlabel() for ax in figure.axes)


def test_without_tuned_values_the_loss_alone_is_drawn(made):
    frame = made.runs.to_frame().groupby("width", as_index=False)["loss"].min()
    (ax,) = extrap.forecast(extrap.read_runs(frame, size="width")).plot().axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "loss")
