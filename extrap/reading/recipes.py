"""The runs of several recipes, read alike, and what is asked of them before they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.reading.columns import find_column
from extrap.reading.mixtures import refuse_mixtures
from extrap.reading.names import EVALUATION_COLUMN, RATE_NAMES
from extrap.reading.reader import as_runs, request_fields_of
from extrap.records import WITHOUT_SEED, Runs, condition_text
from extrap.records.notes import (
    COPIES_LEFT_OUT,
    POOLED,
    SEEDLESS_COPIES,
    USING,
    of_codes,
    values_of,
)

LOSS_RANGE = (1e-50, 1e50)
"""Losses beyond these are of a broken unit, and their squares and ratios beyond floats."""


def read_recipes(
    arms: Any, by: str | None = None, columns: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Runs]:
    """The runs of each recipe; what the columns of the first are holds for the others.

    Args:
        arms: Name → runs, or with `by` the runs of all.
        by: Column that names the recipe of each run.
        columns: How the runs are read.

    Raises:
        TypeError: There is neither a mapping nor a column.
        DataError: As `extrap.read_runs`; or a run has no name of a recipe.
    """
    if by is not None:
        return _split(
            as_runs(arms, {"conditions": by, **columns}, may_mix=True, may_be_one_size=True), by
        )
    if not isinstance(arms, Mapping):
        raise TypeError(
            'recipes are given by name, as in {"plain": runs, "treated": others}, got '
            f"{type(arms).__name__}; for one table with all of them name the column that tells "
            f"them apart, {argument('by', 'recipe')}."
        )
    read: dict[str, Runs] = {}
    request_fields: dict[str, Any] = {}
    for name, source in arms.items():
        read[name] = as_runs(source, columns, may_mix=True, may_be_one_size=True, **request_fields)
        request_fields = request_fields_of(read[name])
    return read


def _split(runs: Runs, by: str) -> dict[str, Runs]:
    """The runs of each recipe that a column names, in the order of their first rows."""
    frame = runs.to_frame()
    empty = (frame[by].isna() | frame[by].astype(str).str.strip().eq("")).to_numpy().nonzero()[0]
    if len(empty):
        rows = ", ".join(str(i + 1) for i in empty[:5]) + f" and {len(empty) - 5} more" * (
            len(empty) > 5
        )
        raise DataError(
            f"{argument('by', by)} needs a recipe in every row, row(s) {rows} of {runs.source} "
            "have none; name it or leave the row out."
        )
    labels = frame[by].map(condition_text)
    return {
        str(name): Runs.from_frame(
            frame[labels == name],
            sizes=runs.sizes,
            tuned=runs.tuned,
            source=runs.source,
            notes=of_codes(runs.notes, COPIES_LEFT_OUT, SEEDLESS_COPIES, POOLED, USING),
        )
        for name in dict.fromkeys(labels)
    }


def check_recipes(
    arms: Mapping[str, Runs], measured: Iterable[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refuse recipes that cannot be compared.

    Args:
        arms: Name → runs.
        measured: Columns that set nothing, whatever they are called.

    Returns:
        Their names and their size columns.

    Raises:
        DataError: Fewer than two arms, different size columns, conditions or other columns that
            vary within a recipe, or losses beyond reason.
    """
    if len(arms) < 2:
        raise DataError(
            f"a comparison needs at least two recipes, got {len(arms)}; name the plain one first."
        )
    names = tuple(arms)
    columns = arms[names[0]].sizes
    for name in names[1:]:
        if arms[name].sizes != columns:
            raise DataError(
                f"recipes must have the same size columns, {names[0]!r} has "
                f"{', '.join(columns)} and {name!r} {', '.join(arms[name].sizes)}; read "
                "them with the same sizes."
            )
    _check_alike(arms)
    for name, runs in arms.items():
        frame = runs.of_stage("tune").to_frame()
        _check_losses(name, frame)
        for condition in runs.conditions:
            values = sorted({condition_text(value) for value in frame[condition].unique()})
            if len(values) > 1:
                raise DataError(
                    f"the condition {condition} must not vary within a recipe, {name!r} has "
                    f"{', '.join(values[:4])}; split it into recipes, or keep one."
                )
        _check_undeclared(name, arms, measured)
    return names, columns


