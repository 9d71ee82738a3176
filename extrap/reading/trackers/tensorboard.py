"""TensorBoard's folders of event files, one run a folder.

Settings are the hyperparameters that were logged for its plugin, else those in the names of
folders: `width=64,lr=0.01`. Files of one folder are parts of one run, in the order of their names,
which begin with a time. A folder named after a time that holds hyperparameters, as
`SummaryWriter.add_hparams` makes one, belongs to the run above it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from extrap.errors import DataError
from extrap.reading.events import read_scalars
from extrap.reading.found import Found
from extrap.reading.settings import settings_in
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import MOST_POINTS, TrackedRun, table_of

OF_HPARAMS = re.compile(r"\d{9,}(\.\d+)?")
"""A folder that `add_hparams` made: the time in seconds."""
MOST_BYTES = 2**30
"""Of an event file, which may hold pictures."""


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of event files."""
    del study
    parts = []
    n_points = 0
    for path in files:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"an event file has at most {MOST_BYTES:,} bytes, got more in {path}.")
        part = _read_part(folder, path)
        n_points += sum(map(len, part.history.values()))
        if n_points > MOST_POINTS:
            raise DataError(
                f"event files have at most {MOST_POINTS:,} points together, got more in {folder}."
            )
        parts.append(part)
    runs, notes = stitched(_with_settings(parts))
    logged = [run for run in runs if run.history]
    return table_of(logged, where=str(folder), notes=notes)


def _read_part(root: Path, path: Path) -> TrackedRun:
    home = path.parent
    if OF_HPARAMS.fullmatch(home.name) and home != root:
        home = home.parent
    inside = home != root and home.is_relative_to(root)
    name = str(home.relative_to(root)) if inside else home.name
    scalars = read_scalars(path)
    return TrackedRun(
        name=name,
        settings={**settings_in(name), **scalars.hparams},
        history=scalars.points,
        identity=str(home),
        started=_started(path),
    )


def _with_settings(parts: list[TrackedRun]) -> list[TrackedRun]:
    """Every part with the settings of all parts of its run."""
    together: dict[str, dict[str, object]] = {}
    for part in parts:
        together.setdefault(part.identity, {}).update(part.settings)
    return [replace(part, settings=together[part.identity]) for part in parts]


def _started(path: Path) -> float:
    """The time in the name of an event file, `events.out.tfevents.TIME.…`."""
    found = re.search(r"tfevents\.(\d+)", path.name)
    return float(found[1]) if found else 0.0
