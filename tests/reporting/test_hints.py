"""Marks say what they stand for: names of the axes, values, intervals."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from extrap.reporting.figures import draw_heat_map, draw_svg, sweep_info
from extrap.reporting.figures.hints import MOST
from extrap.reporting.sizes import size_axis


def titles(draw, **size) -> list[str]:
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
    assert "seen: width 2, loss 4 (3.75 to 4.25)" in found
    assert "law: width 1, loss 3.1" in found
    assert "band: width 1.5, loss 2.5 to 4.5" in found
    assert "tiny: width 1.5, loss 2e−5" in found
    assert "interval: width 1.25, loss 2 to 3" in found
    assert not any("1.75" in text for text in found)


def test_shapes_lie_on_their_marks():
    def draw(ax):
        ax.plot([1, 2], [3, 4], "o")
        ax.set(xlim=(0, 3), ylim=(2, 5))

    root = ElementTree.fromstring(draw_svg(draw, width=480, height=360, key="k", label="l"))
    drawn = [(float(e.get("x")), float(e.get("y"))) for e in root.iter("use") if e.get("x")]
    hints = [(float(e.get("cx")), float(e.get("cy"))) for e in root.iter("circle")]
    assert len(hints) == 2
    for cx, cy in hints:
        assert min(np.hypot(cx - x, cy - y) for x, y in drawn) < 0.1


def test_categories_are_named_and_points_outside_are_left_out():
    def draw(ax):
        ax.plot([1.0, 9.0], [0, 1], "o", label="stake")
        ax.set_yticks([0, 1], ["warmup", "beta2"])
        ax.set(xlim=(0, 2), xlabel="octaves")

    assert titles(draw) == ["stake: octaves 1, warmup"]


def test_cells_of_the_heat_map_say_what_they_stand_for(made):
    info = sweep_info(made, size_axis(made), "lr")
    found = titles(lambda ax: draw_heat_map(ax, info))
    row = info.cells.iloc[3]
    assert f"lr {row['v']:.4g}, width {row['x']:.4g}, loss {row['loss']:.4g}" in found
    assert sum(text.startswith("lr ") for text in found) >= len(info.cells)


def test_there_are_never_too_many():
    x = np.linspace(1, 2, 3000)
    assert len(titles(lambda ax: ax.plot(x, x, "o"))) == MOST


@pytest.mark.parametrize("name", ["</title><script>", "a\x00b", "x" * 500])
def test_names_stay_text(name):
    def draw(ax):
        ax.plot([1], [1], "o", label=name)
        ax.set_xlabel(name)

    (text,) = titles(draw)
    assert "\x00" not in text
    assert len(text) < 200
