"""What a source is: told by its scheme, its ending or what lies in the folder.

| source | is read as |
|---|---|
| `….csv`, `….parquet`, `….jsonl`, open text | a table |
| a frame, a list of dictionaries | a table |
| `sqlite:///…`, `….db`, `journal://…`, `postgresql://…` | an Optuna storage, or an MLflow store |
| `http://…`, `https://…`, `mlflow+…` | an MLflow tracking server or store |
| `wandb://ENTITY/PROJECT`, a list of run objects | runs of W&B |
| a folder | what it holds: MLflow, W&B, HF Trainer, Lightning or TensorBoard |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import argument
from extrap.reading.curves import read_curves
from extrap.reading.found import Found
from extrap.reading.frames import is_table
from extrap.reading.tables import read_table
from extrap.reading.trackers.folders import find_in_folder, kind_of_file, read_files
from extrap.reading.trackers.histories import check_rows_are_runs, history_of, is_history
from extrap.reading.trackers.wandb_runs import are_runs, read_project, read_run_objects

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

    Args:
        source: What `read_runs` takes.
        study: The study or experiment, where a storage holds several.
        stage: `tune` or `check`, by which studies of ours are told apart.
        sizes: Size columns that were asked for, which the names of studies may hold.
        settings: Tuned values, conditions and the seed that were asked for; they and the sizes
            tell a table of steps from one of runs.
        curves: Loss curves beside a table.

    Raises:
        DataError: There is nothing that can be read.
        ValueError: Curves were handed in beside a source that has its own.
    """
    if curves is not None and isinstance(source, str | Path) and _address(source) is not None:
        raise _own_curves()
    found = _tracked(source, study=study, stage=stage, sizes=sizes)
    if found is not None:
        if curves is not None:
            raise _own_curves()
        return found
    table, where = read_table(source), _place(source)
    settings = (*sizes, *settings)
    if curves is None and is_history(table, settings):
        return history_of(table, where, settings)
    if curves is None and sizes:
        check_rows_are_runs(table, settings)
    points = None if curves is None else read_curves(curves, table)
    return Found(table=table, where=where, curves=lambda loss: points)


def _own_curves() -> ValueError:
    return ValueError(
        "a storage holds the curves of its runs, and so does a tracker; leave "
        f"{argument('curves')} out."
    )


def _tracked(source: Any, *, study: str | None, stage: str, sizes: Sequence[str]) -> Found | None:
    """What a storage or a tracker has; None of a table. Each is imported where it is needed."""
    if are_runs(source):
        return read_run_objects(source)
    if not isinstance(source, str | Path):
        return None
    address = _address(source)
    if address is None:
        return _on_disk(Path(source), study=study)
    if address.startswith("wandb://"):
        return read_project(address)
    if address.startswith(SERVERS):
        from extrap.reading.trackers.mlflow_server import read_server

        return read_server(address, study=study)
    if address.startswith("sqlite:///"):
        from extrap.reading.trackers.mlflow_database import is_database, read_database

        path = Path(address.removeprefix("sqlite:///").partition("?")[0])
        if is_database(path):
            return read_database(path, study=study)
    from extrap.reading.optuna import find_study

    return find_study(address, study=study, stage=stage, sizes=sizes)


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


def _on_disk(path: Path, *, study: str | None) -> Found | None:
    """What a folder holds, or a file that is a run; None of a table."""
    try:
        is_folder, kind = path.is_dir(), kind_of_file(path)
    except OSError:  # a name that is too long; the table's reader says so
        return None
    if is_folder:
        return find_in_folder(path, study=study)
    return None if kind is None else read_files(kind, path, [path], study=study)


def _place(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, pd.DataFrame):
        return "the DataFrame"
    if isinstance(source, list | tuple):
        return "the list of runs"
    return (
        f"the {type(source).__module__.partition('.')[0]} frame"
        if is_table(source)
        else ("the standard input")
    )


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
