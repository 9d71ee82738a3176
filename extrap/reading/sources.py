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
from extrap.reading.found import Found, joined
from extrap.reading.frames import is_table
from extrap.reading.selecting import Where, selected_rows, with_definitions
from extrap.reading.settings import name_column
from extrap.reading.table_files import read_table
from extrap.reading.trackers.folders import find_on_disk
from extrap.reading.trackers.histories import check_rows_are_runs, read_history
from extrap.reading.trackers.wandb import are_runs, read_project, read_run_objects
from extrap.reading.wide_tables import check_layout, without_repeated_header
from extrap.records import Runs

SERVERS = ("http://", "https://", "mlflow+")
DATABASES = (".db", ".sqlite", ".sqlite3")


def find_runs(
    source: Any,
    *,
    study: str | None = None,
    stage: str = "tune",
    sizes: Sequence[str] = (),
    settings: Sequence[str] = (),
    curves: str | Path | pd.DataFrame | None = None,
) -> Found:
    """Read a source as whatever it is.

    The sizes and the settings, which are the tuned values, conditions and the seed that were asked
    for, tell a table of steps from one of runs.

    Raises:
        DataError: There is nothing that can be read.
        ValueError: Curves were handed in beside a source that has its own.
    """
    found = _found(source, study=study, stage=stage)
    if found is not None and curves is not None:
        raise ValueError(
            "a storage holds the curves of its runs, and so does a tracker; leave "
            f"{argument('curves')} out."
        )
    if found is not None:
        return found
    table, notes = without_repeated_header(read_table(source))
    where, known = _place(source), (*sizes, *settings)
    check_layout(table, where)
    if curves is None:
        if history := read_history(table, where, known):
            return history
        if sizes:
            check_rows_are_runs(table, known)
    return Found(
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
    found = pd.DataFrame(
        {
            "run": _as_names(points["run"]).map(pd.Series(range(len(runs)), index=runs)),
            "step": read_numbers(points["step"], "step", required=True),
            "value": pd.to_numeric(points["loss"], errors="coerce"),
        }
    ).dropna(subset="run")
    if found.empty:
        got = shown(points["run"].iloc[0]) if len(points) else "no row"
        raise DataError(
            "the curves belong to none of the runs: their run column must hold the values of the "
            f"table's run column, or its row numbers from 0; got {got}."
        )
    return found.astype({"run": int}).reset_index(drop=True)


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
    place, notes = _place(source), list[str]()
    if _are_sources(source):
        parts = [read_rows(part) for part in source]
        table = pd.concat([rows for rows, _ in parts], ignore_index=True)
        notes += [note for _, some in parts for note in some]
    elif (found := _found(source)) is not None:
        table, place = found.table, found.where
    else:
        table, notes = without_repeated_header(read_table(source))
    if table.empty:
        raise DataError(f"a table needs at least one row, {place} has none.")
    table = Found(table=table, where=place).renamed(rename or {}).table
    table = with_definitions(table, [let] if isinstance(let, str) else list(let), place)
    table, selected = selected_rows(table, where or {}, place)
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
    return any(
        all(map(is_one, source))
        for is_one in (
            lambda part: isinstance(part, str | Path),
            lambda part: isinstance(part, Runs),
            lambda part: is_table(part) and not isinstance(part, Mapping | list | tuple),
        )
    )


def _are_studies(source: Any) -> bool:
    """Whether it is a study of Optuna's, or a list of them."""
    items = source if isinstance(source, list | tuple) else [source]
    optuna = sys.modules.get("optuna")  # who has a study has imported it
    return optuna is not None and bool(items) and all(isinstance(i, optuna.Study) for i in items)


def _found(source: Any, *, study: str | None = None, stage: str = "tune") -> Found | None:
    """What a storage or a tracker has; None of a table. Each is imported where it is needed."""
    if isinstance(source, str | Path):
        address = _address(source)
        if address is None:
            return find_on_disk(Path(source), study=study)
        return _at_address(address, study=study, stage=stage)
    if isinstance(source, Runs):
        curves = source.curves()
        return Found(
            table=source.to_frame(),
            where=source.source or _place(source),
            points=None if curves is None else curves.rename(columns={"loss": "value"}),
            sizes=source.sizes,
            tuned=source.tuned,
            notes=source.notes,
        )
    if _are_sources(source):
        parts = [find_runs(part, study=study, stage=stage) for part in source]
        return joined(parts, _place(source))
    if _are_studies(source):
        from extrap.reading.optuna import find_studies

        studies = source if isinstance(source, list | tuple) else [source]
        return find_studies(studies, _place(source), study=study, stage=stage)
    return read_run_objects(source) if are_runs(source) else None


def _at_address(address: str, *, study: str | None, stage: str) -> Found:
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


def _address(source: str | Path) -> str | None:
    """The address of a storage, of a file that is a database too; None of anything else."""
    text = str(source)
    if isinstance(source, str) and text.startswith("file:///"):
        return None
    if isinstance(source, str) and "://" in text:
        return text
    if text.lower().endswith(DATABASES) and not Path(text).is_dir():
        return f"sqlite:///{text}"
    return None


def _place(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, pd.DataFrame | Runs):
        return f"the {type(source).__name__}"
    if _are_studies(source):
        is_list = isinstance(source, list | tuple)
        return f"the list of {len(source)} studies" if is_list else f"study {source.study_name}"
    if isinstance(source, list | tuple):
        return f"the list of {'sources' if _are_sources(source) else 'runs'}"
    if is_table(source):
        return f"the {type(source).__module__.partition('.')[0]} frame"
    return "the standard input"
