"""What a source is, by its scheme, its ending or the files in the folder.

| source | is read as |
|---|---|
| `….csv`, `….parquet`, `….json`, `….jsonl`, open text | a table |
| a frame, a list of dictionaries, `Runs` | a table |
| an Optuna study, a list of them | its trials |
| `sqlite:///…`, `….db`, `postgresql://…` | an Optuna storage, or an MLflow store |
| `http://…`, `https://…`, `mlflow+…` | an MLflow tracking server or store |
| `wandb://ENTITY/PROJECT`, a list of run objects | runs of W&B |
| a folder | what it holds: MLflow, HF Trainer, Lightning or TensorBoard |
| a list of paths, of frames or of `Runs` | their rows, one after the other |
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError, argument, shown
from extrap.reading.cells import read_numbers
from extrap.reading.columns import find_column, missing_column, require_column
from extrap.reading.contents import Contents, joined
from extrap.reading.frames import is_table
from extrap.reading.request import Request, Where
from extrap.reading.selecting import selected_rows, with_definitions
from extrap.reading.settings import name_column
from extrap.reading.table_files import read_table
from extrap.reading.trackers.folders import find_on_disk
from extrap.reading.trackers.histories import check_rows_are_runs, read_history
from extrap.reading.trackers.wandb import are_runs, read_project, read_run_objects
from extrap.reading.wide_tables import check_layout, without_repeated_header
from extrap.records import Runs

SERVERS = ("http://", "https://", "mlflow+")
"""Beginnings of the addresses that MLflow opens."""
DATABASES = (".db", ".sqlite", ".sqlite3")
"""Endings of SQLite files."""


def find_runs(source: Any, request: Request) -> Contents:
    """Read a source as whatever it is.

    The settings that were asked for tell a table of steps from one of runs.

    Raises:
        DataError: There is nothing that can be read.
        ValueError: Curves were handed in beside a source that has its own.
    """
    contents, curves = _tracker_contents(source, request), request.curves
    if contents is not None and curves is not None:
        raise ValueError(
            "a storage holds the curves of its runs, and so does a tracker; leave "
            f"{argument('curves')} out."
        )
    if contents is not None:
        return contents
    table, notes = without_repeated_header(read_table(source))
    where = _source_name(source)
    settings = (*request.size, *(request.tune or ()), *request.conditions, request.seed)
    check_layout(table, where)
    if curves is None:
        if history := read_history(table, where, settings):
            return history
        if request.size:
            check_rows_are_runs(table, settings)
    return Contents(
        table=table,
        where=where,
        points=None if curves is None else read_curves(curves, table),
        notes=tuple(notes),
        names=name_column(table),
    )


def read_curves(source: str | Path | pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The points of the runs in a table, `run` replaced by the row.

    Points of runs that are not in the table are left out: one file may serve the sweep and the
    larger runs. A loss that is no number stays, as a sign of instability.

    Returns:
        Columns `run` (row of the table), `step`, `value`.

    Raises:
        DataError: A column is missing, a step is no number, two runs have one name, or no point
            belongs to any run.
    """
    points = read_table(source)
    for column in ("run", "step", "loss"):
        if column not in points:
            raise missing_column(column, list(points), "the table of curves")
    runs = _as_names(table["run"] if "run" in table else pd.Series(range(len(table))))
    for name in runs[runs.duplicated()]:
        raise DataError(
            f"each run needs a name of its own where it has a curve, {shown(name)} occurs twice; "
            "make the run column of the table unique."
        )
    curve_points = pd.DataFrame(
        {
            "run": _as_names(points["run"]).map(pd.Series(range(len(runs)), index=runs)),
            "step": read_numbers(points["step"], "step", required=True),
            "value": pd.to_numeric(points["loss"], errors="coerce"),
        }
    ).dropna(subset="run")
    if curve_points.empty:
        got = shown(points["run"].iloc[0]) if len(points) else "no row"
        raise DataError(
            "the curves belong to none of the runs: their run column must hold the values of the "
            f"table's run column, or its row numbers from 0; got {got}."
        )
    return curve_points.astype({"run": int}).reset_index(drop=True)


def _as_names(values: pd.Series) -> pd.Series:
    """Names of runs as text; `3` and `3.0` are one."""
    return values.astype(str).str.strip().str.removesuffix(".0")


