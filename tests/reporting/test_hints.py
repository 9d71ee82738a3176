"""Marks say what they stand for: names of the axes, values, intervals."""

from xml.etree import ElementTree

import pytest

from extrap.reporting.figures import draw_heat_map, draw_svg, sweep_info
from extrap.reporting.sizes import size_axis

pytestmark = pytest.mark.usefixtures("pictures")


def titles(draw, **size):
    svg = draw_svg(draw, key="k", label="l", **{"width": 480, "height": 360, **size})
    return [e.text for e in ElementTree.fromstring(svg).iter("title")]


def test_points_lines_and_bars_say_their_values():
    def draw(ax):
        ax.errorbar([1, 2], [3.0, 4.0], yerr=[0.5, 0.25], fmt="o", label="seen")
        ax.plot([1, 2], [3.1, 3.9], label="law")
        ax.fill_between([1, 1.5, 2], [2, 2.5, 3], [4, 4.5, 5], label="band")
        ax.scatter([1.5], [2e-5], label="tiny")
        ax.vlines([1.25], [2.0], [3.0], label="interval")
        ax.axvline(1.75)
        ax.set(xlabel="width", ylabel="loss")

    found = titles(draw)
    for mark, numbers in {
        "seen": "width 2, loss 4 (3.75 to 4.25)",
        "law": "width 1, loss 3.1",
        "band": "width 1.5, loss 2.5 to 4.5",
        "tiny": "width 1.5, loss 2e−5",
        "interval": "width 1.25, loss 2 to 3",
    }.items():
        assert f"{mark}: {numbers}" in found
    assert not any("1.75" in text for text in found)


def test_cells_of_the_heat_map_say_what_they_stand_for(made):
    info = sweep_info(made, size_axis(made), "lr")
    found = titles(lambda ax: draw_heat_map(ax, info))
    row = info.cells.iloc[3]
    assert f"lr {row['v']:.4g}, width {row['x']:.4g}, loss {row['loss']:.4g}" in found
    assert sum(text.startswith("lr ") for text in found) >= len(info.cells)


@pytest.mark.parametrize("name", ["</title><script>", "a\x00b", "x" * 500])
def test_names_stay_text(name):
    def draw(ax):
        ax.plot([1], [1], "o", label=name)
        ax.set_xlabel(name)

    (text,) = titles(draw)
    assert "\x00" not in text
    assert len(text) < 200
