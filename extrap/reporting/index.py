"""The index: one line for every report in a folder."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from extrap.files import write_text
from extrap.reporting.figures import style_sheet
from extrap.reporting.page import environment

__all__ = ["write_index"]

PREFIX = "extrap:"
HEAD = 100_000
"""Characters of a page that are searched for what it says about itself."""


class _MetaReader(HTMLParser):
    """Collects the `extrap:` meta tags of a page's head."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a report says about itself."""
        pairs = dict(attrs)
        name = pairs.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.found.setdefault(name.removeprefix(PREFIX), pairs.get("content") or "")


def write_index(folder: str | Path) -> Path:
    """Write `index.html` over all reports of a folder, newest first.

    Args:
        folder: Where the reports are; pages that are no reports are left out.

    Returns:
        The path written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    reports = []
    for page in sorted(folder.glob("*.html")):
        if page.name != "index.html" and (found := _read_meta(page)):
            reports.append({"link": f"./{quote(os.fsencode(page.name))}", **found})
    reports.sort(key=lambda r: r["created"], reverse=True)
    html = (
        environment()
        .get_template("index.html.j2")
        .render(reports=reports, light=style_sheet("light"), dark=style_sheet("dark"))
    )
    path = folder / "index.html"
    write_text(path, html)
    return path


def _read_meta(page: Path) -> dict[str, str]:
    """What a report says about itself; empty for other pages, and for what is no page."""
    reader = _MetaReader()
    try:
        if not page.is_file():
            return {}
        with page.open(encoding="utf-8", errors="replace") as file:
            reader.feed(file.read(HEAD).partition("</head>")[0])
    except (OSError, AssertionError):  # unreadable, or a declaration that Python cannot parse
        return {}
    keys = ("title", "question", "answer", "created")
    return {k: reader.found[k] for k in keys} if reader.found.keys() >= set(keys) else {}
