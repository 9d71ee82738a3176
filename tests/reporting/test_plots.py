import io
from dataclasses import replace

import pytest
from matplotlib import pyplot as plt

import extrap
from extrap.errors import DataError
from extrap.reporting.charts import Axis, XYChart
from extrap.reporting.drawing import chart_svg
from extrap.reporting.forecast_charts import loss_chart, optimum_chart
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


def test_marks_of_the_charts_are_drawn(made):
    def drawn(ax):
        return {tuple(xy) for line in ax.get_lines() for xy in line.get_xydata()}

    best, loss = made.plot().axes
    charts = (
        (best, optimum_chart(made, (), size_axis(made), "lr")),
        (loss, loss_chart(made, (), size_axis(made))),
    )
    for ax, chart in charts:
        assert {xy for s in chart.series for xy in zip(s.x, s.y, strict=True)} <= drawn(ax)
    assert "kept" in [text.get_text() for text in loss.texts]


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
    heights = {round(float(y), 9) for line in ax.get_lines() for y in line.get_ydata()}
    assert {round(h.deviation, 9) for h in found.holdouts} <= heights
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
