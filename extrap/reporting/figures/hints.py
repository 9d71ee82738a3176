"""Values on hover: transparent shapes over the marks of a drawing, each with a `<title>`.

They need no script, and readers who cannot point find the same numbers in the table below. What
is drawn is read back from the artists, so a new figure has its hints without doing anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

__all__ = ["HINTS", "Hint", "add_hints", "hints_of", "tell_cells"]

HINTS = "hints"
"""Class of the shapes."""
MOST = 500
"""Hints of one drawing; bands and lines make room first."""
ALONG = 12
"""Points at which a curve or a band says its value."""
LONGEST = 60
"""Characters of a name."""
RADIUS = 6.0
"""Of the circle over a mark, in pixels."""
_CELLS = "_extrap_cells"

Span = tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A transparent shape and what it says.

    Attributes:
        shape: `circle` or `rect`.
        place: cx, cy, r of a circle; x, y, width, height of a rectangle; pixels from the top left.
        text: What it says.
    """

    shape: str
    place: tuple[float, ...]
    text: str


def tell_cells(mesh: QuadMesh, x: Sequence[float], y: Sequence[float]) -> None:
    """Keep with a mesh the values its columns and rows stand for, which its edges do not tell."""
    setattr(mesh, _CELLS, ([float(v) for v in x], [float(v) for v in y]))


def hints_of(figure: Figure) -> list[Hint]:
    """What the marks of a figure that was drawn say, those below first.

    Args:
        figure: Drawn at 72 dots an inch, so that its units are pixels.
    """
    height = figure.bbox.height
    layers: list[list[Hint]] = [[], [], []]
    for ax in figure.axes:
        if getattr(ax, "_colorbar", None) is not None:
            continue
        for layer, found in zip(layers, (_bands(ax), _curves(ax), _marks(ax)), strict=True):
            layer += [hint for hint in found if _is_inside(ax, hint)]
    marks = layers[2][:MOST]
    below = [*layers[0], *layers[1]]
    kept = below if len(below) + len(marks) <= MOST else []
    return [_flipped(hint, height) for hint in [*kept, *marks]]


def add_hints(root: ElementTree.Element, hints: Iterable[Hint]) -> None:
    """Append the shapes to an `<svg>`, above everything that is drawn."""
    names = {"circle": ("cx", "cy", "r"), "rect": ("x", "y", "width", "height")}
    group = ElementTree.Element("g", {"class": HINTS, "fill": "transparent", "stroke": "none"})
    for hint in hints:
        place = zip(names[hint.shape], (f"{v:.1f}" for v in hint.place), strict=True)
        shape = ElementTree.SubElement(group, hint.shape, dict(place))
        ElementTree.SubElement(shape, "title").text = hint.text
    if len(group):
        root.append(group)


