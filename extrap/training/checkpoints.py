"""Checkpoints, one file per run: all that it needs to go on in another process, exactly.

A run gives the same whichever runs of its size train beside it, in one pack, so its file belongs
to no pack: whoever trains it next goes on with it.
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
"""Largest share of the time of training that saving may take: slow saves are made less often."""
CHECKPOINT_SUFFIX = ".pt"
"""Ending of the name of a checkpoint's file."""


class Checkpoint(NamedTuple):
    """The saved state of a run, after an evaluation."""

    step: int
    spent_s: float  # seconds of training so far, over all processes
    record: Mapping[str, Any]  # the fields of the run that are no tensors
    tensors: Mapping[str, torch.Tensor]  # its state, on the CPU; empty for a run that is over


class Checkpoints:
    """The checkpoints of the runs of one study.

    Args:
        folder: Where they lie; None to leave and to find none.
        study: Hash of all that determines the result of a training besides its cell.
        every_s: Seconds between two; 0 for one after every evaluation.
        is_stop_requested: Tells whether training was asked to end at the next evaluation.
    """

    def __init__(
        self,
        folder: str | Path | None,
        study: str,
        *,
        every_s: float = CHECKPOINT_EVERY_S,
        is_stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.study = study
        self.every_s = every_s
        self.is_stop_requested = is_stop_requested
        self._refused: set[Cell] = set()
        self._is_warned = False
        self._saved_at = time.monotonic()
        self._last_save_s = 0.0

    def restart_timer(self) -> None:
        """Count the seconds to the next checkpoints from now on."""
        self._saved_at = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoints."""
        if self.folder is None:
            return False
        shortest_s = self._last_save_s / CHECKPOINT_TIME_SHARE if self.every_s else 0.0
        pause_s = max(self.every_s, shortest_s)
        return time.monotonic() - self._saved_at >= pause_s

    def load(self, cell: Cell, device: torch.device) -> Checkpoint | None:
        """The checkpoint of a run; None if there is none, or none that can be used here."""
        if self.folder is None or cell in self._refused:
            return None
        try:
            content = torch.load(self.path(cell), weights_only=True, map_location="cpu")
            for name, value in self._requirements(cell, device).items():
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
        """Write checkpoints; where that fails, say so once and go on without."""
        if self.folder is None:
            return
        began = time.monotonic()
        try:
            for cell, checkpoint in checkpoints:
                buffer = io.BytesIO()  # torch reports a full disk in words that name no cause
                torch.save({**self._requirements(cell, device), **checkpoint._asdict()}, buffer)
                write_bytes(self.path(cell), buffer.getvalue())
        except OSError as error:
            if not self._is_warned:
                logger.warning(NO_CHECKPOINTS, self.folder, error.strerror or error)
                self._is_warned = True
        self._saved_at = time.monotonic()
        self._last_save_s = self._saved_at - began

    def drop(self, cells: Iterable[Cell]) -> None:
        """Delete the checkpoints of runs that are recorded, and what a killed writer left."""
        if self.folder is None:
            return
        with suppress(OSError):  # what is left does no harm
            files: dict[str, list[Path]] = {}
            for path in self.folder.iterdir():  # drafts are named .STEM.pt.*.part
                files.setdefault(path.name.lstrip(".").partition(".")[0], []).append(path)
            for cell in cells if files else ():
                for path in files.get(self.path(cell).stem, ()):
                    path.unlink(missing_ok=True)

    def path(self, cell: Cell) -> Path:
        """Where the checkpoint of a run lies."""
        assert self.folder is not None
        key = json.dumps([self.study, _cell_key(cell)])
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:32] + CHECKPOINT_SUFFIX)

    def _requirements(self, cell: Cell, device: torch.device) -> dict[str, Any]:
        """Values that must be equal for a run to go on to the last bit."""
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
    """The name of a GPU, or the instructions of a CPU: another processor rounds differently."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"
