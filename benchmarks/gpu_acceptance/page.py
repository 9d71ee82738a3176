"""The page of the acceptance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.gpu_acceptance.results import Book, Result
from benchmarks.page import Words, write_page
from benchmarks.rows import Row

__all__ = ["bench_rows", "write_gpu_page"]


def write_gpu_page(book: Book, path: Path) -> None:
    """Write the page of all rows, one file that loads nothing else."""
    is_card = bool(book.device["is_card"])
    name = book.device["name"] or "no CUDA device"
    what = f"Measured on {name}." if is_card else f"Nothing here was measured on a card: {name}."
    words = Words(
        title="GPU",
        question="Does it work on this card?",
        lead=f"{what} Correctness, memory, interruptions and speed of training on one GPU.",
        command=f"python -m benchmarks.gpu_acceptance --device {book.device['kind']}",
        seeds="training is seeded; times are not",
        libraries=("torch", "numpy"),
    )
    rows = bench_rows(book.rows, is_card=is_card)
    write_page(rows, (), book.seconds, (), words=words, path=path)


def bench_rows(results: Iterable[Result], *, is_card: bool, part: str = "") -> list[Row]:
    """Results as rows of a benchmark page; what passes elsewhere than on a card meets no target.

    Args:
        results: The rows.
        is_card: Whether they were measured on a card.
        part: Heading, if not the part of each row.
    """
    return [
        Row(
            part=part or result.part,
            figure=result.what,
            target=result.pass_at,
            reached=result.measured,
            met=result.passed if is_card or result.passed is False else None,
            note=result.note,
        )
        for result in results
    ]
