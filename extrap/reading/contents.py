"""What a source holds before anybody says what its columns mean: a table of runs, and points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.cells import is_empty
from extrap.reading.columns import require_column
from extrap.reading.frames import frame_of_rows
from extrap.reading.logged_rates import with_logged_rates
from extrap.reading.names import RATE_NAMES, SETTINGS_IN_RUN_NAMES, known_name, synonyms
from extrap.reading.settings import number_in, settings_in, words_in_names
from extrap.records.notes import ELSEWHERE, note

TABLE_COLUMNS = ("run", "status", "stage")
"""Columns that a table of runs has anyway; a tracker's setting of that name is `config.NAME`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    """A table of runs, the points of their curves, and what the source knows of them.

    Attributes:
        table: One row per run, cells as they are; a metric's column has its last values.
        where: What to call the source in a message.
        points: One row per point: `run` (row of the table), `step`, `metric` and `value`; without
            `metric` they are of whichever is the loss. A function: a server gives those of one.
        logged: Column of the table → the metric of its points; empty: they have the same names.
        notes: What reading had to decide, one sentence each.
        sizes: Size columns, where the source says which they are.
        tuned: Tuned columns, where the source says which they are; None where it does not.
        losses: Columns to take the loss from if none is named: the first there is.
        metrics: Columns that were measured, where the source says which they are.
        maximised: Columns of metrics that the source says are better when larger.
        names: The column of the runs' names, in which settings may stand.
    """

    table: pd.DataFrame
    where: str
    points: pd.DataFrame | Callable[[str], pd.DataFrame] | None = None
    logged: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    tuned: tuple[str, ...] | None = None
    losses: tuple[str, ...] = ("loss",)
    metrics: tuple[str, ...] = ()
    maximised: tuple[str, ...] = ()
    names: str | None = None

    @property
    def have(self) -> list[str]:
        """The names of the columns."""
        return [str(column) for column in self.table]

    def curves(self, metric: str, *, ask: bool = True) -> pd.DataFrame | None:
        """Columns `run`, `step` and `loss` of a metric's column; None where there are none."""
        points = self.points
        logged = self.logged.get(metric, "") if self.logged else metric  # none of a new column
        if callable(points):
            points = points(logged) if ask and logged else None
        elif points is not None and "metric" in points:
            points = points[points["metric"].eq(logged)]
        if points is None or points.empty:
            return None
        curves = points.drop(columns="metric", errors="ignore").rename(columns={"value": "loss"})
        return curves.reset_index(drop=True)

    def renamed(self, names: Mapping[str, str]) -> Contents:
        """The same with columns under other names, old name → new name.

        Raises:
            DataError: A column is missing, or has the new name already.
        """
        columns: dict[str, str] = {}
        for old, name in names.items():
            column = require_column(old, self.have, self.where)
            if name in self.table or name in columns.values():
                raise DataError(
                    f"a column is renamed to a new name, {self.where} has {name!r} already; "
                    "choose another name."
                )
            columns[column] = name

        fields = ("sizes", "tuned", "losses", "metrics", "maximised")
        return replace(
            self,
            table=self.table.rename(columns=columns),
            logged={columns.get(c, c): self.logged.get(c, c) for c in self.have},
            names=self.names and columns.get(self.names, self.names),
            **renamed_in(self, fields, columns),
        )


