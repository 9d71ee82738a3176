"""TensorBoard's folders of event files, one run a folder.

Settings are the hyperparameters that were logged for its plugin, else those in the names of
folders: `width=64,lr=0.01`. Files of one folder are parts of one run, by the time in their names.
A folder named after a time that holds hyperparameters, as `SummaryWriter.add_hparams` makes one,
belongs to the run above it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.reading.events import read_scalars
from extrap.reading.found import Found, run_name, tracked
from extrap.reading.settings import settings_in

OF_HPARAMS = re.compile(r"\d{9,}(\.\d+)?")
"""A folder that `add_hparams` made: the time in seconds."""


def read(folder: Path, files: list[Path]) -> Found:
    """The runs of event files."""
    settings: dict[str, dict[str, Any]] = {}
    rows = []
    for part, path in enumerate(sorted(files, key=_started)):
        home = path.parent
        if OF_HPARAMS.fullmatch(home.name) and home != folder:
            home = home.parent
        name, scalars = run_name(folder, home), read_scalars(path)
        settings.setdefault(name, {**settings_in(name)}).update(scalars.hparams)
        for metric, points in scalars.points.items():
            rows += [(name, part, metric, step, value) for step, value in points]
    points = pd.DataFrame(rows, columns=["run", "part", "metric", "step", "value"])
    codes, names = pd.factorize(points["run"], sort=True)
    points, notes = without_replaced(points.assign(run=codes))
    runs = [(name, settings[name], "") for name in names]
    return tracked(runs, points, where=str(folder), notes=notes)


def without_replaced(points: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Points of runs in parts, of which a later replaces what an earlier had from its first step.

    Args:
        points: Columns `run`, `part` (its place in time), `step`, `metric`, `value`.

    Returns:
        The points that are left, and a note where runs have several parts.
    """
    keys = ["run", "metric", "part"]
    first = points.groupby(keys)["step"].min()
    after = first[::-1].groupby(level=keys[:2]).transform(lambda steps: steps.shift().cummin())
    is_replaced = points["step"].ge(points.join(after.rename("after"), on=keys)["after"])
    n_parts = first.groupby(level=keys[:2]).size().groupby(level="run").max()
    n_parts = n_parts[n_parts > 1]
    note = f"{len(n_parts)} run(s) were joined from {n_parts.sum()} parts"
    kept = points[~is_replaced].drop(columns="part").reset_index(drop=True)
    return kept, [note] if len(n_parts) else []


def _started(path: Path) -> float:
    """The time in the name of an event file, `events.out.tfevents.TIME.…`."""
    found = re.search(r"tfevents\.(\d+)", path.name)
    return float(found[1]) if found else 0.0
