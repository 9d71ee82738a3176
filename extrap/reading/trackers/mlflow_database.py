"""MLflow's store in an SQLite file: read without MLflow, of any version, and not changed."""

from __future__ import annotations

import math
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from extrap.errors import DataError
from extrap.reading.bounds import first_line, require_file
from extrap.reading.found import Found
from extrap.reading.settings import as_number
from extrap.reading.trackers.experiments import as_stored, chosen_experiment
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import (
    MOST_POINTS,
    MOST_RUNS,
    Points,
    TrackedRun,
    table_of,
)

TABLES = {"experiments", "runs", "params", "metrics"}
BESIDE = ("-wal", "-journal")
"""Files in which the newest pages of a database may lie."""
RUNS = """SELECT run_uuid, name, status, start_time, experiment_id FROM runs
          WHERE lifecycle_stage IS NULL OR lifecycle_stage != 'deleted' ORDER BY start_time"""
OF_EXPERIMENT = "run_uuid IN (SELECT run_uuid FROM runs WHERE experiment_id = ?)"
PARAMS = f"SELECT run_uuid, key, value FROM params WHERE {OF_EXPERIMENT}"
METRICS = f"""SELECT run_uuid, key, step, value, is_nan FROM metrics WHERE {OF_EXPERIMENT}
              ORDER BY run_uuid, key, step, timestamp LIMIT {MOST_POINTS + 1}"""


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database with the tables of MLflow."""
    if not path.is_file():
        return False
    try:
        with _opened(path) as database:
            return _has_tables(database)
    except (DataError, sqlite3.Error):  # whoever reads storages says what it is
        return False


def read_database(path: Path, *, study: str | None = None) -> Found:
    """The runs of an experiment.

    Args:
        path: The file.
        study: Name or ID of the experiment, where there are several with runs.

    Raises:
        DataError: It is damaged or holds too much, or there is no such experiment.
    """
    where = str(path)
    require_file(path, "store of MLflow")
    try:
        with _opened(path) as database:
            return _read(database, where, study)
    except sqlite3.Error as error:
        raise DataError(
            f"a store of MLflow must be a sound database, got {where} ({first_line(error)}); "
            "restore it from a backup."
        ) from error


def _read(database: sqlite3.Connection, where: str, study: str | None) -> Found:
    names = {
        str(key): str(name)
        for key, name in database.execute("SELECT experiment_id, name FROM experiments")
    }
    rows = database.execute(RUNS).fetchmany(MOST_RUNS + 1)
    wanted = chosen_experiment([str(row[4]) for row in rows], names, study, where=where)
    settings: dict[str, dict[str, object]] = {}
    for run, key, value in database.execute(PARAMS, (wanted,)):
        settings.setdefault(run, {})[str(key)] = as_number(str(value))
    history: dict[str, dict[str, Points]] = {}
    n_points = 0
    for run, key, step, value, is_nan in database.execute(METRICS, (wanted,)):
        points = history.setdefault(run, {}).setdefault(str(key), [])
        points.append((float(step or 0), _value(value, is_nan)))  # type: ignore[attr-defined]
        n_points += 1
    if n_points > MOST_POINTS:
        raise DataError(f"at most {MOST_POINTS:,} points are read at once, got more in {where}.")
    runs = [
        TrackedRun(
            name=str(name or run),
            settings=settings.get(run, {}),
            history=history.get(run, {}),
            status=str(status or "").lower(),
            family=str(name or run),
            started=float(start or 0) / 1000,
        )
        for run, name, status, start, experiment in rows
        if str(experiment) == wanted
    ]
    joined, notes = stitched(runs)
    return table_of(joined, where=where, notes=notes)


def _value(value: object, is_nan: object) -> float:
    if is_nan or not isinstance(value, int | float):
        return math.nan
    return as_stored(float(value))


def _has_tables(database: sqlite3.Connection) -> bool:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in found} >= TABLES


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A database as it is; where its newest pages lie beside it, a copy that may be mended."""
    if not any(_beside(path, ending).exists() for ending in BESIDE):
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            yield database
        return
    with tempfile.TemporaryDirectory(prefix="extrap-") as folder:
        copy = Path(folder) / "copy"
        for ending in ("", *BESIDE):
            if _beside(path, ending).exists():
                shutil.copyfile(_beside(path, ending), _beside(copy, ending))
        with closing(sqlite3.connect(copy)) as database:
            yield database


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
