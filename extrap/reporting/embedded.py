"""The numbers and the visible blocks of a page, read back from the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from extrap.errors import DataError, first_line
from extrap.files import require_file
from extrap.reporting.blocks import Answer, Block, Columns, Paragraph, Warnings
from extrap.reporting.glossary import Explanation
from extrap.reporting.tables import Table

PAGE_VERSION = 1
"""Of the envelope around the numbers of a page."""
_START = '<script type="application/json" id="extrap-{}">'
_END = "</script>"


def read_report(path: str | Path) -> dict[str, Any]:
    """Read the numbers that a page carries, of whatever kind.

    Args:
        path: A page that `report` or another page of this package wrote.

    Returns:
        `kind`, `title`, `question`, `answer`, `created`, `status`, `ok` (whether every judged run
        is on law; None where none is judged), and under `numbers` what the page is made of: for
        a report `forecast`, `verdicts`, `curve`, `flags` and `metrics`, as `extrap forecast
        --json` and `extrap check --json` print them.

    Raises:
        DataError: The file is missing, no page of ours, or one of another schema.
    """
    content = _embedded(path, "data")
    if content is None:
        raise DataError(
            f"a report carries its numbers as JSON, {path} has none; write it again with "
            "extrap report."
        )
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
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


def read_blocks(path: str | Path) -> list[Block]:
    """What a page shows outside its closed parts, but figures.

    Raises:
        DataError: The file is missing, or what it shows is not whole.
    """
    content = _embedded(path, "blocks")
    if content is None:
        raise DataError(f"{path} has no blocks; write the report again.")
    try:
        return [_block(data) for data in json.loads(content)]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DataError(f"the blocks of {path} are not whole; write the report again.") from error


def blocks_data(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The visible blocks of a page as JSON; `read_blocks` reads them back."""
    found: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Columns):
            found += blocks_data(block.blocks)
        elif isinstance(block, Answer | Paragraph | Table | Warnings):
            found.append({"block": type(block).__name__, **asdict(block)})
    return found


def _block(data: Any) -> Block:
    """A block from a file that may hold anything: all its parts become text."""
    match data["block"]:
        case "Answer":
            return Answer(text=str(data["text"]), confidence=str(data["confidence"]))
        case "Paragraph":
            return Paragraph(str(data["text"]))
        case "Table":
            return Table(
                caption=str(data["caption"]),
                columns=tuple(map(str, data["columns"])),
                rows=tuple(tuple(map(str, row)) for row in data["rows"]),
                note=str(data["note"]),
            )
        case "Warnings":
            names = ("name", "meaning", "why", "action", "detail")
            return Warnings(
                tuple(Explanation(*(str(item[n]) for n in names)) for item in data["items"])
            )
    raise ValueError(f"a page has no block {data['block']!r}.")


def _embedded(path: str | Path, name: str) -> str | None:
    """The JSON of a page under a name; None where it has none."""
    path = Path(path)
    require_file(path, "report")
    text = path.read_text(encoding="utf-8", errors="replace")
    # escaped when it is written: the numbers hold no <, so no name can end or begin them
    _, start, rest = text.rpartition(_START.format(name))
    content, end, _ = rest.partition(_END)
    return content if start and end else None
