"""A log of experiments: one row per experiment, with a metric and whether the change was kept.

Programs that propose changes all night write such logs, and so do tables of records.

| column | known by its name |
|---|---|
| decision | `status`, `decision`, `outcome`, `kept` …, and its words, see `decisions` |
| what was changed | `description`, `change`, `title`, `idea`, `name` … |
| commit | `commit`, `sha`, `hash`, `id` |
| metric | as the loss of `read_runs`; smaller is better |
| base, repeated run | `base` or `parent`, `repeat_of` or `recipe`; else see `repeated_recipes` |
| size | as there, where runs of one recipe differ in it |

A crash, and a metric that is missing, not finite or 0, is a failed run.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.cells import is_empty, joint, levels_of, numbers_of, read_numbers
from extrap.reading.columns import require_column
from extrap.reading.contents import Contents
from extrap.reading.decisions import (
    DESCRIPTION_NAMES,
    NEITHER,
    column_name,
    decision_column,
    plain_status,
    read_decisions,
)
from extrap.reading.experiment_checks import (
    TIME_NAMES,
    check_data,
    oldest_first,
    without_copied_rows,
)
from extrap.reading.experiment_losses import check_units, losses_of, metric_column
from extrap.reading.names import kinds_of, split_words
from extrap.reading.repeated_recipes import LogRow, Recipes, recipes_of
from extrap.reading.selecting import selected_rows, with_definitions
from extrap.reading.sources import read_rows

COMMIT_NAMES = split_words("commit commit_hash git_commit sha git_sha hash revision rev id run_id")
"""Columns that identify an experiment, the likeliest first."""
LABEL_NAMES = split_words(
    "id run_id experiment experiment_id exp exp_id trial iteration number no"
)
"""Columns of what a base may be called beside its commit and description."""
BASE_NAMES = split_words(
    "base parent base_commit parent_commit parent_id base_id parent_sha base_sha parent_hash"
)
"""Columns of what an experiment was built on."""
REPEAT_NAMES = split_words("repeat_of repeats rerun_of replicate_of")
"""Columns of what an experiment repeats."""
SIZE_KINDS = ("params", "tokens", "examples", "compute", "width", "depth")
"""Kinds of sizes, the likeliest first."""
LEAST_LADDER_RATIO = 1.2
"""Runs of one recipe whose sizes differ by less are of one size: a fixed time gives tokens that
differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One row of a log.

    Attributes:
        row: Number of the row in the file, from 1.
        name: What was changed.
        commit: Its commit; empty where there is none.
        loss: Its loss; None where it failed.
        decision: `keep`, `discard`, `crash`, `repeat`, or empty.
        recipe: Index of its recipe.
        base: Index of the recipe that its recipe was built on; -1 for the first.
        size: Size column → value; empty where all are of one size.
    """

    row: int
    name: str
    commit: str
    loss: float | None
    decision: str
    recipe: int
    base: int
    size: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentLog:
    """Experiments in the order in which they were made.

    Attributes:
        experiments: One per row.
        recipes: Name of each recipe; the first is the one that the log began with.
        bases: Index of the recipe that each was built on; -1 for the first.
        metric: Column of the losses.
        source: What to call the log.
        columns: `commit`, `status`, `description` → the column of the log, where it has one.
        notes: What reading had to decide, one sentence each.
    """

    experiments: tuple[Experiment, ...]
    recipes: tuple[str, ...]
    bases: tuple[int, ...]
    metric: str
    source: str
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def data_hash(self) -> str:
        """SHA-256 of the experiments."""
        rows = [astuple(experiment) for experiment in self.experiments]
        return hashlib.sha256(json.dumps([self.metric, rows]).encode()).hexdigest()


def is_experiment_log(table: pd.DataFrame) -> bool:
    """Whether a table has a column that says which changes were kept, and is no sweep."""
    return len(table) > 0 and decision_column(table) is not None


def log_is_no_sweep(where: str) -> DataError:
    """The error to raise where a log of experiments is to be read as a sweep."""
    path = shlex.quote(where) if Path(where).is_file() else "FILE"
    return DataError(
        f"a sweep has runs of several sizes, {where} is a log of experiments that were kept or "
        f"discarded; compare them with extrap compare {path}."
    )


def read_experiment_log(
    source: Any,
    *,
    loss: str = "",
    maximise: str = "",
    statuses: Mapping[str, str] | None = None,
    sizes: Sequence[str] = (),
    where: Mapping[str, object] | None = None,
    rename: Mapping[str, str] | None = None,
    let: Sequence[str] = (),
) -> ExperimentLog:
    """Read a log of experiments.

    Args:
        source: A table as `read_runs` takes, one row per experiment.
        loss: Column of the metric; default by name.
        maximise: Instead of it, a metric that is better when larger: see `reading.losses`. It has
            no effect beside another loss.
        statuses: Word of the log → `keep`, `discard`, `crash` or `repeat`.
        sizes: Size columns; default by name, where runs of one recipe differ.
        where: Column → value or values that its rows must have.
        rename: Old name → new name of columns.
        let: New columns by formula, after `rename`.

    Raises:
        ValueError: A word is to mean what is no decision.
        DataError: The table is no log, or its losses cannot be compared.
    """
    table, notes = read_rows(source, rename=rename)
    name = str(source) if isinstance(source, str | Path) else "the log"
    table, selected = selected_rows(with_definitions(table, let, name), where or {}, name)
    column = decision_column(table, is_log=True)
    if column is None:
        raise DataError(
            f"a log of experiments says which changes were kept, no column of {name} does; give "
            "it a column status with keep, discard or crash in every row."
        )
    if len(table) < 2:
        raise DataError(f"a log needs two experiments or more, {name} has one; add rows.")
    decisions = read_decisions(table, column, statuses or {}, name)
    table, ordered = oldest_first(table, _described(table), decisions.eq("keep"))
    table, copied = without_copied_rows(table, _named(table, (*COMMIT_NAMES, *TIME_NAMES)))
    decisions = decisions[table.index]
    contents = Contents(table=table, where=name)
    is_maximised = bool(maximise) and loss in ("", maximise)
    metric = require_column(
        maximise if is_maximised else metric_column(contents, loss),
        contents.have,
        name,
        option="maximise" if is_maximised else "loss",
        is_metric=True,
    )
    losses, loss_notes = losses_of(table, metric, decisions, name, is_maximised=is_maximised)
    check_data(table[losses.notna()], metric, name)
    rows = _rows(table, decisions, losses, column)
    recipes = recipes_of(rows, name)
    of_rows = pd.Series([recipes.of_rows[row.row] for row in rows], index=table.index)
    size_columns = [require_column(s, contents.have, name, option="size") for s in sizes]
    size_values = _sizes(table, size_columns or _ladder(table, of_rows, losses), losses)
    check_units(losses, size_values, metric, name)
    return ExperimentLog(
        experiments=_experiments(rows, losses, recipes, size_values),
        recipes=tuple(recipes.names),
        bases=tuple(recipes.bases),
        metric=metric,
        source=name,
        columns=_columns(table, column),
        notes=(*notes, *selected, *ordered, *copied, *loss_notes, *recipes.notes()),
    )


def _experiments(
    rows: Sequence[LogRow], losses: pd.Series, recipes: Recipes, sizes: pd.DataFrame
) -> tuple[Experiment, ...]:
    first = next(row for row in rows if row.has_loss)
    return tuple(
        Experiment(
            row=row.row,
            name=row.name,
            commit=row.commit,
            loss=float(losses[i]) if row.has_loss else None,
            decision="keep" if row is first and row.decision == "repeat" else row.decision,
            recipe=recipes.of_rows[row.row],
            base=recipes.bases[recipes.of_rows[row.row]],
            size={str(c): float(v) for c, v in sizes.loc[i].items() if v > 0},
        )
        for i, row in zip(losses.index, rows, strict=True)
    )


def _named(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The columns of these names that are not empty, the likeliest first."""
    there = [str(c) for c in table if column_name(str(c)) in names and _texts(table[c]).any()]
    return sorted(there, key=lambda c: names.index(column_name(c)))


