"""From a draw function to inline SVG: no global state, no dates, colours that follow the page.

Figures are drawn in placeholder colours; each becomes a CSS variable of the page, so that one
drawing serves light and dark mode and print. Text stays text in the reader's own font.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from extrap.reporting.inks import INKS

RAMP_STEPS = 24
CUTS = (40, 16)
"""Characters of a label, where longer ones leave no room for the picture."""
_NOT_LAID_OUT = "constrained_layout not applied"
# name → (colour map, part of it used in light mode, part used in dark mode)
RAMPS = {
    "tuned": ("plasma", (0.0, 0.78), (0.32, 0.95)),
    "size": ("viridis", (0.0, 0.80), (0.30, 1.0)),
    "heat": ("mako_r", (0.0, 1.0), (0.0, 1.0)),
}
_NAMES = tuple(INKS)
_RAMP_NAMES = tuple(RAMPS)
_PLACEHOLDER = re.compile(r"#fe0([0-9])([0-9a-f]{2})")
_FONT = re.compile(r"font:\s*([^;]*?)([\d.]+)px[^;]*;?")
_FAMILY = re.compile(r"font-family:[^;]*;?\s*")
_DIGITS = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"(?:url\()?#([^)\s]+)\)?")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold."""
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_mode: ContextVar[str | None] = ContextVar("mode", default=None)
"""`light` or `dark` while a figure is drawn in colours that can be seen, else placeholders."""


def colour(name: str) -> str:
    """Placeholder of a named ink; within `inked` its colour."""
    if (mode := _mode.get()) is not None:
        return INKS[name][mode == "dark"]
    return f"#fe00{_NAMES.index(name):02x}"


def ramp(name: str, fraction: float) -> str:
    """Placeholder of a position in [0, 1] on a colour ramp; within `inked` its colour."""
    step = round(min(max(fraction, 0.0), 1.0) * (RAMP_STEPS - 1))
    if (mode := _mode.get()) is not None:
        return _ramp_colours(name, mode)[step]
    return f"#fe0{_RAMP_NAMES.index(name) + 1}{step:02x}"


def ramp_colormap(name: str) -> ListedColormap:
    """A colour map of placeholders."""
    return ListedColormap([ramp(name, i / (RAMP_STEPS - 1)) for i in range(RAMP_STEPS)])


def style_sheet(mode: str) -> str:
    """CSS declarations of every colour, for `"light"` or `"dark"`."""
    return ";".join(f"--{name}:{value}" for name, value in _variables(mode).items())


def _variables(mode: str) -> dict[str, str]:
    """Variable of the page → its colour."""
    found = {name: pair[mode == "dark"] for name, pair in INKS.items()}
    for name in RAMPS:
        found |= {f"{name}-{i}": value for i, value in enumerate(_ramp_colours(name, mode))}
    return found


@cache
def _ramp_colours(name: str, mode: str) -> tuple[str, ...]:
    colormap, *parts = RAMPS[name]
    low, high = parts[mode == "dark"]
    colours = sns.color_palette(colormap, as_cmap=True)
    steps = (low + (high - low) * i / (RAMP_STEPS - 1) for i in range(RAMP_STEPS))
    return tuple(to_hex(colours(step)) for step in steps)


@contextmanager
def inked(mode: str) -> Iterator[None]:
    """Within it, `colour` and `ramp` name colours that can be seen, not placeholders.

    Args:
        mode: `"light"` or `"dark"`.
    """
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def draw_svg(
    draw: Callable[[Axes], object], *, width: int, height: int, key: str, label: str
) -> str:
    """Run a draw function on fresh axes and return an inline `<svg>` element.

    Args:
        draw: Draws on the axes it is given.
        width: Width in CSS pixels.
        height: Height in CSS pixels.
        key: Prefix of all ids, unique within the page; letters and digits.
        label: What the picture shows, for readers who cannot see it.
    """
    for most in (None, *CUTS):
        try:
            text = _drawn(draw, width, height, most=most)
        except UserWarning:  # names so long that nothing is left for the picture
            continue
        break
    return _inline(_NO_XML.sub("\ufffd", text), key=key, label=_NO_XML.sub("\ufffd", label))


