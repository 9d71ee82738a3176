"""Rows that repeat each other: copies are left out, replicates are kept and counted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from extrap.reading.cells import is_empty
from extrap.records import WITHOUT_SEED, text_ranks

OPTIONAL_NUMBERS = (
    "loss_se",
    "n_params",
    "n_tokens",
    "epochs",
    "batch_size",
    "noise_scale",
    "flops",
    "wall_s",
    "updates",
)
"""Columns with a fixed meaning that a table may have; they must be numbers where they are."""


def read_seeds(
    table: pd.DataFrame, seed: str, *, by: list[str], loss: pd.Series
) -> tuple[pd.Series, list[str]]:
    """The seed of each run, and a note where some have none: each is its own replicate."""
    if seed in table:
        values = table[seed]
        empty = is_empty(values) | values.isna()
        codes, found = pd.factorize(values.where(~empty))
        numbers = [_whole(value) for value in found]
        words = [str(value) for value in found] if None in numbers else numbers
        seeds = pd.Series([*words, None], dtype=object).iloc[codes].set_axis(table.index)
        if not empty.any():
            return seeds, []
    else:
        seeds = pd.Series([None] * len(table), index=table.index, dtype=object)
        empty = pd.Series(data=True, index=table.index)
    keys = [loss, *(table[name] for name in reversed(by))]  # the last key sorts first
    order = np.lexsort([text_ranks(key) for key in keys])
    rank = pd.Series(np.argsort(order), index=table.index)
    seeds = seeds.where(~empty, rank.map(lambda i: f"{WITHOUT_SEED}{i}"))
    return seeds, [f"{int(empty.sum())} run(s) without a seed: each counts as its own replicate"]


def _whole(value: object) -> int | None:
    """A whole number, exact however long it is; None if it is none."""
    text = str(value).strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


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


def without_copies(
    frame: pd.DataFrame, curves: pd.DataFrame | None, *, by: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame | None, list[str]]:
    """One row of those equal in every column; a copy is no replicate."""
    alike = frame[frame.duplicated([*by, "loss"], keep=False)].astype(str)
    copies = alike.duplicated().reindex(frame.index, fill_value=False)
    unsure = alike.drop(columns="seed").duplicated() & alike["seed"].str.startswith(WITHOUT_SEED)
    counted = {
        "row(s) are copies of an earlier one, seed and loss included: left out": copies.sum(),
        "run(s) without a seed equal an earlier one in every column: leave copies out, they say "
        "nothing about noise": unsure.sum(),
    }
    kept = ~copies
    return (
        frame[kept].reset_index(drop=True),
        renumbered(curves, kept),
        [f"{count} {text}" for text, count in counted.items() if count],
    )


def renumbered(curves: pd.DataFrame | None, kept: pd.Series) -> pd.DataFrame | None:
    """The curves of the rows that are kept, `run` the row's new place."""
    if curves is None:
        return None
    position = {int(old): new for new, old in enumerate(kept.index[kept])}
    curves = curves[curves["run"].isin(position.keys())].copy()
    curves["run"] = curves["run"].map(position)
    return curves
