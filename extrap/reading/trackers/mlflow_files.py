"""MLflow's folders of files, `mlruns/EXPERIMENT/RUN/…`: read without MLflow, and not changed.

MLflow's own client no longer opens them unless it is told to, and writes to them when it does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from extrap.errors import DataError
from extrap.reading.bounds import require_file, shown
from extrap.reading.found import Found
from extrap.reading.settings import as_number
from extrap.reading.trackers.experiments import chosen_experiment
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import MOST_POINTS, Points, TrackedRun, table_of

MOST_BYTES = 2**26
TRASH = ".trash"
"""Where deleted experiments lie."""
MOST_DEPTH = 6
"""Of the slashes in a metric's name, which are folders."""
STATUS = {"1": "running", "2": "scheduled", "3": "finished", "4": "failed", "5": "killed"}


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of a store, or of the folder of one of its experiments.

    Args:
        folder: The folder.
        files: The `meta.yaml` of its runs and experiments.
        study: Name or ID of the experiment, where there are several with runs.
    """
    kept = [path for path in files if TRASH not in path.relative_to(folder).parts]
    metas = {path.parent: _meta(path) for path in kept}
    names = {str(m["experiment_id"]): str(m["name"]) for m in metas.values() if "name" in m}
    active = {
        place: meta
        for place, meta in metas.items()
        if "run_id" in meta and meta.get("lifecycle_stage") != "deleted"
    }
    ids = [str(meta.get("experiment_id", "")) for meta in active.values()]
    wanted = chosen_experiment(ids, names, study, where=str(folder))
    runs = [
        _read_run(place, meta)
        for place, meta in active.items()
        if str(meta.get("experiment_id", "")) == wanted
    ]
    joined, notes = stitched(sorted(runs, key=lambda run: run.started))
    return table_of(joined, where=str(folder), notes=notes)


def _meta(path: Path) -> dict[str, str]:
    """The plain `key: value` lines of a file of MLflow."""
    found: dict[str, str] = {}
    for line in _text(path).splitlines():
        key, is_pair, value = line.partition(":")
        if is_pair and key and not key[0].isspace():
            found[key.strip()] = value.strip().strip("'\"")
    if "run_id" in found:  # a run's name is its own, not an experiment's
        found["run_name"] = found.pop("name", "") or found.get("run_name", "")
    return found


def _read_run(folder: Path, meta: dict[str, str]) -> TrackedRun:
    history: dict[str, Points] = {
        name: _points(path) for name, path in _named_files(folder / "metrics")
    }
    name = meta.get("run_name") or meta["run_id"]
    return TrackedRun(
        name=name,
        settings={name: _value(_text(path)) for name, path in _named_files(folder / "params")},
        history=history,
        status=STATUS.get(meta.get("status", ""), ""),
        family=name,
        started=_seconds(meta.get("start_time")),
    )


def _named_files(folder: Path) -> list[tuple[str, Path]]:
    """Files of a folder by their names, in which folders are slashes; no links are followed."""
    found: list[tuple[str, Path]] = []
    waiting = [(folder, "", 0)]
    while waiting:
        here, above, depth = waiting.pop()
        if not here.is_dir() or here.is_symlink() or depth > MOST_DEPTH:
            continue
        with os.scandir(here) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{above}{entry.name}/", depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    found.append((f"{above}{entry.name}", Path(entry.path)))
    return sorted(found)


def _points(path: Path) -> Points:
    """Lines `time value step`, by step and then by time."""
    rows: list[tuple[float, float, float]] = []
    for line in _text(path).splitlines():
        cells = line.split()
        try:
            moment, value = float(cells[0]), float(cells[1])
            rows.append((float(cells[2]) if len(cells) > 2 else 0.0, moment, value))
        except (IndexError, ValueError) as error:
            raise DataError(
                f"a metric of MLflow has lines of time, value and step, got {shown(line)} in "
                f"{path}; restore it or leave the run out."
            ) from error
        if len(rows) > MOST_POINTS:
            raise DataError(f"{path} has more than {MOST_POINTS:,} points; leave the run out.")
    return [(step, value) for step, _, value in sorted(rows, key=lambda row: row[:2])]


def _text(path: Path) -> str:
    require_file(path, "file of MLflow", most=MOST_BYTES)
    return path.read_text(encoding="utf-8", errors="replace")


def _value(text: str) -> Any:
    return as_number(text.strip())


def _seconds(milliseconds: str | None) -> float:
    try:
        return float(milliseconds or 0) / 1000
    except ValueError:
        return 0.0