def _texts(cells: pd.Series) -> pd.Series:
    """Cells as text in one line, empty where they are; a whole number as such."""
    texts = cells.astype(object).where(~is_empty(cells) & cells.notna(), "").astype(str)
    return texts.map(lambda text: re.sub(r"^(\d+)\.0$", r"\1", " ".join(text.split())))


def _description_column(table: pd.DataFrame) -> str | None:
    for column in _named(table, DESCRIPTION_NAMES):
        texts = _texts(table[column])
        if pd.isna(numbers_of(texts[texts != ""])).any():
            return column
    return None


def _described(table: pd.DataFrame) -> pd.Series:
    """What each row says was changed; empty where there is no such column."""
    column = _description_column(table)
    return pd.Series("", index=table.index) if column is None else _texts(table[column])


def _columns(table: pd.DataFrame, decision_column: str) -> dict[str, str]:
    """What names a run in a log → the column of the log."""
    commits = [column for column in _named(table, COMMIT_NAMES) if column != decision_column]
    columns = {"commit": next(iter(commits), None), "status": decision_column}
    columns["description"] = _description_column(table)
    return {part: column for part, column in columns.items() if column is not None}


def _rows(
    table: pd.DataFrame, decisions: pd.Series, losses: pd.Series, column: str
) -> list[LogRow]:
    """What each row says of its recipe."""
    texts = {"description": _described(table)}
    names = {"commit": COMMIT_NAMES, "label": LABEL_NAMES}
    names |= {"base": BASE_NAMES, "repeat_of": REPEAT_NAMES, "recipe": ("recipe",)}
    for part, columns in names.items():
        named = [c for c in _named(table, columns) if c != column]
        texts[part] = _texts(table[named[0]]) if named else pd.Series("", index=table.index)
    return [
        LogRow(
            row=int(i) + 1,
            decision="" if decisions[i] == NEITHER else decisions[i],
            status=plain_status(table.loc[i, column]),
            has_loss=bool(pd.notna(losses[i])),
            **{part: cells[i] for part, cells in texts.items()},
        )
        for i in table.index
    ]


