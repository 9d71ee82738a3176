"""The table in the terminal and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.rows import Row
from extrap import files

__all__ = ["print_rows", "write_csv"]

STYLES = {True: "green", False: "bold red", None: "dim"}
COLUMNS = (("what", 44), ("reached", 40), ("target", 20), ("", 13), ("to beat", 44))
GAPS = 2 * len(COLUMNS)


def print_rows(rows: Sequence[Row]) -> None:
    """Write the rows to standard output, part by part; notes follow, numbered."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=sum(width for _, width in COLUMNS) + GAPS)
    notes: list[str] = []
    for i, (part, group) in enumerate(groupby(rows, key=lambda row: row.part)):
        console.print(Text(f"\n{part}", style="bold"))
        console.print(_part_table(list(group), notes, header=i == 0))
    for i, note in enumerate(notes, start=1):
        console.print(Text(f"\n[{i}] {note}" if i == 1 else f"[{i}] {note}"))


def _part_table(rows: Sequence[Row], notes: list[str], *, header: bool) -> Table:
    """A part's rows; their notes are appended to `notes`."""
    table = Table(box=None, padding=(0, 1), header_style="bold", show_header=header)
    for name, width in COLUMNS:
        table.add_column(name, ratio=width, width=width, overflow="fold")
    for row in rows:
        mark = row.verdict
        if row.note:
            if row.note not in notes:
                notes.append(row.note)
            mark += f" [{notes.index(row.note) + 1}]"
        cells = map(Text, (row.figure, row.reached, row.target))
        table.add_row(*cells, Text(mark, style=STYLES[row.met]), Text(row.beat))
    return table


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """One line a row, with its verdict in words."""
    table = pd.DataFrame([asdict(row) | {"met": row.verdict} for row in rows])
    files.write_csv(table, path)
