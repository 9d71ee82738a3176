"""Rows that repeat each other: copies are left out, replicates are kept and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from extrap.reading.cells import is_empty, numbers_of
from extrap.records import WITHOUT_SEED, text_ranks


def read_seeds(
    table: pd.DataFrame, seed: str, *, by: list[str], loss: pd.Series
) -> tuple[pd.Series, list[str]]:
    """The seed of each run, and a note where some have none: each is its own replicate."""
    seeds = pd.Series([None] * len(table), index=table.index, dtype=object)
    if seed in table:
        is_there = table[seed].notna() & ~is_empty(table[seed])
        seeds = table[seed].astype(object).where(is_there, None)
    words = seeds.dropna().unique()
    numbers = dict(zip(words, numbers_of(words), strict=True))
    whole: dict[Any, Any] = {word: _whole(word, number) for word, number in numbers.items()}
    if None in whole.values():
        whole = {word: str(word) for word in words}
    is_missing = seeds.isna()
    seeds = seeds.map(whole).astype(object)
    if not is_missing.any():
        return seeds, []
    # numbered by what the runs are, so that the order of the rows means nothing
    order = np.lexsort([text_ranks(key) for key in (loss, *(table[c] for c in reversed(by)))])
    rank = pd.Series(np.argsort(order), index=table.index)
    named = rank.map(lambda i: f"{WITHOUT_SEED}{i}")
    note = f"{int(is_missing.sum())} run(s) without a seed: each counts as its own replicate"
    return seeds.where(~is_missing, named), [note]


def _whole(value: object, number: float) -> int | None:
    """A whole number, exact however long it is; None if it is none."""
    if not number.is_integer():
        return None
    text = str(value).strip()
    return int(text) if text.lstrip("+-").isdecimal() else int(number)


def count_notes(frame: pd.DataFrame, cell: list[str]) -> list[str]:
    """What was accepted though it is not a plain result, counted."""
    status = frame["status"].value_counts()
    counted = {
        "run(s) diverged (loss not finite): they only bound the optimum": status.get(
            "diverged", 0
        ),
        "run(s) failed: left out": status.get("failed", 0),
        "run(s) pruned: they only bound the optimum": status.get("pruned", 0),
        "run(s) repeat an earlier size, tuned values and seed: kept as replicates": int(
            frame.duplicated(cell).sum()
        ),
    }
    return [f"{count} {text}" for text, count in counted.items() if count]


def without_copies(frame: pd.DataFrame, *, by: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """One row of those equal in every column, as a copy is no replicate; and notes."""
    alike = frame[frame.duplicated([*by, "loss"], keep=False)].astype(str)
    copies = alike.index[alike.duplicated()]
    unsure = alike.drop(columns="seed").duplicated() & alike["seed"].str.startswith(WITHOUT_SEED)
    counted = {
        "row(s) are copies of an earlier one, seed and loss included: left out": len(copies),
        "run(s) without a seed equal an earlier one in every column: leave copies out, they say "
        "nothing about noise": unsure.sum(),
    }
    return frame.drop(index=copies), [f"{n} {text}" for text, n in counted.items() if n]
