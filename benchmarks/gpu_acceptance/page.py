"""Pages of the results: their own, and their rows on the page of `make bench`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu_acceptance.results import Book, Result
from benchmarks.page import Words, write_page
from benchmarks.rows import Row

BENCH_PART = "training on one GPU"


def write_gpu_page(book: Book, path: Path) -> None:
    """Write the page of all rows, one file that loads nothing else."""
    is_card = bool(book.device["is_card"])
    name = book.device["name"] or "no CUDA device"
    what = f"Measured on {name}." if is_card else f"Not measured on a card, but on: {name}."
    words = Words(
        title="GPU",
        question="Does it work on this card?",
        lead=f"{what} Correctness, memory, interruptions and speed of training on one GPU.",
        command=f"python -m benchmarks.gpu_acceptance --device {book.device['kind']}",
        seeds="training is seeded; times are not",
        libraries=("torch", "numpy"),
    )
    rows = _rows(book.rows, is_card=is_card)
    write_page(rows, (), book.seconds, (), words=words, path=path)


def speed_rows(results: Iterable[Result] | None) -> list[Row]:
    """Of the speed part, or that there was no GPU."""
    from benchmarks.gpu_acceptance.speed import unmeasured

    found = unmeasured() if results is None else results
    return _rows((replace(r, part=BENCH_PART) for r in found), is_card=True)


def _rows(results: Iterable[Result], *, is_card: bool) -> list[Row]:
    """As rows of a page; what passes elsewhere than on a card meets no target there."""
    return [
        Row(
            part=result.part,
            figure=result.what,
            target=result.pass_at,
            reached=result.measured,
            met=result.passed if is_card or result.passed is False else None,
            note=result.note,
        )
        for result in results
    ]
