"""The index: one row for every report in a folder, of whatever kind."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from extrap.records.numbers import counted, format_decimals
from extrap.registry import page_name
from extrap.reporting.blocks import Answer, Page
from extrap.reporting.html import write_page
from extrap.reporting.tables import Colored, Table

META_PREFIX = "extrap:"
"""Begins the name of a meta tag in which a page says something about itself."""
MOST_HEAD_CHARACTERS = 100_000
"""Characters of a page that are searched for what it says about itself."""


class _MetaReader(HTMLParser):
    """Collects the `extrap:` meta tags of a page's head."""

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a report says about itself."""
        pairs = dict(attrs)
        name = pairs.get("name") or ""
        if tag == "meta" and name.startswith(META_PREFIX):
            self.about.setdefault(name.removeprefix(META_PREFIX), pairs.get("content") or "")


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
    for path in sorted(folder.glob("*.html")):
        if path.name != "index.html" and (about := _read_meta(path)):
            reports.append({"link": f"./{quote(os.fsencode(path.name))}", **about})
    reports.sort(key=lambda r: r["created"], reverse=True)
    n = len(reports)
    page = Page(
        kind="index",
        title="extrap",
        question="Reports",
        created=reports[0]["created"] if reports else "",
        blocks=(
            Answer(
                text=f"{counted(n, 'report')}, newest first" if n else "No report yet.",
                color="" if n else "bad",
            ),
            Table(
                "Reports, newest first",
                ("study and its answer", "status", "kind", "made", "question", "MB"),
                [*map(_row, reports)],
                links=[report["link"] for report in reports],
            ),
        ),
    )
    return write_page(page, folder / "index.html")


def _row(report: dict[str, str]) -> tuple[str, ...]:
    study = "\n".join(" ".join(report[name].split()) for name in ("title", "answer"))
    date = report["created"][:10]
    status = Colored(report["status"], report["color"])
    return (study, status, report["kind"], date, report["question"], report["size"])


def _read_meta(page: Path) -> dict[str, str]:
    """What a report says about itself; empty for other pages, and for what is no page."""
    reader = _MetaReader()
    try:
        if not page.is_file():
            return {}
        size = page.stat().st_size
        with page.open(encoding="utf-8", errors="replace") as file:
            reader.feed(file.read(MOST_HEAD_CHARACTERS).partition("</head>")[0])
    except (OSError, AssertionError):  # unreadable, or a declaration that Python cannot parse
        return {}
    about, keys = reader.about, ("title", "question", "answer", "created")
    if not about.keys() >= set(keys):
        return {}
    kind = about.get("kind", "")
    return {
        **{key: about[key] for key in keys},
        "kind": page_name(kind),
        "status": about.get("status", ""),
        "color": about.get("color", ""),
        "bytes": str(size),
        "size": format_decimals(size / 1e6, 2),
    }
