"""MLflow's stores, through its client: folders, SQLite files, servers, whatever else it opens.

Folders and files are copied first: the client writes into what it opens. A database of an older
MLflow is refused by it; `mlflow db upgrade` mends that. A server is asked for histories only where
a curve is wanted.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from extrap.errors import DataError, argument, first_line, shown
from extrap.reading.contents import Contents, points_of, tracked
from extrap.reading.copies import copy_database
from extrap.reading.settings import as_number

ADDRESS_PREFIX = "mlflow+"
"""Before addresses that say that they are of MLflow."""
ACCOUNT = re.compile(r"//[^/\s]*@")
"""In an address: a user and a password, which no message repeats."""
MOST_RUNS_PER_REQUEST = 50_000
"""What the client gives at once."""
LARGEST_STORED = 1.79e308
"""MLflow's databases store what is infinite as the largest number."""


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database with the tables of MLflow."""
    try:
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("SELECT 1 FROM experiments, runs, params, metrics LIMIT 0")
    except sqlite3.Error:  # whoever reads storages says what it is
        return False
    return True


def read_copy(path: Path, *, study: str | None) -> Contents:
    """The runs of a folder of files, `mlruns/EXPERIMENT/RUN/…`, or of an SQLite file.

    Raises:
        DataError: As `read_store`.
    """
    with tempfile.TemporaryDirectory(prefix="extrap-") as folder, _faults(str(path)):
        copy = Path(folder) / "store"
        if path.is_dir():
            shutil.copytree(path, copy, symlinks=True, ignore=_artifacts)
            return _read(copy.as_uri(), str(path), study, is_copy=True)
        copy_database(path, copy)
        return _read(f"sqlite:///{copy}", str(path), study, is_copy=True)


def read_store(address: str, *, study: str | None) -> Contents:
    """The runs of an experiment on a server, or of whatever else the client opens.

    Raises:
        DataError: The store does not give them, or there is no such experiment.
    """
    uri = address.removeprefix(ADDRESS_PREFIX)
    where = ACCOUNT.sub("//", uri)
    with _faults(where):
        return _read(uri, where, study, is_copy=False)


def _artifacts(folder: str, names: list[str]) -> list[str]:
    """What is not copied: models and pictures; their folders must be there."""
    return names if Path(folder).name == "artifacts" else []


@contextmanager
def _faults(where: str) -> Iterator[None]:
    """What the client stumbles over, as one line about the store."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except DataError:
        raise
    except (MlflowException, sqlite3.Error, ValueError) as error:
        said = ACCOUNT.sub("//", first_line(error))
        raise DataError(
            f"MLflow does not give the runs of {where}: {said}; check the address."
        ) from error


def _read(uri: str, where: str, study: str | None, *, is_copy: bool) -> Contents:
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # else the client opens no folder
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    runs = _runs_of(client, where, study)

    def points(metric: str) -> pd.DataFrame:
        with _faults(where):
            logged = [
                (i, point.step, point.timestamp, _as_logged(point.value))
                for i, run in enumerate(runs)
                if metric in run.data.metrics
                for point in client.get_metric_history(run.info.run_id, metric)
            ]
        table = pd.DataFrame(logged, columns=["run", "step", "time", "value"])
        table = table.sort_values(["run", "step", "time"], kind="stable")
        return points_of(table["run"], table["step"], table[["value"]]).assign(metric=metric)

    described = [
        (
            str(run.info.run_name or run.info.run_id),
            {key: as_number(str(value)) for key, value in run.data.params.items()},
            str(run.info.status).lower(),
        )
        for run in runs
    ]
    if is_copy:
        metrics = dict.fromkeys(metric for run in runs for metric in run.data.metrics)
        histories = pd.concat(map(points, metrics or [""]), ignore_index=True)
        return tracked(described, histories, where=where)
    summaries = [{k: _as_logged(v) for k, v in run.data.metrics.items()} for run in runs]
    return tracked(described, points, where=where, summaries=summaries)


def _runs_of(client: Any, where: str, study: str | None) -> list[Any]:
    """The runs of the experiment that is named, or of the only one that has runs."""
    experiments = client.search_experiments(max_results=MOST_RUNS_PER_REQUEST)
    names = {one.experiment_id: one.name for one in experiments}
    experiment_ids = [key for key, name in names.items() if study in (None, key, name)]
    runs = (
        client.search_runs(experiment_ids, max_results=MOST_RUNS_PER_REQUEST)
        if experiment_ids
        else []
    )
    with_runs = {run.info.experiment_id for run in runs}
    if len(with_runs) != 1:
        listed = ", ".join(shown(names[key]) for key in with_runs or names)
        holds = "several experiments" if with_runs else f"no experiment {study or ''!r} with runs"
        raise DataError(
            f"{where} holds {holds}; name one of {listed} with {argument('study', ...)}."
        )
    return sorted(runs, key=lambda run: run.info.start_time or 0)


def _as_logged(value: float) -> float:
    """A value as it was before MLflow's database had it."""
    return math.copysign(math.inf, value) if abs(value) > LARGEST_STORED else float(value)