def _bands(ax: Axes) -> Iterator[Hint]:
    """Filled areas between two curves: upright strips."""
    for band in ax.collections:
        if not isinstance(band, PolyCollection) or isinstance(band, QuadMesh):
            continue
        for path in band.get_paths():
            corners = np.asarray(path.vertices)
            values = [float(v) for v in np.unique(corners[:, 0]) if math.isfinite(v)]
            if len(values) < 3:
                continue
            step = max(1, (len(values) - 1) // ALONG)
            shown = [*values[:-1:step], values[-1]]
            sides = [corners[corners[:, 0] == v, 1] for v in shown]
            spans = [(float(s.min()), float(s.max())) for s in sides]
            pixels = [
                ax.transData.transform([(v, a), (v, b)])
                for v, (a, b) in zip(shown, spans, strict=True)
            ]
            width = abs(pixels[1][0][0] - pixels[0][0][0])
            for value, span, ends in zip(shown, spans, pixels, strict=True):
                (x, low), (_, high) = ends
                place = (float(x - width / 2), float(low), float(width), float(high - low))
                text = _text(ax, band, value, span[0], span, is_band=True)
                yield Hint(shape="rect", place=place, text=text)


def _curves(ax: Axes) -> Iterator[Hint]:
    """Lines without marks, at some of their points."""
    for line in ax.lines:
        if line.get_marker() in ("None", "none", "", " ", None):
            points = _points_of(ax, line)
            step = max(1, (len(points) - 1) // ALONG)
            if len(points) > 1:
                yield from _circles(ax, line, [*points[:-1:step], points[-1]])


def _marks(ax: Axes) -> Iterator[Hint]:
    """Points, error bars, intervals and cells."""
    spans: dict[int, list[Span]] = {}
    owners: dict[int, Any] = {}
    bars: set[int] = set()
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            bars |= {id(part) for part in (*container.lines[1], *container.lines[2])}
            line, _, ranges = container.lines
            owners[id(line)] = container
            if ranges:
                spans[id(line)] = [_upright(segment) for segment in ranges[0].get_segments()]
    for collection in ax.collections:
        if isinstance(collection, QuadMesh):
            yield from _cells(ax, collection)
        elif isinstance(collection, LineCollection) and id(collection) not in bars:
            yield from _intervals(ax, collection)
    for line in ax.lines:
        if line.get_marker() not in ("None", "none", "", " ", None) and id(line) not in bars:
            owner = owners.get(id(line), line)
            yield from _circles(ax, owner, _points_of(ax, line), spans.get(id(line)))
    for collection in ax.collections:
        is_points = isinstance(collection, PathCollection)
        if is_points and collection.get_offset_transform() == ax.transData:
            yield from _circles(ax, collection, _finite(collection.get_offsets()))


def _circles(
    ax: Axes,
    artist: Any,
    points: Sequence[tuple[float, float]],
    spans: Sequence[Span] | None = None,
) -> Iterator[Hint]:
    known = spans if spans is not None and len(spans) == len(points) else [None] * len(points)
    for (x, y), span in zip(points, known, strict=True):
        cx, cy = (float(v) for v in ax.transData.transform((x, y)))
        text = _text(ax, artist, x, y, span)
        yield Hint(shape="circle", place=(cx, cy, RADIUS), text=text)


def _intervals(ax: Axes, collection: LineCollection) -> Iterator[Hint]:
    """Straight strokes along one axis."""
    if collection.get_transform() != ax.transData:
        return
    for segment in collection.get_segments():
        ends = np.asarray(segment)
        if len(ends) != 2 or not np.isfinite(ends).all():
            continue
        (left, low), (right, high) = np.sort(ax.transData.transform(ends), axis=0)
        is_upright = bool(ends[0, 0] == ends[1, 0])
        along = ends[:, 1] if is_upright else ends[:, 0]
        span = (float(along.min()), float(along.max()))
        pad = RADIUS / 2
        place = (left - pad, low - pad, right - left + 2 * pad, high - low + 2 * pad)
        text = (
            _text(ax, collection, float(ends[0, 0]), span[0], span, is_band=True)
            if is_upright
            else _lying_text(ax, collection, float(ends[0, 1]), span)
        )
        yield Hint(shape="rect", place=tuple(map(float, place)), text=text)


def _cells(ax: Axes, mesh: QuadMesh) -> Iterator[Hint]:
    """The cells of a mesh that has told what they stand for."""
    if (told := getattr(mesh, _CELLS, None)) is None or (array := mesh.get_array()) is None:
        return
    values: Any = np.ma.filled(np.ma.asarray(array, dtype=float), np.nan)
    values = values.reshape(len(told[1]), len(told[0]))
    corners_of: Any = mesh.get_coordinates()
    pixels = ax.transData.transform(corners_of.reshape(-1, 2))
    pixels = pixels.reshape(len(told[1]) + 1, len(told[0]) + 1, 2)
    for (row, column), value in np.ndenumerate(values):
        if not math.isfinite(value):
            continue
        corners = [pixels[row, column], pixels[row + 1, column + 1]]
        (left, low), (right, high) = np.sort(corners, axis=0)
        text = ", ".join(
            [
                f"{_name(ax.xaxis)} {_written(ax.xaxis, told[0][column])}",
                f"{_name(ax.yaxis)} {_written(ax.yaxis, told[1][row])}",
                f"loss {_number(value)}",
            ]
        )
        place = (float(left), float(low), float(right - left), float(high - low))
        yield Hint(shape="rect", place=place, text=text)


def _points_of(ax: Axes, line: Line2D) -> list[tuple[float, float]]:
    if line.get_transform() != ax.transData:
        return []
    return _finite(np.column_stack([line.get_xdata(), line.get_ydata()]))


def _finite(points: Any) -> list[tuple[float, float]]:
    found: Any = np.ma.filled(np.ma.asarray(points, dtype=float), np.nan)
    return [(float(x), float(y)) for x, y in found if math.isfinite(x) and math.isfinite(y)]


def _upright(segment: Any) -> Span:
    ends = np.asarray(segment, dtype=float)
    if len(ends) != 2 or not np.isfinite(ends).all() or ends[0, 0] != ends[1, 0]:
        return None
    return float(ends[:, 1].min()), float(ends[:, 1].max())


def _text(ax: Axes, artist: Any, x: float, y: float, span: Span, *, is_band: bool = False) -> str:
    """A mark in words: what it is, where it stands, its value and its interval."""
    low, high = (_written(ax.yaxis, side) for side in span) if span else ("", "")
    value = f"{low} to {high}" if is_band else _written(ax.yaxis, y)
    if span and not is_band and low != high:
        value += f" ({low} to {high})"
    where = f"{_name(ax.xaxis)} {_written(ax.xaxis, x)}".strip()
    return f"{_label(artist)}{where}, {f'{_name(ax.yaxis)} {value}'.strip()}"


def _lying_text(ax: Axes, artist: Any, y: float, span: tuple[float, float]) -> str:
    low, high = (_written(ax.xaxis, side) for side in span)
    where = f"{_name(ax.yaxis)} {_written(ax.yaxis, y)}".strip()
    return f"{_label(artist)}{where}, {f'{_name(ax.xaxis)} {low} to {high}'.strip()}"


def _label(artist: Any) -> str:
    """What the legend calls it."""
    label = str(artist.get_label() or "")
    return "" if not label or label.startswith("_") else f"{_cut(label)}: "


def _name(axis: Axis) -> str:
    return _cut(axis.get_label_text())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _written(axis: Axis, value: float) -> str:
    """A value as its axis has it: the name of a category, else four digits."""
    places = axis.get_major_locator()
    if isinstance(places, FixedLocator) and axis.get_scale() == "linear":
        for i, place in enumerate(getattr(places, "locs", ())):
            label = str(axis.get_major_formatter()(place, i)) if place == value else ""
            if label and not _is_number(label):
                return _cut(label)
    return _number(value)


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-"))
    except ValueError:
        return False
    return True


def _number(value: float) -> str:
    size = abs(value)
    if size and not 1e-4 <= size < 1e6:
        text = f"{value:.3e}"
        mantissa, power = text.split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    elif size >= 1000:
        text = f"{value:.0f}"
    else:
        text = f"{value:.4g}"
    return text.replace("-", "−")


def _is_inside(ax: Axes, hint: Hint) -> bool:
    """Whether the middle of a shape lies in the axes."""
    x, y, *size = hint.place
    if hint.shape == "rect":
        x, y = x + size[0] / 2, y + size[1] / 2
    box = ax.bbox
    return bool(
        all(map(math.isfinite, hint.place))
        and box.x0 - 1 <= x <= box.x1 + 1
        and box.y0 - 1 <= y <= box.y1 + 1
    )


def _flipped(hint: Hint, height: float) -> Hint:
    """From pixels above the bottom to pixels below the top."""
    x, y, *size = hint.place
    top = height - y - (size[1] if hint.shape == "rect" else 0.0)
    return Hint(shape=hint.shape, place=(x, float(top), *size), text=hint.text)
