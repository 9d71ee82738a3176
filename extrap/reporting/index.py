"""The index: one row for every report in a folder, of whatever kind."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from extrap.reporting.envelopes import PageHead
from extrap.reporting.pages import render_page, write_page

__all__ = ["write_index"]

PREFIX = "extrap:"
KINDS = {
    "report": "forecast",
    "knobs": "knobs ranked",
    "levers": "treatments compared",
    "batches": "batch sizes",
    "comparison": "recipes compared",
    "allocation": "budget split",
    "cascade": "cascade",
    "beside": "side by side",
    "figures": "table of figures",
}
"""What a page is about → what the index calls it."""
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
    n = len(reports)
    head = PageHead(
        kind="index",
        title="Reports",
        question="",
        answer=f"{n} report{'s' * (n != 1)}, newest first" if n else "No report yet.",
        created=reports[0]["created"] if reports else "",
    )
    html = render_page(
        "index.html.j2",
        head,
        numbers={"kind": "extrap-index", "reports": reports},
        has_contents=False,
        has_figures=False,
        reports=reports,
        pair=sum(r["kind"] == KINDS["report"] for r in reports) > 1,
    )
    return write_page(html, folder / "index.html")


def _read_meta(page: Path) -> dict[str, str]:
    """What a report says about itself; empty for other pages, and for what is no page."""
    reader = _MetaReader()
    try:
        if not page.is_file():
            return {}
        size = page.stat().st_size
        with page.open(encoding="utf-8", errors="replace") as file:
            reader.feed(file.read(HEAD).partition("</head>")[0])
    except (OSError, AssertionError):  # unreadable, or a declaration that Python cannot parse
        return {}
    found, keys = reader.found, ("title", "question", "answer", "created")
    if not found.keys() >= set(keys):
        return {}
    kind = found.get("kind", "")
    return {
        **{key: found[key] for key in keys},
        "kind": KINDS.get(kind, kind),
        "status": found.get("status", ""),
        "mark": _mark(found.get("status", "")),
        "bytes": str(size),
        "size": f"{size / 1e6:.2f} MB",
    }


def _mark(status: str) -> str:
    """The colour of a status: green only where no run is off."""
    if status.startswith("on law;"):
        return "warn"
    return {"on law": "good", "deviates": "bad"}.get(status, "")
