"""TensorBoard's event files; the only module that imports `tensorboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

MARK = "tfevents"
"""Stands in the name of every event file."""
HPARAMS = "_hparams_/"
"""How the tags of the plugin for hyperparameters begin."""


def is_event_log(path: Path) -> bool:
    """Whether a path is a folder, which can only hold event files, or is an event file."""
    return path.is_dir() or MARK in path.name


class EventLog:
    """The scalars of one tag in an event file, or in the event files of a folder, as they grow.

    Files come in the order of their names, which TensorBoard begins with the time. A record that
    is half written is read once it is whole.

    Args:
        path: The event file or the folder.
        tag: The scalar, e.g. `train/loss`.
    """

    def __init__(self, path: Path, *, tag: str) -> None:
        self._path = path
        self._tag = tag
        self._loaders: dict[Path, EventFileLoader] = {}
        self._endless: set[Path] = set()
        self.names: dict[str, None] = {}
        self.n_skipped = 0
        self.has_more = False

    def poll(self) -> list[tuple[tuple[float], tuple[object]]]:
        """Every new (step, value) of the tag, each as the only cell of its kind."""
        files = sorted(self._path.glob(f"*{MARK}*")) if self._path.is_dir() else [self._path]
        return [pair for file in files if file.is_file() for pair in self._read(file)]

    def _read(self, file: Path) -> list[tuple[tuple[float], tuple[object]]]:
        import tensorboard  # noqa: F401  before what it brings: an error names the first
        from google.protobuf.message import DecodeError
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util.tensor_util import make_ndarray

        if file not in self._loaders:
            self._loaders[file] = EventFileLoader(str(file))
        pairs: list[tuple[tuple[float], tuple[object]]] = []
        while True:
            try:
                for event in self._loaders[file].Load():
                    self.names.update(dict.fromkeys(value.tag for value in event.summary.value))
                    for value in event.summary.value:
                        if value.tag != self._tag:
                            continue
                        if any(axis.size != 1 for axis in value.tensor.tensor_shape.dim):
                            self.n_skipped += 1  # no scalar, and perhaps one of a huge shape
                            continue
                        pairs.append(((event.step,), (make_ndarray(value.tensor).tolist(),)))
            except DecodeError:  # a whole record that is no event; the loader goes on behind it
                self.n_skipped += 1
            except (MemoryError, OverflowError):  # a record that promises to be larger than memory
                self.n_skipped += file not in self._endless
                self._endless.add(file)
                return pairs
            else:
                return pairs


class Scalars(NamedTuple):
    """What an event file says of its run.

    Attributes:
        points: Tag → steps and values, in the order they were written.
        hparams: Name → hyperparameter, of the plugin for them.
    """

    points: dict[str, list[tuple[float, float]]]
    hparams: dict[str, bool | float | str]


def read_scalars(path: Path) -> Scalars:
    """Every scalar of an event file, to its end or to where its writer was killed."""
    import tensorboard  # noqa: F401  before what it brings: an error names the first
    from google.protobuf.message import DecodeError
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    found = Scalars({}, {})
    loader = EventFileLoader(str(path))
    while True:
        try:
            for event in loader.Load():
                for value in event.summary.value:
                    if value.tag.startswith(HPARAMS):
                        found.hparams.update(_hparams(value.metadata.plugin_data.content))
                    elif not any(axis.size != 1 for axis in value.tensor.tensor_shape.dim):
                        number = make_ndarray(value.tensor).reshape(-1)
                        if number.size == 1 and number.dtype.kind in "fiu":
                            point = (float(event.step), float(number[0]))
                            found.points.setdefault(value.tag, []).append(point)
        except DecodeError:  # a whole record that is no event; the loader goes on behind it
            continue
        except (MemoryError, OverflowError, TypeError, ValueError):  # a torn or a made-up record
            return found
        else:
            return found


def _hparams(content: bytes) -> dict[str, bool | float | str]:
    from google.protobuf.message import DecodeError
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    try:
        data = HParamsPluginData.FromString(content)
    except DecodeError:
        return {}
    kinds = ("number_value", "string_value", "bool_value")
    return {
        name: getattr(value, value.WhichOneof("kind"))
        for name, value in data.session_start_info.hparams.items()
        if value.WhichOneof("kind") in kinds
    }
