"""MLflow's stores, through its client: folders, SQLite files, servers, whatever else it opens.

Folders and files are copied first: the client writes into what it opens. A database of an older
MLflow is refused by it; `mlflow db upgrade` mends that.
"""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from extrap.errors import DataError, argument
from extrap.reading.bounds import first_line, require_file, shown
from extrap.reading.found import Found
from extrap.reading.settings import as_number
from extrap.reading.trackers.tracked import (
    MOST_RUNS,
    LazyHistory,
    Points,
    TrackedRun,
    table_of,
)

PREFIX = "mlflow+"
PAGE = 1000
MOST_NAMED = 12
LARGEST = 1.79e308
"""MLflow's databases store what is infinite as the largest number."""
TABLES = {"experiments", "runs", "params", "metrics"}
ALLOWED = "MLFLOW_ALLOW_FILE_STORE"
"""Environment variable without which the client opens no folders."""


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database with the tables of MLflow."""
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(_read_only(path), uri=True)) as database:
            found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {name for (name,) in found.fetchall()} >= TABLES
    except sqlite3.Error:  # whoever reads storages says what it is
        return False


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of a folder of files, `mlruns/EXPERIMENT/RUN/…`."""
    del files
    with tempfile.TemporaryDirectory(prefix="extrap-") as place:
        copy = Path(place) / "mlruns"
        shutil.copytree(folder, copy, symlinks=True, ignore=_artifacts)
        return _read(copy.as_uri(), str(folder), study, is_here=True)


def read_database(path: Path, *, study: str | None = None) -> Found:
    """The runs of an SQLite file.

    Raises:
        DataError: It is damaged, or as `read_store`.
    """
    from extrap.reading.copies import copy_database

    require_file(path, "store of MLflow")
    with tempfile.TemporaryDirectory(prefix="extrap-") as place:
        copy = Path(place) / "mlflow.db"
        try:
            copy_database(path, copy)
        except sqlite3.Error as error:
            raise DataError(
                f"a store of MLflow must be a sound database, got {path} ({first_line(error)}); "
                "restore it from a backup."
            ) from error
        return _read(f"sqlite:///{copy}", str(path), study, is_here=True)


def read_store(address: str, *, study: str | None = None) -> Found:
    """The runs of an experiment on a server, or of whatever else the client opens.

    Args:
        address: The tracking URI, `mlflow+` before it or not.
        study: Name or ID of the experiment, where there are several with runs.

    Raises:
        DataError: The store does not give them, or there is no such experiment.
    """
    uri = address.removeprefix(PREFIX)
    return _read(uri, _without_secret(uri), study, is_here=False)


def _read(uri: str, where: str, study: str | None, *, is_here: bool) -> Found:
    """The runs of a store; of one that lies here with all histories."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        with _folders_allowed():
            client = MlflowClient(tracking_uri=uri)
            names = {each.experiment_id: each.name for each in _pages(client.search_experiments)}
            found: list[Any] = []
            for run in _pages(lambda **page: client.search_runs(list(names), **page)):
                found.append(run)
                if len(found) > MOST_RUNS:
                    raise DataError(f"at most {MOST_RUNS:,} runs are read, got more of {where}.")
            found.sort(key=lambda run: run.info.start_time or 0)
            ids = [run.info.experiment_id for run in found]
            wanted = _chosen_experiment(ids, names, study, where=where)
            own = [run for run in found if run.info.experiment_id == wanted]
            return table_of([_tracked(client, run, is_here=is_here) for run in own], where=where)
    except DataError:
        raise
    except (MlflowException, ValueError) as error:
        raise DataError(
            f"MLflow does not give the runs of {where}: {_reason(error, uri)}; check the address."
        ) from error


def _tracked(client: Any, run: Any, *, is_here: bool) -> TrackedRun:
    def fetch(metric: str) -> Points:
        history = client.get_metric_history(run.info.run_id, metric)
        ordered = sorted(history, key=lambda each: (each.step, each.timestamp))
        return [(float(each.step), _as_stored(float(each.value))) for each in ordered]

    metrics = run.data.metrics
    history: Mapping[str, Points] = LazyHistory(metrics, fetch)
    return TrackedRun(
        name=str(run.info.run_name or run.info.run_id),
        settings={key: as_number(str(value)) for key, value in run.data.params.items()},
        history={metric: fetch(metric) for metric in metrics} if is_here else history,
        summary={key: _as_stored(float(value)) for key, value in metrics.items()},
        status=str(run.info.status).lower(),
    )


def _as_stored(value: float) -> float:
    """A value as it was before MLflow's database had it."""
    return math.copysign(math.inf, value) if abs(value) > LARGEST else value


def _pages(search: Callable[..., Any]) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = search(max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def _folders_allowed() -> Iterator[None]:
    given = os.environ.get(ALLOWED)
    os.environ[ALLOWED] = "true"
    try:
        yield
    finally:
        if given is None:
            del os.environ[ALLOWED]
        else:
            os.environ[ALLOWED] = given


def _artifacts(folder: str, names: list[str]) -> list[str]:
    """What is not copied: models and pictures; their folders must be there."""
    return names if Path(folder).name == "artifacts" else []


def _read_only(path: Path) -> str:
    return f"file:{quote(str(path.absolute()))}?mode=ro"


def _chosen_experiment(
    with_runs: Iterable[str], names: Mapping[str, str], study: str | None, *, where: str
) -> str:
    """The ID of the experiment of a name, or of the only one that has runs.

    Raises:
        DataError: There is none of that name, or several and none was named.
    """
    ids = list(dict.fromkeys(with_runs))
    known = [names.get(each, each) for each in ids]
    listed = ", ".join(shown(name) for name in known[:MOST_NAMED]) or "none"
    if study is not None:
        found = [each for each in ids if study in (each, names.get(each))]
        if not found:
            raise DataError(f"{where} has no experiment {study!r} with runs; it has {listed}.")
        return found[0]
    if len(ids) > 1:
        raise DataError(
            f"{where} holds several experiments, {listed}; name one of them with "
            f"{argument('study', ...)}."
        )
    if not ids:
        raise DataError(f"{where} holds no runs of MLflow; check the path.")
    return ids[0]


def _reason(error: Exception, uri: str) -> str:
    """The first line of what MLflow says, without what stands before the @ of an address."""
    account, has_account, _ = uri.partition("://")[2].rpartition("@")
    text = str(error).replace(f"{account}@", "") if has_account else str(error)
    return first_line(text.replace(account.partition(":")[2] or "\0", "***"))


def _without_secret(uri: str) -> str:
    """An address without what stands before its @."""
    scheme, found, rest = uri.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else uri
