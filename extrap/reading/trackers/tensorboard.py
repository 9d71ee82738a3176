"""TensorBoard's folders of event files, one run per folder; the only importer of `tensorboard`.

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
from extrap.reading.bounds import first_line
from extrap.reading.found import Found
from extrap.reading.settings import settings_in
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import TrackedRun, table_of

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
        """Name → hyperparameter, of the plugin for them."""
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


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of event files."""
    del study
    parts = [_read_part(folder, path) for path in files]
    settings: dict[str, dict[str, object]] = {}
    for part in parts:
        settings.setdefault(part.identity, {}).update(part.settings)
    runs, notes = stitched([replace(part, settings=settings[part.identity]) for part in parts])
    return table_of([run for run in runs if run.history], where=str(folder), notes=notes)


def _read_part(root: Path, path: Path) -> TrackedRun:
    home = path.parent
    if OF_HPARAMS.fullmatch(home.name) and home != root:
        home = home.parent
    is_inside = home != root and home.is_relative_to(root)
    name = str(home.relative_to(root)) if is_inside else home.name
    log = EventLog(path)
    points = log.points()
    settings = {**settings_in(name), **log.hparams()}
    return TrackedRun(name=name, settings=settings, history=points, identity=str(home))
