import io
from dataclasses import replace

import pytest
from matplotlib import pyplot as plt

import extrap
from extrap.errors import DataError
from extrap.reporting.charts import Axis, XYChart
from extrap.reporting.drawing import chart_svg
from extrap.reporting.forecast_charts import loss_chart, optimum_chart
from extrap.reporting.judged_groups import group_verdicts
from extrap.reporting.sizes import size_axis
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


def test_marks_of_the_chart_are_drawn(made, judge):
    def drawn(ax):
        return {tuple(xy) for line in ax.get_lines() for xy in line.get_xydata()}

    verdicts = judge()
    ax, axis = extrap.plot_law(made, verdicts), size_axis(made, [{"width": 1024.0}])
    charts = (
        (ax, loss_chart(made, group_verdicts(verdicts), axis)),
        (extrap.plot_optimum(made), optimum_chart(made, (), size_axis(made), "lr")),
    )
    for axes, chart in charts:
        assert {xy for s in chart.series for xy in zip(s.x, s.y, strict=True)} <= drawn(axes)
    names = [
        [t.get_text() for t in each.texts] for each in (ax, extrap.plot_law(made, fixed=False))
    ]
    assert ["kept" in each for each in names] == [True, False]


@pytest.mark.usefixtures("pictures")
def test_no_setting_of_matplotlib_changes(made):
    with plt.rc_context({"font.size": 7.25, "svg.fonttype": "path"}):
        before = dict(plt.rcParams)
        extrap.plot_law(made)
        chart_svg(XYChart(title="t", x=Axis("x"), y=Axis("y"), series=()), key="k")
        assert dict(plt.rcParams) == before


def test_a_backtest_is_drawn(made):
    found = extrap.backtest(made.runs)
    ax = extrap.plot_backtest(found)
    heights = {round(float(y), 9) for line in ax.get_lines() for y in line.get_ydata()}
    assert {round(h.deviation, 9) for h in found.holdouts} <= heights
    with pytest.raises(DataError, match="none could be made"):
        extrap.plot_backtest(replace(found, holdouts=()))


@pytest.mark.parametrize("payload", [PAYLOADS["mathtext"], "a_b$x$"])
def test_names_are_not_read_as_mathematics(made, payload):
    frame = made.runs.to_frame().rename(columns={"width": payload, "lr": "$"})
    odd = extrap.forecast(extrap.read_runs(frame, size=payload, tune="$"))
    for ax in (extrap.plot_law(odd), extrap.plot_sweep(odd), extrap.plot_optimum(odd)):
        assert rendered(ax.figure)
    assert payload in extrap.plot_law(odd).get_xlabel()


def test_what_cannot_be_drawn_is_said(made):
    with pytest.raises(ValueError, match="got 'wd'"):
        extrap.plot_optimum(made, "wd")
    with pytest.raises(ValueError, match="got 'time'"):
        extrap.plot_sweep(made, against="time")
    frame = made.runs.to_frame().groupby("width", as_index=False)["loss"].min()
    untuned = extrap.forecast(extrap.read_runs(frame, size="width"))
    with pytest.raises(ValueError, match="has none"):
        extrap.plot_optimum(untuned)
    with pytest.raises(ValueError, match="nothing was tuned"):
        extrap.plot_sweep(untuned)
    assert extrap.plot_sweep(untuned, against="size").get_xlabel() == "width"
