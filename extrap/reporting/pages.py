"""What every page is made with: the templates, the policy, the embedded numbers, the downloads."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from extrap import __version__
from extrap.files import write_text
from extrap.reporting.figures import Drawing, style_sheet
from extrap.reporting.numbers import NBSP
from extrap.reporting.table_files import cell_number, file_name, table_csv
from extrap.reporting.tables import Table

__all__ = ["PAGE_VERSION", "PageHead", "environment", "page_document", "render_page", "write_page"]

PAGE_VERSION = 1
"""Of the envelope around the numbers of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHead:
    """What a page says about itself, to readers and to the index.

    Attributes:
        kind: What it is about, such as `report`, `knobs` or `beside`.
        title: Heading.
        question: The question it answers, one sentence.
        answer: The answer, a sentence or two.
        created: When, ISO 8601.
        status: What became of it in two or three words, such as `on law`; may be empty.
    """

    kind: str
    title: str
    question: str
    answer: str
    created: str
    status: str = ""


def page_document(head: PageHead, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON that a page carries: what it says about itself, and its numbers."""
    return {
        "schema_version": PAGE_VERSION,
        "extrap_version": __version__,
        **{name: text.replace(NBSP, " ") for name, text in asdict(head).items()},
        "numbers": dict(numbers),
    }


def render_page(
    template: str,
    head: PageHead,
    *,
    numbers: Mapping[str, Any] | None = None,
    provenance: Sequence[tuple[str, str]] = (),
    limits: Sequence[str] = (),
    made_by: str = "extrap",
    templates: Environment | None = None,
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
        context: What else the template asks for.

    Raises:
        ValueError: A number is not finite.
    """
    script = _script()
    return (
        (templates or environment())
        .get_template(template)
        .render(
            about=asdict(head),
            title=head.title,
            question=head.question,
            headline=head.answer,
            created=head.created,
            policy=policy(),
            script=script,
            document=None if numbers is None else page_document(head, numbers),
            provenance=provenance,
            limits=limits,
            made_by=made_by,
            light=style_sheet("light"),
            dark=style_sheet("dark"),
            **{"has_contents": True, **context},
        )
    )


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
    if not isinstance(svg, Drawing):
        return ""
    return _data_link("image/svg+xml", svg.as_svg().encode())


def _png_link(svg: str) -> str:
    return _data_link("image/png", svg.as_png()) if isinstance(svg, Drawing) else ""


def _data_link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _figure_name(svg: str, suffix: str) -> str:
    return file_name(svg.key if isinstance(svg, Drawing) else "figure", suffix)


def _figure_label(svg: str) -> str:
    return svg.label if isinstance(svg, Drawing) else ""