def read_rows(
    source: Any,
    let: str | Iterable[str] = (),
    *,
    where: Where | None = None,
    rename: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of what `read_runs` takes, and a note on what was left out.

    For analyses of other things than a sweep's losses; the keywords are as there.

    Raises:
        TypeError: As `read_runs`.
        DataError: The source cannot be read or is empty, a column is missing, no row has a value
            that is asked for, or a formula cannot be evaluated.
    """
    source_name, notes = _source_name(source), list[str]()
    if _are_sources(source):
        parts = [read_rows(part) for part in source]
        table = pd.concat([rows for rows, _ in parts], ignore_index=True)
        notes += [note for _, some in parts for note in some]
    elif (contents := _tracker_contents(source, Request())) is not None:
        table, source_name = contents.table, contents.where
    else:
        table, notes = without_repeated_header(read_table(source))
    if table.empty:
        raise DataError(f"a table needs at least one row, {source_name} has none.")
    table = Contents(table=table, where=source_name).renamed(rename or {}).table
    table = with_definitions(table, [let] if isinstance(let, str) else list(let), source_name)
    table, selected = selected_rows(table, where or {}, source_name)
    return table.reset_index(drop=True), [*notes, *selected]


def read_cells(source: Any, columns: Sequence[str], what: str) -> pd.DataFrame:
    """Runs that are still to be trained, one per row: `columns` as numbers, `seed` as it is.

    The columns go by the names that `read_runs` knows.

    Raises:
        TypeError: As `read_runs`.
        DataError: The source cannot be read or is empty, or lacks a column or a number.
    """
    table, _ = read_rows(source)
    have = [str(column) for column in table]
    cells = {
        name: read_numbers(table[require_column(name, have, what)], name, required=True)
        for name in columns
    }
    seed = None if "seed" in cells else find_column("seed", have, what)
    return pd.DataFrame(cells if seed is None else {**cells, "seed": table[seed]})


def _are_sources(source: Any) -> bool:
    """Whether it is a list of paths, of frames or of `Runs`, all of one kind."""
    if not isinstance(source, list | tuple) or not source:
        return False
    rows = (Mapping, list, tuple)
    are_frames = all(is_table(one) and not isinstance(one, rows) for one in source)
    return are_frames or any(all(isinstance(i, k) for i in source) for k in (str | Path, Runs))


def _studies(source: Any) -> list[Any]:
    """The studies of Optuna's that it is, one or a list of them; none of anything else."""
    items = [*source] if isinstance(source, list | tuple) else [source]
    optuna = sys.modules.get("optuna")  # who has a study has imported it
    are_all = optuna is not None and all(isinstance(item, optuna.Study) for item in items)
    return items if are_all else []


def _tracker_contents(source: Any, request: Request) -> Contents | None:
    """What a storage or a tracker has; None of a table. Each is imported where it is needed."""
    if isinstance(source, str | Path):
        return _contents_at(source, request.study, request.stage)
    if isinstance(source, Runs):
        curves = source.curves()
        return Contents(
            table=source.to_frame(),
            where=source.source or _source_name(source),
            points=None if curves is None else curves.rename(columns={"loss": "value"}),
            sizes=source.sizes,
            tuned=source.tuned,
            notes=source.notes,
        )
    if _are_sources(source):
        of_part = Request(study=request.study, stage=request.stage, seed="")
        return joined([find_runs(part, of_part) for part in source], _source_name(source))
    if studies := _studies(source):
        from extrap.reading.optuna import find_studies

        return find_studies(
            studies, _source_name(source), study=request.study, stage=request.stage
        )
    return read_run_objects(source) if are_runs(source) else None


def _contents_at(source: str | Path, study: str | None, stage: str) -> Contents | None:
    """What stands at an address, and a file that is a database has one, or at a path."""
    address, is_text = str(source), isinstance(source, str)
    is_file = is_text and address.startswith("file:///")
    if is_file or not (is_text and "://" in address):
        if is_file or not address.lower().endswith(DATABASES) or Path(address).is_dir():
            return find_on_disk(Path(source), study=study)
        address = f"sqlite:///{address}"
    if address.startswith("wandb://"):
        return read_project(address)
    if address.startswith(SERVERS):
        from extrap.reading.trackers.mlflow import read_store

        return read_store(address, study=study)
    if address.startswith("sqlite:///"):
        from extrap.reading.trackers.mlflow import is_database, read_copy

        path = Path(address.removeprefix("sqlite:///").partition("?")[0])
        if is_database(path):
            return read_copy(path, study=study)
    from extrap.reading.optuna import find_study

    return find_study(address, study=study, stage=stage)


def _source_name(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, pd.DataFrame | Runs):
        return f"the {type(source).__name__}"
    if studies := _studies(source):
        is_list = isinstance(source, list | tuple)
        return f"the list of {len(studies)} studies" if is_list else f"study {source.study_name}"
    if isinstance(source, list | tuple):
        return f"the list of {'sources' if _are_sources(source) else 'runs'}"
    if is_table(source):
        return f"the {type(source).__module__.partition('.')[0]} frame"
    return "the standard input"
