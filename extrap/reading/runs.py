"""`read_runs`: whatever the source, the same validated table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.curves import read_curves
from extrap.reading.tables import read_table
from extrap.reading.units import check_units
from extrap.records import STAGES, STATUSES, Runs

__all__ = ["read_runs", "without_password"]

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
FIXED_MEANING = ("loss", "seed", "status", "stage")
"""Columns that every table of runs has; sizes, tuned values and conditions have other names."""


def read_runs(
    source: str | Path | TextIO | pd.DataFrame,
    *,
    size: str | Iterable[str],
    tune: str | Iterable[str] = (),
    loss: str = "loss",
    seed: str = "seed",
    conditions: str | Iterable[str] = (),
    study: str | None = None,
    stage: str = "tune",
    curves: str | Path | pd.DataFrame | None = None,
) -> Runs:
    """Read training runs from a table or an Optuna storage.

    An empty loss is a failed run, a loss that is not finite (`nan`, `inf`) a diverged one; in a
    DataFrame `None` and `pd.NA` are empty and a float NaN is not finite. Without a seed column
    each row is its own replicate. Of rows that are equal in every column, seed and loss included,
    one is kept; runs to judge are all kept. All of that is counted in `Runs.notes`, and so is a
    unit that cannot be right: compute far from 6 N D, tokens that are not steps × batch × length.

    Args:
        source: A CSV, Parquet or JSONL file, open CSV text, a pandas DataFrame, or the URL of an
            Optuna storage (`sqlite:///…`, `postgresql://…`).
        size: Size column(s), positive numbers. With two, the model first and the data second.
        tune: Tuned column(s), positive numbers; none: the loss law alone.
        loss: The loss column, smaller is better.
        seed: The seed column, if there is one.
        conditions: Recipe columns that must not vary.
        study: Name of the study, where a storage holds several.
        stage: `"tune"` for a sweep, `"check"` for runs to judge. A table with a `stage` column is
            filtered by it; the rows of any other are all taken to be of this stage.
        curves: Loss curves of the runs of a table, one row a point: `run`, `step` and `loss`.
            `run` is that of the table's own `run` column, or counts its rows from 0. A storage
            has its own.

    Returns:
        The runs, in the order of the source.

    Raises:
        DataError: The source cannot be read, is empty, lacks a column (the nearest is named), or
            holds text or impossible values where numbers belong.
        ValueError: `stage` is unknown, or a column is named twice.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}; got {stage!r}.")
    sizes, tuned, recipe = _names(size), _names(tune), _names(conditions)
    _check_distinct([*sizes, *tuned, loss, seed])
    _check_free([*sizes, *tuned, *recipe])
    notes: tuple[str, ...] = ()
    given = curves
    if isinstance(source, str) and "://" in source:
        from extrap.reading.optuna import read_storage

        if given is not None:
            raise ValueError("a storage holds the curves of its runs; leave curves= out.")
        table, points, notes = read_storage(source, study=study, stage=stage)
        where = without_password(source)
    else:
        table = read_table(source)
        where = _place(source)
        points = None if given is None else read_curves(given, table)
    if table.empty:
        raise DataError(f"a table needs at least one row, {where} has none.")
    _require_columns(table, [*sizes, *tuned, loss, *recipe], where)
    if "stage" in table:
        kept = table["stage"].astype(str).str.strip().eq(stage)
        points = _renumbered(points, kept)
        table = table[kept].reset_index(drop=True)
        if table.empty:
            raise DataError(
                f"{where} has no rows of stage {stage!r}; its stage column has others."
            )
    frame = table.drop(columns=[c for c in ("loss", "seed") if c in table])
    frame["stage"] = stage
    failed = is_empty(table[loss])
    frame["loss"] = read_numbers(table[loss], loss)
    frame["status"] = _status(table, frame["loss"], failed)
    frame["seed"], seed_note = _seeds(table, seed, by=[*sizes, *tuned], loss=frame["loss"])
    for column in sizes:
        frame[column] = read_numbers(table[column], column, required=True)
    for column in tuned:
        frame[column] = read_numbers(table[column], column, required=stage == "tune")
    for column in OPTIONAL_NUMBERS:
        if column in table and column not in (*sizes, *tuned, *recipe):
            frame[column] = read_numbers(table[column], column)
    if stage == "tune":  # every row that is to be judged is judged
        frame, points, copy_notes = _without_copies(frame, points, by=[*sizes, *tuned])
        notes = (*notes, *copy_notes)
    return Runs.from_frame(
        frame,
        sizes=sizes,
        tuned=tuned,
        conditions=recipe,
        curves=points,
        source=without_password(where),
        notes=(
            *notes,
            *_count_notes(frame, [*sizes, *tuned, "seed"], recipe),
            *seed_note,
            *check_units(frame),
        ),
    )


def _place(source: str | Path | TextIO | pd.DataFrame) -> str:
    """What to call a source in a message."""
    if isinstance(source, pd.DataFrame):
        return "the DataFrame"
    return str(source) if isinstance(source, str | Path) else "the standard input"