def _drawn(draw: Callable[[Axes], object], width: int, height: int, *, most: int | None) -> str:
    """An SVG document, its texts cut after so many characters.

    Raises:
        UserWarning: They leave no room for the axes; never at the last cut.
    """
    buffer = io.StringIO()
    with _figure(draw, width, height, most=most) as figure:
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return buffer.getvalue()


@contextmanager
def _figure(
    draw: Callable[[Axes], object], width: int, height: int, *, most: int | None
) -> Iterator[Figure]:
    """A figure in our settings, drawn on and ready to be saved within the context."""
    with mpl.rc_context(), warnings.catch_warnings():
        # the reader's font has it
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("ignore" if most == CUTS[-1] else "error", message=_NOT_LAID_OUT)
        mpl.rcdefaults()
        mpl.rcParams.update(_settings())
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        figure.set_facecolor("#ffffff")
        draw(figure.add_subplot())
        if most is not None:
            _cut_texts(figure, most)
        yield figure


def _cut_texts(figure: Figure, most: int) -> None:
    """Cut every label; those of ticks are kept by what writes them."""

    def cut(text: str) -> str:
        return text if len(text) <= most else f"{text[: most - 1]}…"

    for text in figure.findobj(Text):
        text.set_text(cut(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            ticks = axis.get_major_formatter()
            if isinstance(ticks, FixedFormatter):
                axis.set_major_formatter(FixedFormatter([cut(str(label)) for label in ticks.seq]))


def _settings() -> dict[Any, Any]:
    return {
        "svg.hashsalt": "extrap",
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 11.5,
        "text.color": colour("ink"),
        "axes.edgecolor": colour("muted"),
        "axes.labelcolor": colour("ink"),
        "axes.titlesize": 12,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": colour("grid"),
        "grid.linewidth": 0.8,
        "xtick.color": colour("muted"),
        "ytick.color": colour("muted"),
        "xtick.labelsize": 10.5,
        "ytick.labelsize": 10.5,
        "lines.solid_capstyle": "round",
    }


def _inline(text: str, *, key: str, label: str) -> str:
    """Strip what a page needs only once or not at all, and make ids unique."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        for name in list(element.attrib):
            value = element.attrib.pop(name)
            if value.startswith("rotate(-0 "):
                continue
            name = name.removeprefix(_XLINK)
            element.attrib[name] = _rewrite(name, value, key)
    used = set(_REFERENCE.findall(" ".join(v for e in root.iter() for v in e.attrib.values())))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("metadata", "style")):
                parent.remove(child)
        if parent.get("id") not in used:
            parent.attrib.pop("id", None)
        styles = {child.get("style", "") for child in parent if child.tag == "use"}
        if len(styles) == 1 and all(child.tag == "use" for child in parent):  # of all marks alike
            parent.set("style", styles.pop())
            for child in parent:
                child.attrib.pop("style", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-label": label, "id": key})
    root.tail = None
    written = ElementTree.tostring(root, encoding="unicode").replace("  ", " ")
    return re.sub(r">\s+<", "><", written)


def _rewrite(name: str, value: str, key: str) -> str:
    if name == "id":
        return f"{key}-{value}"
    if name == "href" and value.startswith("#"):
        return f"#{key}-{value[1:]}"
    value = value.replace("url(#", f"url(#{key}-")
    if name == "style":
        value = _FONT.sub(_font_size, _FAMILY.sub("", value))
        return _PLACEHOLDER.sub(_variable, value)
    return _DIGITS.sub(lambda m: str(round(float(m[0]), 2)), value)


def _font_size(match: re.Match[str]) -> str:
    weight = "font-weight: bold;" if "bold" in match[1] or "700" in match[1] else ""
    return f"font-size: {match[2]}px;{weight}"


def _variable(match: re.Match[str]) -> str:
    which, step = int(match[1]), int(match[2], 16)
    return f"var(--{_NAMES[step] if which == 0 else f'{_RAMP_NAMES[which - 1]}-{step}'})"
