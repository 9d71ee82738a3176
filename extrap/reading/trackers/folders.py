"""Folders of runs: HF Trainer's states, Lightning's CSV logs, and those of other trackers.

| files | settings |
|---|---|
| `trainer_state.json`, of a run or its checkpoints | `config.json` beside it, the state |
| `metrics.csv` | `hparams.yaml` beside it |
| any, below a folder `.hydra` | its `config.yaml` and `overrides.yaml` |
| `meta.yaml`, event files | see `mlflow`, `tensorboard` |

Names of folders below the one that is read say settings too. Of a run's checkpoints the last is
read: it holds what the earlier ones logged. `training_args.bin` is a pickle, which would run what
its author wrote, and is never opened; of its rate the log tells, see `logged_rates`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError, first_line, shown
from extrap.files import require_file
from extrap.reading.contents import Contents, points_of, run_name, tracked
from extrap.reading.frames import frame_of_rows, single_values
from extrap.reading.settings import hydra_settings, read_yaml, settings_in
from extrap.reading.table_files import read_table

FILES = ("meta.yaml", "trainer_state.json", "metrics.csv", "*tfevents*")
"""Of MLflow, HF Trainer, Lightning and TensorBoard; a folder of several is of the first."""
LOSS_METRICS = ("eval_loss", "val_loss", "val/loss", "loss")
"""Held-out ones first: the last falls where a model overfits."""
STEP_COLUMNS = ("step", "epoch")
"""Columns of a log that count its rows, the finer first."""
STATED = ("train_batch_size", "max_steps", "num_train_epochs")
"""Settings that a trainer's state has."""
Logged = tuple[Path, dict[str, Any], pd.DataFrame]
"""The folder of a run, its settings, and a table with one row per step."""


def find_on_disk(path: Path, *, study: str | None) -> Contents | None:
    """What a folder holds, or a file that is a run of its own; None of any other file.

    Raises:
        DataError: A folder holds nothing that is known, or what it holds cannot be read.
    """
    files = [path]
    if os.path.isdir(path):  # noqa: PTH112  a name that is too long is no folder
        below = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        files = sorted(file for file in below if any(map(file.match, FILES)) and file.is_file())
    elif not path.match(FILES[1]) and not path.match(FILES[3]):
        return None
    stores, states, logs, events = ([f for f in files if f.match(kind)] for kind in FILES)
    if stores:
        from extrap.reading.trackers.mlflow import read_copy

        return read_copy(path, study=study)
    if states:
        return _contents_of_logs(path, _of_trainer(states))
    if logs:
        parts = ((log.parent, log.with_name("hparams.yaml"), log) for log in logs)
        return _contents_of_logs(
            path, ((home, read_yaml(hparams), read_table(log)) for home, hparams, log in parts)
        )
    if events:
        from extrap.reading.trackers.tensorboard import read

        return read(path, events)
    if next(path.rglob(".hydra"), None):
        raise DataError(
            f"the settings of runs are read beside their losses, {shown(str(path))} has Hydra's "
            "settings and no metrics.csv beside them; write one in each folder, with columns step "
            "and val_loss."
        )
    raise DataError(
        f"{shown(str(path))} is a folder without runs; a tracker leaves meta.yaml (MLflow), "
        "trainer_state.json (HF Trainer), metrics.csv (Lightning) or event files (TensorBoard). "
        "Name the table inside it, or another folder."
    )


def _contents_of_logs(root: Path, logged: Iterable[Logged]) -> Contents:
    runs: list[tuple[str, dict[str, Any], str]] = []
    points: list[pd.DataFrame] = []
    for home, settings, table in logged:
        step = next((name for name in STEP_COLUMNS if name in table), None)
        if step is None:
            raise DataError(f"the log of a run in {home} has no column step; leave it out.")
        values = table.drop(columns=[*STEP_COLUMNS], errors="ignore")
        points.append(points_of(len(runs), table[step], values))
        name = run_name(root, home)
        settings = {**hydra_settings(root, home), **single_values(settings), **settings_in(name)}
        runs.append((name, settings, ""))
    return tracked(
        runs, pd.concat(points, ignore_index=True), where=str(root), losses=LOSS_METRICS
    )


def _of_trainer(paths: list[Path]) -> Iterator[Logged]:
    last: dict[Path, tuple[Path, dict[str, Any]]] = {}
    states = [(path, _read_json(path)) for path in paths]
    for path, state in sorted(states, key=lambda one: one[1].get("global_step") or 0):
        home = path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
        last[home] = path, state
    for home, (path, state) in sorted(last.items()):
        log = state.get("log_history")
        if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
            raise DataError(f"{path} has no log_history, so no state of a Trainer; leave it out.")
        numbers: list[dict[str, Any]] = [
            {k: v for k, v in entry.items() if isinstance(v, int | float)} for entry in log
        ]
        config = path.with_name("config.json")
        settings = {
            **(_read_json(config) if config.is_file() else {}),
            **{key: state[key] for key in STATED if key in state},
            **(state.get("trial_params") or {}),
        }
        yield home, settings, frame_of_rows(numbers or [{"step": None}])


def _read_json(path: Path) -> dict[str, Any]:
    require_file(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is no JSON ({first_line(error)}); a run may have been writing it: leave it "
            "out."
        ) from error
    return content if isinstance(content, dict) else {}