def _names(columns: str | Iterable[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _check_distinct(columns: Sequence[str]) -> None:
    twice = sorted({c for c in columns if columns.count(c) > 1})
    if twice:
        raise ValueError(
            f"each column plays one part, {twice[0]!r} was given two; name another column."
        )


def _check_free(columns: Sequence[str]) -> None:
    taken = sorted(set(FIXED_MEANING).intersection(columns))
    if taken:
        raise ValueError(
            f"the columns {', '.join(FIXED_MEANING)} have a fixed meaning, got "
            f"{taken[0]!r} for another; rename it in the table."
        )


def _require_columns(table: pd.DataFrame, needed: Sequence[str], where: str) -> None:
    have = [str(c) for c in table.columns]
    for name in needed:
        if name not in have:
            raise missing_column(name, have, where)


def _status(table: pd.DataFrame, loss: pd.Series, failed: pd.Series) -> pd.Series:
    derived = pd.Series(
        np.where(failed, "failed", np.where(np.isfinite(loss), "complete", "diverged")),
        index=table.index,
    )
    if "status" not in table:
        return derived
    given = table["status"].astype(str).str.strip().str.lower()
    unknown = sorted({str(s) for s in given[~given.isin(STATUSES) & ~is_empty(table["status"])]})
    if unknown:
        raise DataError(f"status must be one of {', '.join(STATUSES)}; got {shown(unknown[0])}.")
    status = given.where(given.isin(STATUSES), derived)
    return status.where(status.ne("complete") | derived.eq("complete"), derived)


def _seeds(
    table: pd.DataFrame, seed: str, *, by: list[str], loss: pd.Series
) -> tuple[pd.Series, list[str]]:
    if seed != "seed":
        _require_columns(table, [seed], "the table")
    if seed in table:
        values = table[seed]
        empty = is_empty(values) | values.isna()
        numbers = [None if e else _whole(v) for v, e in zip(values, empty, strict=True)]
        is_number = all(n is not None for n, e in zip(numbers, empty, strict=True) if not e)
        texts = values.astype(str).tolist()
        seeds = pd.Series(numbers if is_number else texts, index=table.index, dtype=object)
        if not empty.any():
            return seeds, []
    else:
        seeds = pd.Series([None] * len(table), index=table.index, dtype=object)
        empty = pd.Series(data=True, index=table.index)
    keys = [loss, *(table[name] for name in reversed(by))]  # the last key sorts first
    order = np.lexsort([key.astype(str).to_numpy(dtype=str) for key in keys])
    rank = pd.Series(np.argsort(order), index=table.index)
    seeds = seeds.where(~empty, rank.map(lambda i: f"row-{i}"))
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


def _count_notes(frame: pd.DataFrame, cell: list[str], recipe: Sequence[str]) -> list[str]:
    """What was accepted though it is not a plain result, counted."""
    varying = _undeclared(frame, cell, recipe)
    hint = f" (they differ in {', '.join(varying)}: tuned, or a condition?)" if varying else ""
    status = frame["status"].value_counts()
    counted = {
        "run(s) diverged (loss not finite): they only bound the optimum": status.get(
            "diverged", 0
        ),
        "run(s) failed (no loss): left out": status.get("failed", 0),
        "run(s) pruned: they only bound the optimum": status.get("pruned", 0),
        f"run(s) repeat an earlier size, tuned values and seed: kept as replicates{hint}": int(
            frame.duplicated(cell).sum()
        ),
    }
    return [f"{count} {text}" for text, count in counted.items() if count]


def _without_copies(
    frame: pd.DataFrame, curves: pd.DataFrame | None, *, by: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame | None, list[str]]:
    """One row of those equal in every column; a copy is no replicate."""
    alike = frame[frame.duplicated([*by, "loss"], keep=False)].astype(str)
    copies = alike.duplicated().reindex(frame.index, fill_value=False)
    unsure = alike.drop(columns="seed").duplicated() & alike["seed"].str.startswith("row-")
    counted = {
        "row(s) are copies of an earlier one, seed and loss included: left out": copies.sum(),
        "run(s) without a seed equal an earlier one in every column: leave copies out, they say "
        "nothing about noise": unsure.sum(),
    }
    kept = ~copies
    return (
        frame[kept].reset_index(drop=True),
        _renumbered(curves, kept),
        [f"{count} {text}" for text, count in counted.items() if count],
    )


def _undeclared(frame: pd.DataFrame, cell: list[str], recipe: Sequence[str]) -> list[str]:
    """Columns without a part to play that vary between runs of one cell."""
    repeats = frame[frame.duplicated(cell, keep=False)]
    known = {*cell, *recipe, *OPTIONAL_NUMBERS, "loss", "status", "stage"}
    others = [c for c in repeats.columns if c not in known]
    if repeats.empty or not others:
        return []
    texts = repeats[others].astype(str).where(repeats[others].notna())  # cells may be lists
    counts = texts.groupby([repeats[c] for c in cell], dropna=False).nunique()
    few = len(repeats) / 2  # what differs in almost every row measures a run, it does not set it
    return [c for c in others if (counts[c] > 1).any() and texts[c].nunique() <= few]


def _renumbered(curves: pd.DataFrame | None, kept: pd.Series) -> pd.DataFrame | None:
    if curves is None:
        return None
    position = {int(old): new for new, old in enumerate(kept.index[kept])}
    curves = curves[curves["run"].isin(position.keys())].copy()
    curves["run"] = curves["run"].map(position)
    return curves


def without_password(url: str) -> str:
    """A storage URL with `user:password@` cut to `user@`, and without `password=…` behind it."""
    scheme, found, rest = url.partition("://")
    if found:
        # to the end: an & in a password, which should be %26, would look like the end of it
        rest = re.sub(r"(?is)[?&;](ssl)?passw(or)?d=.*", "", rest)
        url = f"{scheme}://{rest}"
    if not found or "@" not in rest:
        return url
    account, _, host = rest.rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}@{host}"
