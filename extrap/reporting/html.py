"""A page of blocks as one HTML file that loads nothing else."""

from __future__ import annotations

import re
from functools import cache
from itertools import count
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from extrap.errors import argument
from extrap.files import write_text
from extrap.records.numbers import NBSP
from extrap.reporting.blocks import Figure, Page
from extrap.reporting.tables import color_of

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""The Content-Security-Policy of every page: it loads nothing and runs no script."""


def write_page(page: Page, path: str | Path) -> Path:
    """Write a page, its folder too, and return its path.

    Raises:
        ValueError: `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(
            f"{argument('path')} is a file, got the folder {path}; name a file in it."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page_html(page))
    return path


def page_html(page: Page) -> str:
    """The page as text."""
    from extrap.reporting.drawing import chart_svg, style_sheet

    keys = (f"figure{i}" for i in count())

    def draw(figure: Figure) -> str:
        return chart_svg(figure.chart, key=next(keys))

    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            about=_about(page),
            policy=POLICY,
            light=style_sheet("light"),
            dark=style_sheet("dark"),
            draw=draw,
            macro_of=lambda block: type(block).__name__.lower(),
        )
    )


def _about(page: Page) -> dict[str, str]:
    """What a page says about itself in its head, for `index`."""
    return {
        "kind": page.kind,
        "title": page.title,
        "question": page.question,
        "answer": page.answer.text,
        "created": page.created,
        "status": page.status,
        "color": color_of(page.status),
    }


@cache
def environment() -> Environment:
    """The templates, with everything escaped that is not a picture of ours."""
    templates = Environment(
        loader=PackageLoader("extrap.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {"unbroken": _unbroken, "color": color_of}
    return templates


def _unbroken(text: str) -> str:
    """A formula that breaks at no space within brackets."""
    return re.sub(r"\([^()]*\)", lambda brackets: brackets[0].replace(" ", NBSP), text)
