"""TensorBoard's folders of event files, one run per folder; the only importer of `tensorboard`.

Settings are the hyperparameters that were logged for its plugin, else those in the names of
folders, `width=64,lr=0.01`, and those of Hydra. Files of one folder are parts of one run, in the
order of their names, which begin with a time. A folder named after a time that holds
hyperparameters, as `SummaryWriter.add_hparams` makes one, belongs to the run above it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.errors import DataError, first_line
from extrap.reading.contents import Contents, run_name, tracked
from extrap.reading.settings import hydra_settings, settings_in

MARK = "tfevents"
"""Stands in the name of every event file."""
OF_HPARAMS = re.compile(r"\d{9,}(\.\d+)?")
"""A folder that `add_hparams` made: the time in seconds."""


class EventLog:
    """The scalars of an event file, or of the event files of a folder, as they grow."""

    def __init__(self, path: Path) -> None:
        import tensorboard  # noqa: F401  before what it brings: an error names the first
        from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

        self._path = path
        self._events = EventAccumulator(str(path), tensor_size_guidance={"scalars": 0})  # 0: all

    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Tag → every step and value written by now, to the end or to a half-written record.

        Raises:
            DataError: The file holds no events.
        """
        from google.protobuf.message import DecodeError
        from tensorboard.util.tensor_util import make_ndarray

        try:
            self._events.Reload()
            return {
                tag: [
                    (float(event.step), float(make_ndarray(event.tensor_proto).item()))
                    for event in self._events.Tensors(tag)
                ]
                for tag, metadata in self._events.AllSummaryMetadata().items()
                if metadata.plugin_data.plugin_name == "scalars"
            }
        except (DecodeError, MemoryError, TypeError, ValueError) as error:
            raise DataError(
                f"{self._path} holds no events of TensorBoard: {first_line(error)}."
            ) from error

    def hparams(self) -> dict[str, bool | float | str]:
        """Name → hyperparameter, of the plugin for them; known once the points were read."""
        from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        metadata = self._events.AllSummaryMetadata().get(SESSION_START_INFO_TAG)
        if metadata is None:
            return {}
        content = HParamsPluginData.FromString(metadata.plugin_data.content)
        return {
            name: getattr(value, value.WhichOneof("kind"))
            for name, value in content.session_start_info.hparams.items()
            if value.WhichOneof("kind") in ("number_value", "string_value", "bool_value")
        }


def read(folder: Path, files: list[Path]) -> Contents:
    """The runs of event files."""
    settings: dict[str, dict[str, Any]] = {}
    rows = []
    for part, path in enumerate(sorted(files, key=_started)):
        home = path.parent
        if OF_HPARAMS.fullmatch(home.name) and home != folder:
            home = home.parent
        name, log = run_name(folder, home), EventLog(path)
        for metric, points in log.points().items():
            rows += [(name, part, metric, step, value) for step, value in points]
        named_settings = hydra_settings(folder, home) | settings_in(name)
        settings.setdefault(name, named_settings).update(log.hparams())
    points = pd.DataFrame(rows, columns=["run", "part", "metric", "step", "value"])
    codes, names = pd.factorize(points["run"], sort=True)
    points, notes = without_replaced(points.assign(run=codes))
    runs = [(name, settings[name], "") for name in names]
    return tracked(runs, points, where=str(folder), notes=notes)


def without_replaced(points: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Points of runs in parts, of which a later replaces what an earlier had from its first step.

    `part` is the place in time of each; a note says where runs have several.
    """
    keys = ["run", "metric", "part"]
    first = points.groupby(keys)["step"].min()
    after = first[::-1].groupby(level=keys[:2]).transform(lambda steps: steps.shift().cummin())
    is_replaced = points["step"].ge(points.join(after.rename("after"), on=keys)["after"])
    n_parts = first.groupby(level=keys[:2]).size().groupby(level="run").max()
    n_parts = n_parts[n_parts > 1]
    note = f"{len(n_parts)} run(s) were joined from {n_parts.sum()} parts"
    remaining = points[~is_replaced].drop(columns="part").reset_index(drop=True)
    return remaining, [note] if len(n_parts) else []


def _started(path: Path) -> float:
    """The time in the name of an event file, `events.out.tfevents.TIME.…`."""
    match = re.search(r"tfevents\.(\d+)", path.name)
    return float(match[1]) if match else 0.0
