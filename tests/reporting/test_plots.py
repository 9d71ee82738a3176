import io
from dataclasses import replace

import pytest
from matplotlib import pyplot as plt

import extrap
from extrap.errors import DataError
from extrap.reporting.charts import Axis, XYChart
from extrap.reporting.drawing import chart_svg
from tests.reporting.hostile import PAYLOADS


@pytest.fixture(scope="module")
def fc():
    return extrap.forecast(extrap.read_runs("examples/sweep.csv", size="width", tune="lr"))


@pytest.fixture(scope="module")
def verdicts(fc):
    return extrap.check(fc, extrap.read_runs("examples/big.csv", size="width", tune="lr"))


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


def test_marks_of_the_chart_are_drawn(fc, verdicts):
    ax = extrap.plot_law(fc, verdicts)
    curve = max((line.get_xydata() for line in ax.get_lines()), key=len)
    x, loss = curve[20]
    assert fc.at(width=x).loss == pytest.approx(loss)
    drawn = {tuple(xy) for line in ax.get_lines() for xy in line.get_xydata()}
    assert {(o.size["width"], o.loss) for o in fc.optima} <= drawn
    assert {(v.size["width"], v.loss) for v in verdicts} <= drawn
    curve = max((x.get_xydata() for x in extrap.plot_optimum(fc).get_lines()), key=len)
    assert fc.at(width=curve[20][0]).tuned["lr"].value == pytest.approx(curve[20][1])
    without = extrap.plot_law(fc, fixed=False)
    assert [("kept" in [t.get_text() for t in each.texts]) for each in (ax, without)] == [
        True,
        False,
    ]


@pytest.mark.usefixtures("pictures")
def test_no_setting_of_matplotlib_changes(fc):
    with plt.rc_context({"font.size": 7.25, "svg.fonttype": "path"}):
        before = dict(plt.rcParams)
        extrap.plot_law(fc)
        chart_svg(XYChart(title="t", x=Axis("x"), y=Axis("y"), series=()), key="k")
        assert dict(plt.rcParams) == before


def test_a_backtest_is_drawn(fc):
    found = extrap.backtest(fc.runs)
    ax = extrap.plot_backtest(found)
    heights = {round(float(y), 9) for line in ax.get_lines() for y in line.get_ydata()}
    assert {round(h.deviation, 9) for h in found.holdouts} <= heights
    with pytest.raises(DataError, match="none could be made"):
        extrap.plot_backtest(replace(found, holdouts=()))


@pytest.mark.parametrize("payload", [PAYLOADS["mathtext"], "a_b$x$"])
def test_names_are_not_read_as_mathematics(fc, payload):
    frame = fc.runs.to_frame().rename(columns={"width": payload, "lr": "$"})
    odd = extrap.forecast(extrap.read_runs(frame, size=payload, tune="$"))
    for ax in (extrap.plot_law(odd), extrap.plot_sweep(odd), extrap.plot_optimum(odd)):
        assert rendered(ax.figure)
    assert payload in extrap.plot_law(odd).get_xlabel()


def test_what_cannot_be_drawn_is_said(fc):
    with pytest.raises(ValueError, match="got 'wd'"):
        extrap.plot_optimum(fc, "wd")
    with pytest.raises(ValueError, match="got 'time'"):
        extrap.plot_sweep(fc, against="time")
    frame = fc.runs.to_frame().groupby("width", as_index=False)["loss"].min()
    untuned = extrap.forecast(extrap.read_runs(frame, size="width"))
    with pytest.raises(ValueError, match="has none"):
        extrap.plot_optimum(untuned)
    with pytest.raises(ValueError, match="nothing was tuned"):
        extrap.plot_sweep(untuned)
    assert extrap.plot_sweep(untuned, against="size").get_xlabel() == "width"