def _ladder(table: pd.DataFrame, recipes: pd.Series, losses: pd.Series) -> list[str]:
    """The size columns of a log in which some recipe was run at several sizes."""
    kinds = kinds_of(map(str, table))
    is_there, chosen = losses.notna(), list[str]()
    for column in sorted(kinds, key=lambda c: [*SIZE_KINDS, kinds[c]].index(kinds[c])):
        values = pd.Series(numbers_of(table[column]), index=table.index)[is_there]
        if kinds[column] not in SIZE_KINDS or not (values > 0).all():
            continue
        of_recipes = values.groupby(recipes[is_there])
        is_ladder = (of_recipes.max() / of_recipes.min()).gt(LEAST_LADDER_RATIO).any()
        if is_ladder and not (chosen and _follows(column, chosen, table[is_there])):
            chosen.append(column)
    return chosen


def _follows(column: str, others: Sequence[str], table: pd.DataFrame) -> bool:
    """Whether rows that agree in the other columns agree in it."""
    return levels_of(table[column]).depends_on(joint(*(levels_of(table[c]).codes for c in others)))


def _sizes(table: pd.DataFrame, columns: Sequence[str], losses: pd.Series) -> pd.DataFrame:
    """The size of each experiment, in columns; those that failed may have none."""
    values = {c: read_numbers(table[c], c) for c in columns}
    for column, numbers in values.items():
        read_numbers(table.loc[losses.notna(), column], column, required=True)
        values[column] = numbers
    return pd.DataFrame(values, index=table.index)
