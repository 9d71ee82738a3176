"""Lightning's CSV logs: `…/version_0/metrics.csv` beside `hparams.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.cells import is_empty
from extrap.reading.found import Found
from extrap.reading.settings import settings_in
from extrap.reading.tables import read_table
from extrap.reading.trackers.tracked import Points, TrackedRun, settings_of, table_of
from extrap.reading.trackers.yaml_files import read_settings

STEPS = ("step", "epoch")
LOSSES = ("val_loss", "val/loss", "loss")
"""`loss` is what was trained on, which falls where a model overfits."""


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of `metrics.csv` files, one a folder.

    Settings are those of `hparams.yaml` and of the names of folders below the one that is read.
    """
    del study
    notes = []
    runs = []
    for path in files:
        settings = read_settings(path.with_name("hparams.yaml"))
        if settings is None:
            notes.append(path)
        runs.append(_read_run(folder, path, settings or {}))
    said = []
    if notes:
        said.append(
            f"{len(notes)} run(s) without a plain hparams.yaml: settings are their folders' names"
        )
    return table_of(runs, where=str(folder), losses=LOSSES, notes=said)


def _read_run(root: Path, path: Path, settings: dict[str, Any]) -> TrackedRun:
    table = read_table(path)
    step = next((name for name in STEPS if name in table), None)
    if step is None:
        raise DataError(f"{path} has no column step; it is no log of Lightning's, leave it out.")
    place = path.parent.relative_to(root) if path.parent != root else Path(path.parent.name)
    history = {
        str(column): _points(table[step], table[column]) for column in table if column not in STEPS
    }
    return TrackedRun(
        name=str(place),
        settings={**settings_in(str(place)), **settings_of(settings)},
        history=history,
    )


def _points(steps: pd.Series, values: pd.Series) -> Points:
    """What was logged of a metric; a row of the log may be of others."""
    logged = ~is_empty(values)
    at = pd.to_numeric(steps[logged], errors="coerce").astype(float)
    numbers = pd.to_numeric(values[logged], errors="coerce").astype(float)
    return [(s, v) for s, v in zip(at, numbers, strict=True) if s == s]
