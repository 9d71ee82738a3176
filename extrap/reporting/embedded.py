"""The numbers of a page, read back from the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from extrap.errors import DataError
from extrap.reading.bounds import first_line, parse_json, require_file
from extrap.reporting.envelopes import PAGE_VERSION

__all__ = ["read_report"]

MOST_BYTES = 2**26
"""Of a page; ours have three million at most."""
_START = '<script type="application/json" id="extrap-data">'
_END = "</script>"


def read_report(path: str | Path) -> dict[str, Any]:
    """Read the numbers that a page carries, of whatever kind.

    Args:
        path: A page that `report` or another page of this package wrote.

    Returns:
        `kind`, `title`, `question`, `answer`, `created`, `status`, `ok` (whether every judged run
        is on law; None where none is judged), and under `numbers` what the page is made of: for
        a report `forecast`, `verdicts`, `curve`, `flags`, `baseline` and `metrics`, as
        `extrap forecast --json` and `extrap check --json` print them.

    Raises:
        DataError: The file is missing, no page of ours, or one of another schema.
    """
    path = Path(path)
    require_file(path, "report", most=MOST_BYTES)
    text = path.read_text(encoding="utf-8", errors="replace")
    # escaped when it is written: the numbers hold no <, so no name can end or begin them
    _, start, rest = text.rpartition(_START)
    content, end, _ = rest.partition(_END)
    if not start or not end:
        raise DataError(
            f"a report carries its numbers as JSON, {path} has none; write it again with "
            "extrap report."
        )
    try:
        document = parse_json(content)
    except ValueError as error:
        raise DataError(f"the numbers of {path} are not JSON: {first_line(error)}.") from error
    if not isinstance(document, dict) or document.get("schema_version") != PAGE_VERSION:
        found = document.get("schema_version") if isinstance(document, dict) else None
        raise DataError(
            f"{path} has schema version {found}, this extrap reads {PAGE_VERSION}; write the "
            "report again."
        )
    texts = ("kind", "title", "question", "answer", "created", "status")
    is_whole = all(isinstance(document.get(k), str) for k in texts)
    is_whole = is_whole and isinstance(document.setdefault("ok", None), bool | None)
    if not is_whole or not isinstance(document.get("numbers"), dict):
        raise DataError(f"the numbers of {path} are not whole; write the report again.")
    return document
