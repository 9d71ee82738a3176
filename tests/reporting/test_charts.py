"""Charts: what is drawn is what the records hold."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from extrap.records import Interval
from extrap.reporting.charts import BAND, Axis, HeatChart, Row, RowsChart, Series, XYChart
from extrap.reporting.drawing import CHART_HEIGHT, COLOURS, chart_svg, draw_chart

from ..conftest import DRAW
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
    x="width",
    y="lr",
    xs=(1.0, 2.0),
    ys=(0.1, 0.2, 0.4),
    values=((1.0, 2.0), (3.0, math.nan), (5.0, 6.0)),
    label="loss",
)


def drawn(chart):
    """The axes of a chart, and the points of its lines and marks."""
    ax = Figure().add_subplot()
    draw_chart(ax, chart)
    seen = [line for line in ax.lines if line.get_linestyle() != "None"]
    lines = [tuple(xy) for line in seen for xy in line.get_xydata()]
    marks = [
        tuple(xy)
        for collection in ax.collections
        if isinstance(collection, PathCollection)
        for xy in collection.get_offsets()
    ]
    return ax, lines, marks


def segments(ax):
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    return [segment for each in bars for segment in each.get_segments()]


def test_a_drawing_has_every_mark():
    ax, lines, marks = drawn(XY)
    assert np.isclose(lines[:3], [(1, 3), (2, 2), (4, 1.5)]).all()
    assert np.isclose(marks, [(1, 3.1)]).all()  # a value that is not known has no mark
    assert np.isclose(segments(ax)[0], [(1, 3.0), (1, 3.2)]).all()
    assert np.isclose(segments(ax)[1], [(4, 1.0), (4, ax.get_ylim()[1])]).all()  # an open side
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["law", "runs"]
    ax, lines, marks = drawn(ROWS)
    left, right = ax.get_xlim()
    # an arrow where the interval goes on beyond the axis
    assert np.isclose(marks, [(0.02, 0), (right, 0), (left, 1)]).all()
    spans = [line.get_xydata() for line in ax.lines if line.get_linewidth() == 6]
    assert np.isclose(spans, [[(0.01, 0), (right, 0)], [(left, 1), (left, 1)]]).all()
    assert [text.get_text() for text in ax.texts] == ["\u00a0not known"]
    ax, *_ = drawn(HEAT)
    assert ax.collections[0].get_array().count() == 5  # the empty cell is left out


def test_many_names_leave_a_chart_its_height():
    """17 long names stand in 17 rows, above as much room as that of four."""

    def drawn_height(n):
        series = tuple(
            Series(x=(1.0, 2.0), y=(1.0, 2.0), label=f"digits-labels-wrong-{i}, width 64")
            for i in range(n)
        )
        svg = chart_svg(replace(XY, series=series), key="k")
        return int(re.search(r'viewBox="0 0 \d+ (\d+)"', svg)[1])

    assert drawn_height(2) == drawn_height(4) == CHART_HEIGHT
    assert drawn_height(17) >= CHART_HEIGHT + 13 * 13


def test_marks_over_cells_lie_in_their_cell():
    optimum = Series(x=(1.0, 2.0, 2.0), y=(0.1, math.sqrt(0.08), 0.9), marker="D")
    _, _, marks = drawn(replace(HEAT, series=(optimum,)))
    assert np.isclose(marks, [(0.5, 0.5), (1.5, 2.0)]).all()  # what lies beyond has no place


def test_a_band_is_filled_between_its_ends_as_given():
    x, y = (1.0, 2.0, 4.0), (3.0, 2.0, 1.5)
    lower, upper = (2.9, 1.7, math.nan), (3.2, 2.1, 1.9)
    band = Series(x=x, y=y, lower=lower, upper=upper, **BAND)
    ax, lines, _ = drawn(replace(XY, series=(band,)))
    (filled,) = ax.collections
    vertices = filled.get_paths()[0].vertices
    bottom = ax.get_ylim()[0]
    for i, ends in enumerate([(2.9, 3.2), (1.7, 2.1), (bottom, 1.9)]):
        here = vertices[np.isclose(vertices[:, 0], x[i]), 1]
        assert np.isclose([here.min(), here.max()], ends).all()
    assert np.isclose(lines[-3:], list(zip(x, y, strict=True))).all()


def test_a_hundred_thousand_points_are_one_image():
    n = 100_000
    numbers = tuple(float(i) for i in range(1, n + 1))
    many = XYChart(
        title="t", x=Axis("x"), y=Axis("y"), series=(Series(x=numbers, y=numbers, marker="o"),)
    )
    svg = DRAW(lambda ax: draw_chart(ax, many), 460, 330)
    assert svg.count("<image") == 1
    assert len(svg) < 200_000


def test_a_user_s_theme_does_not_change_a_page():
    plain = DRAW(lambda ax: draw_chart(ax, XY), 460, 330)
    with mpl.rc_context(), mpl.style.context(["dark_background", "classic"]):
        mpl.rcParams["font.family"] = "no such font"
        before = dict(mpl.rcParams)
        assert DRAW(lambda ax: draw_chart(ax, XY), 460, 330) == plain
        assert dict(mpl.rcParams) == before


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


def test_names_have_contrast_on_both_papers():
    """WCAG 2.1, 1.4.3: 4.5 to 1, on a light page and on a dark one."""

    def luminance(hue):
        parts = np.array(mpl.colors.to_rgb(hue))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    for mode in (0, 1):
        for name in ("ink", "muted", "law", "good", "warn", "bad"):
            pair = [luminance(COLOURS[each][mode]) for each in ("paper", name)]
            assert max(pair) / min(pair) >= 4.5, (name, mode)


def test_charts_without_a_finite_value_are_drawn_empty():
    empty = XYChart(title="t", x=Axis("x"), y=Axis("y"), series=())
    axes = Figure().add_subplot()
    draw_chart(axes, empty)
    assert not axes.lines
