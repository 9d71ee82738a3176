"""Tables as CSV, and the number in a cell: what sorts a column and what a spreadsheet can use.

Cells of a page are finished text, such as `1.749 ± 0.013` above `1.72 to 1.78`. In a file each
part has a column of its own: `loss`, `loss se`, `loss from`, `loss to`, and `loss, note` for the
rest. Percentages become fractions, `1.3B` becomes 1300000000.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

from extrap.files import csv_text
from extrap.reporting.numbers import NBSP

if TYPE_CHECKING:
    from extrap.reporting.tables import Table

NUMBER = r"[+−-]?[0-9]+(?:\.[0-9]+)?(?:e[−+-]?[0-9]+)?[MBT]? ?%?"
_VALUE = re.compile(rf"({NUMBER})(?: ± ({NUMBER}))?(?: \((.+)\))?[×]?")
_SCALED = re.compile(r"\(([+−-]?[0-9]+(?:\.[0-9]+)?) ± ([0-9]+(?:\.[0-9]+)?)\)(e[−+-]?[0-9]+)")
_RANGE = re.compile(rf"(…|{NUMBER}) to (…|{NUMBER})")
"""An open side is written …."""
_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_SIDE = re.compile(rf"(at most|at least|<|>) ({NUMBER})")
_SUFFIXES = {"M": "e6", "B": "e9", "T": "e12"}
OPEN = "…"
EMPTY = ("", "–", "unknown", "not known", "… to …")
LONGEST = 60
"""Characters of a file's name."""


_HEADS = {
    "value": "{}",
    "error": "{} se",
    "lower": "{} from",
    "upper": "{} to",
    "note": "{}, note",
}
"""Part of a cell → heading of its column."""


def cell_number(cell: str) -> float | None:
    """The number that a cell is sorted by: its value, or the end of its interval that is known."""
    first = _plain(cell.split("\n")[0])
    if (side := _SIDE.fullmatch(first)) is not None:
        return _finite(_digits(side[2]))
    parts = _parts(first)
    known = map(_finite, (parts.get(name, "") for name in ("value", "lower", "upper")))
    return next((number for number in known if number is not None), None)


def table_csv(table: Table) -> str:
    """A table as the text of a CSV file, one column for each part of its cells."""
    columns = [
        [_parts(row[i]) for row in table.rows if i < len(row)] for i in range(len(table.columns))
    ]
    header: list[str] = []
    cells: list[list[str]] = []
    for name, parts in zip(table.columns, columns, strict=True):
        used = [key for key in _HEADS if any(part.get(key) for part in parts)]
        for key in used or ["value"]:
            header.append(_HEADS[key].format(_plain(name).removesuffix(" ± se")))
            cells.append([part.get(key, "") for part in parts])
    return csv_text(header, list(zip(*cells, strict=True)))


def file_name(text: str, suffix: str) -> str:
    """A name for a file that says what is in it: letters, digits and hyphens only."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    name = "-".join(words)
    if len(name) > LONGEST:  # cut between words, unless the first alone is too long
        name = name[: LONGEST + 1].rpartition("-")[0] or name[:LONGEST]
    return f"{name or 'table'}.{suffix}"


def _parts(cell: str) -> dict[str, str]:
    """What a cell says: a number's text for each part that it has."""
    first, *others = (_plain(line) for line in cell.split("\n"))
    found: dict[str, str] = {}
    notes = [line for line in (first, *others) if not _take(line, found)]
    if notes and "value" not in found and notes[0] == first:
        found["value"] = notes.pop(0)
    return {**found, "note": "; ".join(notes)}


def _take(line: str, found: dict[str, str]) -> bool:
    """Whether a line is of numbers for parts that are still missing; puts them in."""
    new: dict[str, str] = {}
    if line in EMPTY:
        return True
    if (match := _SCALED.fullmatch(line)) is not None:
        new = {"value": _digits(match[1] + match[3]), "error": _digits(match[2] + match[3])}
    elif (match := _RANGE.fullmatch(line)) is not None:
        sides = zip(("lower", "upper"), match.groups(), strict=True)
        new = {name: _digits(side) for name, side in sides if side != OPEN}
    elif (match := _SIDE.fullmatch(line)) is not None and match[1].startswith("at "):
        new = {"upper" if match[1] == "at most" else "lower": _digits(match[2])}
    elif (match := _VALUE.fullmatch(line)) is not None:
        new = {"value": _digits(match[1])}
        if match[2]:
            new["error"] = _digits(match[2])
        if match[3] and not _take(match[3], new):
            return False
    if not new or new.keys() & found.keys():
        return False
    found.update(new)
    return True


def _plain(text: str) -> str:
    return text.replace(NBSP, " ").strip()


def _digits(text: str) -> str:
    """A number as every program reads it."""
    text = text.replace("−", "-").removeprefix("+").replace(" ", "")
    if text.endswith("%"):
        return f"{float(text[:-1]) / 100:.10g}"
    if text[-1] in _SUFFIXES:
        return f"{float(text[:-1] + _SUFFIXES[text[-1]]):.10g}"
    return text


def _finite(text: str) -> float | None:
    """The number that a text is, as a whole; None for other words, and beyond all numbers."""
    value = float(text) if _PLAIN.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None
