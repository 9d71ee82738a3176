"""Results as blocks, and blocks as plain text: what a terminal and a notebook show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from extrap import registry
from extrap.files import as_written
from extrap.records.notes import USING, of_codes
from extrap.records.numbers import NBSP, beside
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Equation,
    Paragraph,
    Warnings,
    shown,
)
from extrap.reporting.tables import Table

LONGEST_CELL = 40
"""Characters of a cell in the last column, from which it stands below its row."""


def blocks_of(result: object) -> list[Block]:
    """The blocks of a result, the answer first.

    Raises:
        KeyError: Nothing says what is shown of such an object.
    """
    return registry.blocks_maker(result)(result)


def answer_text(result: object) -> str:
    """The answer of a result, as one paragraph."""
    return next(block.plain for block in blocks_of(result) if isinstance(block, Answer))


def result_text(result: object) -> str:
    """What the command prints of a result, below what was read as what."""
    runs = getattr(result, "runs", None)
    arms = runs.values() if isinstance(runs, Mapping) else [runs]
    notes = [note for holder in (result, *arms) for note in getattr(holder, "notes", ())]
    used = of_codes(notes, USING)
    return as_written("\n".join([*used, blocks_text(blocks_of(result))]))


def notebook_html(result: object) -> str:
    """The same as HTML, all of it escaped."""
    return f"<pre>{escape(result_text(result))}</pre>"


def blocks_text(blocks: Iterable[Block], *, details: bool = False) -> str:
    """Blocks as text, a blank line between them; figures are left out.

    Args:
        blocks: The blocks.
        details: Whether what a page has under closed headings is written too.
    """
    text, before = "", None
    for block in shown(_opened(blocks) if details else blocks):
        if part := "\n".join(_lines(block)):
            is_next_law = isinstance(block, Equation) and isinstance(before, Equation)
            text += ("\n" if is_next_law else "\n\n") * bool(text) + part
            before = block
    return text.replace(NBSP, " ")


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Answer():
            yield from filter(None, (block.text, block.confidence))
        case Paragraph():
            yield block.text
        case Equation():
            written = "".join(f"^{text}" if raised else text for text, raised in block.pieces)
            yield f"{written}  ({block.text})"
        case Table():
            yield from _table_lines(block)
        case Warnings():
            for item in block.items:
                about = f" ({item.detail})" if item.detail else ""
                yield f"warning: {item.meaning} {item.action} [{item.name}{about}]"
        case Columns():
            for column in block.blocks:
                yield from _lines(column)
        case _:
            return


def _opened(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks with what stands under headings that a reader opens."""
    for block in blocks:
        if isinstance(block, Details):
            yield Paragraph(f"{block.title}:")
            yield from _opened(block.blocks)
        else:
            yield block


def _table_lines(table: Table) -> Iterator[str]:
    """A table; where the last column holds sentences they stand below their row."""
    yield table.caption
    rows = [[beside(cell) for cell in row] for row in table.rows]
    is_long = any(len(row[-1].partition("\n")[0]) > LONGEST_CELL for row in table.rows)
    n = len(table.columns) - is_long
    lines = text_columns(table.columns[:n], [row[:n] for row in rows])
    yield lines[0]
    for line, row in zip(lines[1:], rows, strict=True):
        yield line
        if is_long and row[-1]:
            yield f"    {row[-1]}"
    yield from filter(None, (table.note,))


def text_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell: the last one and words on the left, numbers right."""
    table = [list(header), *map(list, rows)]
    n = len(header)
    widths = [max(len(row[i]) for row in table) for i in range(n)]
    is_text = [any(not _is_number(row[i]) for row in table[1:]) for i in range(n)]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in table
    ]


def _is_number(cell: str) -> bool:
    return cell[:1] in "0123456789+-−.–"  # an empty cell too
