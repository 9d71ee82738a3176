"""Checkpoints, one file per run: all that it needs to go on in another process, exactly.

A run is the same in every pack, so its file belongs to no pack: whoever trains it next goes on
with it, beside whichever others.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from extrap import __version__
from extrap.files import write_bytes
from extrap.records import Cell
from extrap.training.preemption import CHECKPOINT_EVERY_S, NO_CHECKPOINTS

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the layout of a checkpoint; one of another version is not used."""
CHECKPOINT_TIME_SHARE = 0.02
"""Part of the time that checkpoints may take: where they are dear they come more rarely."""
SUFFIX = ".pt"
"""Of a checkpoint's file."""


class Checkpoint(NamedTuple):
    """What is left of a run between two evaluations."""

    step: int
    spent_s: float
    record: Mapping[str, Any]  # what is known of the run, in plain values
    tensors: Mapping[str, torch.Tensor]  # its state, on the CPU; empty for a run that is over


class Checkpoints:
    """The checkpoints of one study, and when the next ones are due.

    Args:
        folder: Where they lie; None to leave and to find none.
        study: Whatever, with a cell, fixes what its training gives: hash of the study's
            fingerprint.
        every_s: Seconds between two.
        is_asked: Whether training is to end at the next evaluation.
    """

    def __init__(
        self,
        folder: str | Path | None,
        study: str,
        *,
        every_s: float = CHECKPOINT_EVERY_S,
        is_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.study = study
        self.every_s = every_s
        self.is_asked = is_asked
        self._refused: set[Cell] = set()
        self._is_warned = False
        self._saved_at = time.monotonic()
        self._took_s = 0.0

    def begin(self) -> None:
        """Count the time to the next ones from now on."""
        self._saved_at = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for the next ones."""
        if self.folder is None:
            return False
        pause_s = max(self.every_s, self._took_s / CHECKPOINT_TIME_SHARE if self.every_s else 0.0)
        return time.monotonic() - self._saved_at >= pause_s

    def load(self, cell: Cell, device: torch.device) -> Checkpoint | None:
        """The checkpoint of a run; None if there is none, or none that can be used here."""
        if self.folder is None or cell in self._refused:
            return None
        try:
            content = torch.load(self.path(cell), weights_only=True, map_location="cpu")
            for name, value in self._origin(cell, device).items():
                if content.pop(name) != value:
                    raise ValueError(f"{name} is another one, now {value}")
            return Checkpoint(**content)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a damaged or another file makes a reader say
            self.refuse(cell, f"{type(error).__name__}: {error}")
            return None

    def refuse(self, cell: Cell, why: str) -> None:
        """Say that the checkpoint of a run is of no use, and read it no more."""
        self._refused.add(cell)
        logger.warning(
            "a run resumes only from its own checkpoint, written by the same versions on the "
            "same kind of device; %s is not such a checkpoint (%s); the run starts again.",
            self.path(cell),
            " ".join(why.split())[:200],
        )

    def save(self, checkpoints: Iterable[tuple[Cell, Checkpoint]], device: torch.device) -> None:
        """Leave checkpoints; where they cannot be written, say so once and go on without."""
        if self.folder is None:
            return
        began = time.monotonic()
        try:
            for cell, checkpoint in checkpoints:
                buffer = io.BytesIO()  # torch reports a full disk in words that name no cause
                torch.save({**self._origin(cell, device), **checkpoint._asdict()}, buffer)
                write_bytes(self.path(cell), buffer.getvalue())
        except OSError as error:
            if not self._is_warned:
                logger.warning(NO_CHECKPOINTS, self.folder, error.strerror or error)
                self._is_warned = True
        self._saved_at = time.monotonic()
        self._took_s = self._saved_at - began

    def drop(self, cells: Iterable[Cell]) -> None:
        """Delete the checkpoints of runs that are recorded, and what a killed writer left."""
        if self.folder is None:
            return
        with suppress(OSError):  # what is left does no harm
            there: dict[str, list[Path]] = {}
            for path in self.folder.iterdir():
                there.setdefault(path.name.lstrip(".").partition(".")[0], []).append(path)
            for cell in cells if there else ():
                for path in there.get(self.path(cell).stem, ()):
                    path.unlink(missing_ok=True)

    def path(self, cell: Cell) -> Path:
        """Where the checkpoint of a run lies."""
        assert self.folder is not None
        key = json.dumps([self.study, _cell_key(cell)])
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:32] + SUFFIX)

    def _origin(self, cell: Cell, device: torch.device) -> dict[str, Any]:
        """What must be the same for a run to go on to the last bit."""
        return {
            "format": FORMAT,
            "study": self.study,
            "cell": _cell_key(cell),
            "extrap": __version__,
            "torch": str(torch.__version__),
            "device": processor_of(device),
        }


def _cell_key(cell: Cell) -> list[Any]:
    return [[list(pair) for pair in cell.size], [list(pair) for pair in cell.tuned], cell.seed]


def processor_of(device: torch.device) -> str:
    """What computes there: the name of a GPU, or what a CPU can do. Others round differently."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"