def _check_alike(arms: Mapping[str, Runs]) -> None:
    """Refuse losses of different columns, or measured on different data."""
    values_by_column: dict[str, dict[str, list[str]]] = {}
    for name, runs in arms.items():
        for loss in request_fields_of(runs)["losses"]:
            values_by_column.setdefault("loss", {})[name] = [loss]
        frame = runs.to_frame()
        for column in filter(EVALUATION_COLUMN.search, map(str, frame)):
            values_by_column.setdefault(column, {})[name] = sorted(
                set(frame[column].map(condition_text))
            )
    for column, values in values_by_column.items():
        if len({tuple(entries) for entries in values.values()}) > 1:
            texts = "; ".join(f"{name}: {', '.join(entries)}" for name, entries in values.items())
            raise DataError(
                f"recipes need one loss, measured alike; they differ in {column} ({texts}); name "
                f"a column that all have with {argument('loss', ...)}, or evaluate them alike."
            )


def rates_at(runs: Runs, size: Mapping[str, float]) -> int | None:
    """How many learning rates the complete runs of a size have; None without such a column."""
    frame = runs.of_stage("tune").complete().to_frame()
    rate = next((column for column in RATE_NAMES if column in frame), None)
    if rate is None:
        return None
    is_there = np.all([np.isclose(frame[c], v) for c, v in size.items()], axis=0)
    return int(frame.loc[is_there, rate].nunique())


def _check_losses(name: str, frame: pd.DataFrame) -> None:
    losses = frame.loc[frame["status"].eq("complete"), "loss"].astype(float)
    wild = losses[~losses.between(*LOSS_RANGE)]
    if len(wild):
        raise DataError(
            f"losses must lie between {LOSS_RANGE[0]:g} and {LOSS_RANGE[1]:g}, {name!r} has "
            f"{wild.iloc[0]:g}; check the loss column or its unit."
        )


def _check_undeclared(name: str, arms: Mapping[str, Runs], measured: Iterable[str]) -> None:
    """Refuse a mixture: runs of one recipe that differ in what nobody said is tuned.

    Values are offered that every recipe has: another one would leave nothing to compare.
    """
    runs = arms[name].of_stage("tune")
    ignored = [column for (column,) in values_of(runs.notes, POOLED)]
    frame = runs.to_frame()
    if not frame["seed"].astype(str).str.startswith(WITHOUT_SEED).any():
        texts = frame[[c for c in frame if c not in (*runs.sizes, *runs.tuned)]].astype(str)
        ignored += texts.columns[texts.nunique() > len(frame) / 2].tolist()  # measured, not set
    rule = f"a comparison is of single recipes, {name!r} of {runs.source or 'the runs'}"
    try:
        refuse_mixtures(runs, ignored=[*ignored, *measured], rule=rule)
    except DataError as error:
        frames = [arm.to_frame() for arm in arms.values()]
        choices = [c for c in error.choices if all(_has(f, c.arguments) for f in frames)]
        raise DataError(error.args[0], choices) from None


def _has(frame: pd.DataFrame, arguments: Mapping[str, Any]) -> bool:
    """Whether any run has the values that a choice selects."""
    is_there = pd.Series(data=True, index=frame.index)
    for name, value in arguments.get("where", {}).items():
        column = find_column(name, list(map(str, frame)), "the runs")
        is_there &= column is not None and frame[column].map(condition_text).eq(value)
    return bool(is_there.any())


def without_copied_rows(arms: Mapping[str, Runs]) -> tuple[dict[str, Runs], list[str]]:
    """Recipes whose copied rows count once, and notes that say so.

    Copies that have a seed are averaged with their original and change nothing; without one each
    would pass for a seed of its own.
    """
    distinct_arms, notes = {}, []
    for name, runs in arms.items():
        notes += [f"{name}: {note}" for note in of_codes(runs.notes, COPIES_LEFT_OUT)]
        distinct_runs = runs.with_seedless_once()
        n_left_out = len(runs) - len(distinct_runs)
        if n_left_out:
            notes.append(
                f"{name}: {n_left_out} run(s) without a seed repeat size, tuned values and "
                "loss of an earlier one; copies count once."
            )
        distinct_arms[name] = distinct_runs
    return distinct_arms, notes
