"""Rows that repeat each other: copies are left out, replicates are kept and counted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from extrap.reading.cells import is_empty, numbers_of, plain_numbers
from extrap.records.notes import COPIES_LEFT_OUT, SEEDLESS_COPIES, note
from extrap.records.runs import WITHOUT_SEED, text_ranks

LONGEST_EXACT = 2.0**53
"""Whole numbers below it are exact as floats."""
REPEATED = "run(s) repeat an earlier size, tuned values and seed: kept as replicates"
"""The note on replicates, after their number."""


def read_seeds(
    table: pd.DataFrame, seed: str, *, by: list[str], loss: pd.Series
) -> tuple[pd.Series, list[str]]:
    """The seed of each run, and a note where some have none: each is its own replicate."""
    cells = table[seed] if seed in table else pd.Series(np.nan, index=table.index)
    numbers = plain_numbers(cells) if isinstance(cells.dtype, pd.StringDtype) else None
    if numbers is not None and (np.abs(numbers) < LONGEST_EXACT).all() and _are_whole(numbers):
        return pd.Series(numbers.astype(np.int64), index=table.index, dtype=object), []
    codes, uniques = pd.factorize(cells)
    values = _seeds_of(pd.Series(uniques, dtype=object))
    seeds = pd.Series(values[codes], index=table.index, dtype=object)
    is_missing = seeds.isna()
    if not is_missing.any():
        return seeds, []
    # numbered by what the runs are, so that the order of the rows means nothing
    order = np.lexsort([text_ranks(key) for key in (loss, *(table[c] for c in reversed(by)))])
    rank = pd.Series(np.argsort(order, kind="stable"), index=table.index)
    seeds[is_missing] = [f"{WITHOUT_SEED}{i}" for i in rank[is_missing]]
    note = f"{int(is_missing.sum())} run(s) without a seed: each counts as its own replicate"
    return seeds, [note]


def _seeds_of(cells: pd.Series) -> np.ndarray:
    """Distinct cells as exact whole numbers, or all as text if any is none; None where empty.

    One more than the cells: the last, which code -1 takes, is None.
    """
    is_there = (cells.notna() & ~is_empty(cells)).to_numpy(dtype=bool)
    numbers = numbers_of(cells[is_there])
    seeds = np.full(len(cells) + 1, None, dtype=object)
    if not _are_whole(numbers):
        seeds[:-1][is_there] = cells[is_there].astype(str)
        return seeds
    texts = (str(cell).strip() for cell in cells[is_there])
    exact = [
        int(text) if text.lstrip("+-").isdecimal() else int(number)
        for text, number in zip(texts, numbers, strict=True)
    ]
    seeds[:-1][is_there] = np.array(exact, dtype=object)
    return seeds


def _are_whole(numbers: np.ndarray) -> bool:
    return bool((np.isfinite(numbers) & (numbers == np.rint(numbers))).all())


def count_notes(frame: pd.DataFrame, cell: list[str]) -> list[str]:
    """What was accepted though it is not a plain result, counted."""
    status = frame["status"].value_counts()
    counted = {
        "run(s) diverged (loss not finite): they only bound the optimum": status.get(
            "diverged", 0
        ),
        "run(s) failed: left out": status.get("failed", 0),
        "run(s) pruned: they only bound the optimum": status.get("pruned", 0),
        REPEATED: int(frame.duplicated(cell).sum()),
    }
    return [f"{count} {text}" for text, count in counted.items() if count]


def without_copies(frame: pd.DataFrame, *, by: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """One row of those equal in every column, as a copy is no replicate; and notes."""
    alike = frame[frame.duplicated([*by, "loss"], keep=False)]
    has_none = alike["seed"].astype(str).str.startswith(WITHOUT_SEED)
    alike = alike[has_none | alike.duplicated([*by, "loss", "seed"], keep=False)]
    alike = alike.astype(dict.fromkeys(alike.select_dtypes(exclude="number"), str))  # or lists
    copies = alike.index[alike.duplicated()]
    unsure = alike.drop(columns="seed").duplicated() & alike["seed"].str.startswith(WITHOUT_SEED)
    counts = {COPIES_LEFT_OUT: len(copies), SEEDLESS_COPIES: unsure.sum()}
    return frame.drop(index=copies), [note(code, n) for code, n in counts.items() if n]
