"""Charts: what is drawn is what the records hold."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from extrap.records import Interval
from extrap.reporting.charts import Axis, HeatChart, Row, RowsChart, Series, XYChart
from extrap.reporting.drawing import _spread, chart_svg, draw_chart

from .hostile import PAYLOADS

LINE = Series(label="law", x=(1.0, 2.0, 4.0), y=(3.0, 2.0, 1.5), line="-")
POINTS = Series(
    label="runs",
    x=(1.0, 4.0),
    y=(3.1, math.nan),
    lower=(3.0, 1.0),
    upper=(3.2, math.nan),
    marker="o",
)
XY = XYChart(title="A chart", x=Axis("width"), y=Axis("loss"), series=(LINE, POINTS))
ROWS = RowsChart(
    title="Rows",
    axis=Axis("effect", is_log=False, is_percent=True),
    rows=(
        Row(label="a", value=0.02, interval=Interval(0.01, 0.03)),
        Row(label="b", value=None, interval=Interval(None, -0.01)),
        Row(label="c", value=None),
    ),
    reference=0.0,
)
HEAT = HeatChart(
    title="Heat",
    x=Axis("width"),
    y=Axis("lr"),
    xs=(1.0, 2.0),
    ys=(0.1, 0.2, 0.4),
    values=((1.0, 2.0), (3.0, math.nan), (5.0, 6.0)),
    label="loss",
)


def test_a_drawing_has_every_mark():
    def drawn(chart):
        ax = Figure().add_subplot()
        draw_chart(ax, chart)
        return ax, {tuple(xy) for line in ax.lines for xy in line.get_xydata()}

    ax, found = drawn(XY)
    assert {(1, 3), (2, 2), (4, 1.5), (1, 3.1)} <= found
    (bars,) = ax.collections
    (first, second) = ([tuple(end) for end in segment] for segment in bars.get_segments())
    assert first == [(1, 3.0), (1, 3.2)]
    assert second == [(4, 1.0), (4, ax.get_ylim()[1])]  # an open side
    ax, found = drawn(ROWS)
    assert (0.02, 0) in found
    left, right = ax.get_xlim()
    first, second = (bar.get_segments()[0] for bar in ax.collections)
    assert [x for x, _ in first] == [0.01, right]  # the interval goes on beyond the axis
    assert [x for x, _ in second] == [left, -0.01]
    assert [text.get_text() for text in ax.texts] == ["\u00a0not known"]
    ax, _ = drawn(HEAT)
    assert ax.collections[0].get_array().count() == 5  # the empty cell is left out


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_names_do_not_break_a_drawing(payload):
    odd = XYChart(
        title=payload,
        x=Axis(payload),
        y=Axis(payload),
        series=(Series(label=payload, x=(1.0, 2.0), y=(1.0, 2.0), marker="o", line="-"),),
    )
    root = ElementTree.fromstring(chart_svg(odd, key="k"))
    tags = "svg g path text defs use clipPath rect circle title tspan"
    assert {e.tag for e in root.iter()} <= set(tags.split())


@given(st.lists(st.floats(-1, 2), max_size=12), st.floats(0.01, 0.08))
def test_labels_at_the_edge_keep_their_distance_and_stay_inside(heights, gap):
    placed = _spread([(h, str(i), "law") for i, h in enumerate(heights)], gap)
    found = [h for h, _, _ in placed]
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(found))
    assert all(h <= 1.0 for h in found)


def test_charts_without_a_finite_value_are_drawn_empty():
    empty = XYChart(title="t", x=Axis("x"), y=Axis("y"), series=())
    axes = Figure().add_subplot()
    draw_chart(axes, empty)
    assert not axes.lines