def renamed_in(record: Any, fields: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Fields of a record that list columns, those that are given, with their new names."""
    columns_of = {field: getattr(record, field) for field in fields}
    return {
        f: tuple(names.get(c, c) for c in columns)
        for f, columns in columns_of.items()
        if columns is not None
    }


def joined(parts: Sequence[Contents], where: str) -> Contents:
    """The rows and points of several sources, one after the other; no server is asked."""
    starts = accumulate((len(part.table) for part in parts), initial=0)
    points = [
        part.points.assign(run=part.points["run"] + start)
        for part, start in zip(parts, starts, strict=False)
        if isinstance(part.points, pd.DataFrame)
    ]
    return replace(
        parts[0],
        table=pd.concat([part.table for part in parts], ignore_index=True),
        where=where,
        points=pd.concat(points, ignore_index=True) if points else None,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def points_of(run: Any, step: pd.Series, values: pd.DataFrame) -> pd.DataFrame:
    """The points of rows that are steps, a column for each metric.

    An empty cell was not logged; text that is no number is not finite.
    """
    rows = pd.DataFrame({"run": run, "step": _numbers(step)}, index=step.index)
    parts = [
        rows.assign(metric=metric, value=_numbers(cells))[~is_empty(cells)]
        for metric, cells in values.items()
    ]
    points = pd.concat(parts) if parts else rows[:0].assign(metric="", value=0.0)
    return points.dropna(subset="step").reset_index(drop=True)


def _numbers(cells: pd.Series) -> pd.Series:
    return pd.to_numeric(cells.astype(object), errors="coerce").astype(float)


def run_name(root: Path, home: Path) -> str:
    """What a run is called, by its folder below the one that is read."""
    is_below = home != root and home.is_relative_to(root)
    return str(home.relative_to(root)) if is_below else home.name


def tracked(
    runs: Sequence[tuple[str, Mapping[str, Any], str]],
    points: pd.DataFrame | Callable[[str], pd.DataFrame],
    *,
    where: str,
    summaries: Sequence[Mapping[str, Any]] | None = None,
    losses: tuple[str, ...] = ("loss",),
    notes: Iterable[str] = (),
) -> Contents:
    """Runs of a tracker as a table: what was set, and the last value of every metric.

    What was logged under the name of a setting, as the course of a learning rate, is a metric.

    `runs` are the name of each, its settings, and how it ended in the tracker's word, if known;
    `run` of a point is the place there. Last values are those of the summaries, where the tracker
    has some.

    Raises:
        DataError: There are none.
    """
    if not runs:
        raise DataError(f"{where} holds no run with a metric; check the path.")
    if summaries is None:
        summaries = _last_values(points, len(runs))
    metrics = dict.fromkeys(metric for summary in summaries for metric in summary)
    reserved = {*TABLE_COLUMNS, *(name for _, settings, _ in runs for name in settings)} - {
        *losses
    }
    called = {metric: f"summary.{metric}" if metric in reserved else metric for metric in metrics}
    rows = [
        {
            "run": name,
            "status": status,
            **{
                f"config.{k}" if k in metrics or k in TABLE_COLUMNS else k: v
                for k, v in settings.items()
            },
            **{called[metric]: value for metric, value in summary.items()},
        }
        for (name, settings, status), summary in zip(runs, summaries, strict=True)
    ]
    contents = Contents(
        table=frame_of_rows(rows),
        where=where,
        points=points,
        logged={new: metric for metric, new in called.items()},
        notes=tuple(notes),
        losses=losses,
        metrics=tuple(called.values()),
        names="run",
    )
    setting_columns = [
        *_in_names(contents)[0],
        *(c for c in contents.table if c not in contents.metrics),
    ]
    rates = {
        column: contents.logged[column]
        for column in contents.metrics
        if known_name(column) in RATE_NAMES and not column.startswith("summary.")
    }
    if not rates or callable(points):
        return contents
    is_known = any(known_name(column) in RATE_NAMES for column in setting_columns)
    table, rate_notes = with_logged_rates(contents.table, points, rates, is_known=is_known)
    others = tuple(column for column in contents.metrics if column not in rates)
    return replace(contents, table=table, metrics=others, notes=(*contents.notes, *rate_notes))


def with_named_settings(contents: Contents) -> Contents:
    """A source with the settings that stand in the names of its runs, `width=64,lr=0.01`.

    Of words before a number, `run-h64-lr0.01`, those are read that are called a tuned value or a
    seed, and of which no column tells.
    """
    new, notes = _in_names(contents)
    return replace(contents, table=contents.table.assign(**new), notes=(*contents.notes, *notes))


def _in_names(contents: Contents) -> tuple[dict[str, list[Any]], list[str]]:
    """The settings in the names of runs, and notes on those that are no `key=value`."""
    new, notes = dict[str, list[Any]](), list[str]()
    if contents.names is None or contents.table.empty:
        return new, notes
    have = {
        c for c in contents.table if not (c in contents.metrics and known_name(c) in RATE_NAMES)
    }
    names = contents.table[contents.names].astype(str).tolist()
    first = settings_in(names[0])
    pairs = [settings_in(name) for name in names] if first else []
    for key in first:
        if key not in have and all(key in settings for settings in pairs):
            new[key] = [settings[key] for settings in pairs]
    known_names = {known_name(c) for c in (*(have - {*contents.metrics}), *new)}
    for word in words_in_names(names):
        if word in SETTINGS_IN_RUN_NAMES and not known_names & {word, *synonyms(word)}:
            new[word] = [number_in(name, word) for name in names]
            notes.append(note(ELSEWHERE, word, "names of the runs"))
    return new, notes


def _last_values(points: pd.DataFrame, n_runs: int) -> list[dict[str, float]]:
    """Metric → value of the last step, of each run; of two of one step the later counts."""
    ordered = points.sort_values("step", kind="stable")
    last = ordered.drop_duplicates(["run", "metric"], keep="last")
    by_run = {
        run: run_points.set_index("metric")["value"] for run, run_points in last.groupby("run")
    }
    return [by_run[run].to_dict() if run in by_run else {} for run in range(n_runs)]
