"""What every page is made with: the templates, the policy, the embedded numbers, the downloads."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from extrap.files import write_text
from extrap.reporting.envelopes import PageHead, page_document
from extrap.reporting.inks import ink_sheet
from extrap.reporting.numbers import NBSP
from extrap.reporting.table_files import cell_number, file_name, table_csv

if TYPE_CHECKING:
    from extrap.reporting.figures import Drawing
    from extrap.reporting.plates import Plate
    from extrap.reporting.tables import Table

__all__ = ["MOST_BYTES", "environment", "render_page", "write_page"]

MOST_BYTES = 3_000_000
"""Of a page; one that would be larger leaves its PNGs out."""
MARKS = {
    "● on law": "good",
    "■ runs disagree": "warn",
    "◆ off law, mistuned": "warn",
    "✕ off law": "bad",
    "▲ no loss": "bad",
}
"""A verdict as tables write it → its colour."""
_PNG = re.compile(
    r' <a download="[a-z0-9-]+\.png" href="data:image/png;base64,[^"]*"[^>]*>PNG</a>'
)
_NO_PNGS = (
    '<p class="small">With its figures as PNG this file would pass 3 MB, so they are left out; '
    "each can be saved as SVG.</p></footer>"
)


def render_page(
    template: str,
    head: PageHead,
    *,
    numbers: Mapping[str, Any] | None = None,
    provenance: Sequence[tuple[str, str]] = (),
    limits: Sequence[str] = (),
    made_by: str = "extrap",
    templates: Environment | None = None,
    has_figures: bool = True,
    **context: Any,
) -> str:
    """One page as text, from a template that extends `base.html.j2`.

    Args:
        template: Its name.
        head: What the page says about itself.
        numbers: Its numbers, JSON throughout, to be embedded; None embeds nothing.
        provenance: Rows of name and value.
        limits: What the page cannot tell.
        made_by: Who wrote it, for the last line.
        templates: Where the template is; by default among those of this room.
        has_figures: Whether figures are drawn on it; their colours and library are loaded.
        context: What else the template asks for.

    Raises:
        ValueError: A number is not finite.
    """
    light, dark = _sheets(has_figures=has_figures)
    html = (
        (templates or environment())
        .get_template(template)
        .render(
            about=head.texts(),
            title=head.title,
            question=head.question,
            headline=head.answer,
            created=head.created,
            policy=policy(),
            script=_script(),
            document=None if numbers is None else page_document(head, numbers),
            provenance=provenance,
            limits=limits,
            made_by=made_by,
            light=light,
            dark=dark,
            **{"has_contents": True, **context},
        )
    )
    return html if len(html.encode(errors="replace")) <= MOST_BYTES else _without_pngs(html)


def _sheets(*, has_figures: bool) -> tuple[str, str]:
    """The colours in light and in dark mode."""
    if not has_figures:
        return ink_sheet("light"), ink_sheet("dark")
    from extrap.reporting.figures import style_sheet

    return style_sheet("light"), style_sheet("dark")


def _without_pngs(html: str) -> str:
    """A page that is too large without its PNGs, saying so; text of users is escaped in it."""
    lighter, n = _PNG.subn("", html)
    return lighter.replace("</footer>", _NO_PNGS) if n else html


def write_page(html: str, path: str | Path) -> Path:
    """Write a page, its folder too, and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, html)
    return path


def policy() -> str:
    """The Content-Security-Policy of every page: it loads nothing and runs one script, by hash."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def environment() -> Environment:
    """The templates, with everything escaped that is not a picture or a script of ours."""
    templates = Environment(
        loader=PackageLoader("extrap.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    templates.filters |= {
        "number": _number,
        "csv_link": _csv_link,
        "svg_link": _svg_link,
        "png_link": _png_link,
        "file_name": file_name,
        "figure_name": _figure_name,
        "figure_label": _figure_label,
        "unbroken": _unbroken,
        "mark": _mark,
    }
    return templates


@cache
def _script() -> str:
    """The one script of every page: it sorts tables."""
    text = resources.files("extrap.reporting") / "templates" / "sort.js"
    return text.read_text(encoding="utf-8").strip()


def _number(cell: str) -> str | None:
    value = cell_number(cell)
    return None if value is None else f"{value:.10g}"


def _csv_link(table: Table) -> str:
    return _data_link("text/csv;charset=utf-8", table_csv(table).encode(errors="backslashreplace"))


def _svg_link(svg: str) -> str:
    drawing = _drawing(svg)
    return "" if drawing is None else _data_link("image/svg+xml", drawing.as_svg().encode())


def _png_link(svg: str) -> str:
    drawing = _drawing(svg)
    return "" if drawing is None else _data_link("image/png", drawing.as_png())


def _drawing(svg: str) -> Drawing | None:
    """A picture that can be had as a file; None for the mere text of one."""
    from extrap.reporting.figures import Drawing

    return svg if isinstance(svg, Drawing) else None


def _data_link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _figure_name(plate: Plate, suffix: str) -> str:
    """The name of a figure's file: its heading, else its key."""
    drawing = _drawing(plate.svg)
    return file_name(plate.title or ("figure" if drawing is None else drawing.key), suffix)


def _figure_label(svg: str) -> str:
    drawing = _drawing(svg)
    return "" if drawing is None else drawing.label


def _unbroken(text: str) -> str:
    """A formula that breaks at no space within brackets."""
    return re.sub(r"\([^()]*\)", lambda found: found[0].replace(" ", NBSP), text)


def _mark(cell: str) -> str:
    """What kind of verdict a cell is, for its colour; empty for other cells."""
    return MARKS.get(cell.replace(NBSP, " "), "")
