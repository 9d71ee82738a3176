"""What a driver sends to a worker and gets back, as plain data; no storage is touched.

While a pack trains, driver and worker exchange two files beside its checkpoints: a note of the
driver's name, which the driver empties to stop all packs, and the progress of the pack.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from extrap.errors import ExtrapError, StudyError
from extrap.files import write_note
from extrap.records import Cell, OnEval, RunResult, StudySpec, Train
from extrap.study.trainers import NVIDIA, trainer_of
from extrap.study_folders import import_words
from extrap.training.preemption import CHECKPOINT_EVERY_S, StopAsked

if TYPE_CHECKING:
    from optuna import Study, Trial


REPORTS = 10
"""Reports to the pruner in one run, at tenths of the run: runs of different length compare."""
SLACK = 0.25
"""An evaluation stands for a tenth that it misses by less: steps are whole numbers."""
PROGRESS_EVERY_S = 0.2
"""How often a pack looks whether it is to stop, and says how far it is."""
PROGRESS_SUFFIX = ".progress"
"""Ending of the file in which a pack says how far it is."""
PACKS_FOLDER = "packs"
"""Where in the folder of checkpoints the files of packs lie."""
DRIVER_GONE = Event()
"""In a worker process of its own: set when its driver is gone."""

_ONE_BY_ONE = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """A copy of a size's trials for a pruner; the trials are one a cell of the pack."""

    study: Study
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRequest:
    """Cells of one size and shape, and all that training them takes."""

    spec: StudySpec
    cells: tuple[Cell, ...]
    train: Train | None = None  # the user's function or command; None for extrap's own training
    device: str | None = None  # a GPU if there is one by default
    driver: str = ""  # a name of the storage and of who handed the pack out
    number: int = 0  # different for every pack that the driver hands out
    n_threads: int = 1  # on a CPU
    every_s: float = CHECKPOINT_EVERY_S  # seconds between two checkpoints; infinite for none
    origin: str = ""  # a name of the storage that the runs are recorded in
    pruning: Pruning | None = None  # trials for a pruner, if one is to look
    made_with: str = ""  # hash of what determines the results, as the driver finds it
    n_gpus: float = 0  # GPUs of a cluster that the pack is to have


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What training a pack gave: of its first cells only, where not all fit into memory."""

    results: tuple[RunResult, ...]  # one a cell, in the order of the pack
    began: float = 0.0  # seconds since 1970
    layout: str = ""  # how it was trained, in words
    reports: tuple[Mapping[int, float], ...] = ()  # by tenths of each run: losses for the pruner
    processor: str = ""  # what extrap's own training computed on


class PackStopped(Exception):
    """A pack ended before its time: it was asked to, or another driver runs the study."""


class PackFailed(Exception):
    """Training a pack raised an error; `cells` are those that were in training."""

    def __init__(self, error: Exception, cells: Sequence[Cell]) -> None:
        super().__init__(error, cells)
        self.error, self.cells = error, tuple(cells)

    def __reduce__(self) -> tuple[Any, ...]:
        """An error of the user's may not be picklable; its message is sent instead."""
        notes = getattr(self.error, "__notes__", ())
        message = "; ".join([f"{type(self.error).__name__}: {self.error}", *notes])
        return PackFailed, (ExtrapError(message), self.cells)


class PackFolder:
    """The files that a driver and its workers exchange, beside the checkpoints.

    A note names the driver whose packs may train; each pack says in a file how far it is. The name
    of the driver is that of its storage, a dash, and what is its own. Without a folder nothing is
    exchanged.
    """

    def __init__(self, path: str | Path | None, driver: str) -> None:
        self._driver, self.path = driver, str(path)
        self._folder = None if path is None else Path(path) / PACKS_FOLDER
        self._storage = driver.rpartition("-")[0]

    def begin(self) -> None:
        """Let the packs of this driver train, and end those of earlier ones of its storage."""
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in self._folder.glob(f"*{self._storage}-*"):
            file.unlink(missing_ok=True)
        write_note(self._folder / self._storage, self._driver)

    def stop(self) -> None:
        """Ask all packs of this driver to end at their next evaluation."""
        if self._folder is not None and self._note() in (None, "", self._driver):
            with suppress(OSError):
                write_note(self._folder / self._storage, "")

    def end(self) -> None:
        """Remove what is left of the driver, and the folder where nothing else is in it."""
        if self._folder is not None:
            # by now the note may be another driver's
            mine = self._storage if self._note() in ("", self._driver) else self._driver
            with suppress(OSError):
                for file in self._folder.glob(f"*{mine}*"):
                    file.unlink(missing_ok=True)
                self._folder.rmdir()

    def is_shared(self) -> bool:
        """Whether a driver left a note here; on another machine the folder may be another."""
        return self._note() is not None

    def may_train(self) -> bool:
        """Whether packs of this driver may train; also if the note cannot be read."""
        return self._note() == self._driver

    def write_progress(self, number: int, fraction: float, layout: str) -> None:
        """Say how far a pack is."""
        if self._folder is not None:
            with suppress(OSError):  # a full disk ends no training
                write_note(self._progress(number), json.dumps([fraction, layout]))

    def progress(self, number: int) -> tuple[float, str] | None:
        """How far a pack is and how it is trained; None if that is not known."""
        try:
            fraction, layout = json.loads(self._progress(number).read_text("utf-8"))
            return float(fraction), str(layout)
        except (OSError, ValueError, TypeError):  # none yet, or half of one
            return None

    def forget(self, number: int) -> None:
        """Remove the progress of a pack."""
        with suppress(OSError):
            self._progress(number).unlink(missing_ok=True)

    def _progress(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{self._driver}-{number}{PROGRESS_SUFFIX}"

    def _note(self) -> str | None:
        """The driver whose packs may train; None if there is no note."""
        if self._folder is None:
            return self._driver
        try:
            return (self._folder / self._storage).read_text("utf-8")
        except FileNotFoundError:
            return None
        except OSError:  # a disk that is away for a moment
            return self._driver


def train_pack(pack: PackRequest, folder: str | None = None) -> Trained:
    """Train the cells of a pack in this process; `folder` is that of the checkpoints, if any.

    Where not all fit into memory the first are trained; who handed the pack out hands out the
    others again. extrap's own training takes a process for itself: threads take turns.

    Raises:
        PackStopped: It was asked to end, or another driver began; checkpoints are left.
        PackFailed: Training raised an error.
        StudyError: This process has other data than the driver, no GPU where it must have one, or
            cannot import what training imports.
    """
    if pack.n_gpus and not NVIDIA.exists():
        raise StudyError(
            f"every worker must have a GPU for --gpus-per-pack {pack.n_gpus:g}, got one without; "
            "remove that worker, or drop the option."
        )
    try:
        files = PackFolder(folder, pack.driver)
        if not files.is_shared():  # that of another machine
            folder, files = None, PackFolder(None, pack.driver)
        watched = _Watched(files, pack)
        trainer = trainer_of(
            pack.spec,
            pack.train,
            pack.device,
            is_stop_requested=watched.is_stop_requested,
            origin=pack.origin,
        )
    except ExtrapError:
        raise
    except (ImportError, OSError, ValueError) as error:
        raise StudyError(
            "a worker must be able to set up the study as the driver does, got "
            f"{type(error).__name__}: {error}; install or copy what is missing there."
        ) from error
    if pack.made_with not in ("", trainer.made_with):
        raise StudyError(
            "a worker must have the driver's data and training code, got different ones; copy "
            "the driver's files to every worker."
        )
    keeps = pack.pruning is None and math.isfinite(pack.every_s)
    checkpoints = trainer.checkpoints(
        folder if keeps else None,
        every_s=pack.every_s,
        is_stop_requested=watched.is_stop_requested,
    )
    cells: Sequence[Cell] = pack.cells
    with _ONE_BY_ONE if trainer.trains_packs else nullcontext():
        began = time.time()
        try:
            watched.stop_if_asked()
            cells = trainer.pack_of(pack.cells)
            pruner = _Pruner(pack, cells)
            results = trainer.train(
                cells,
                watched.listener(trainer.steps(cells[0]), len(cells), pruner),
                watched.say,
                n_threads=pack.n_threads,
                checkpoints=checkpoints,
            )
        except StopAsked as error:
            raise PackStopped from error
        except PackStopped:
            raise
        except SystemExit as error:
            left = ExtrapError(f"a training must return its loss, got a call to exit ({error}).")
            raise PackFailed(left, cells) from error
        except ImportError as error:  # no other run would find it either
            reason = import_words(error, getattr(pack.train, "folder", Path()))
            raise StudyError(
                f"a training must find all that it imports, got {reason}; install it, or copy it "
                "to the folder of the study file."
            ) from error
        except Exception as error:
            raise PackFailed(error, cells) from error
    reports = tuple(pruner.reports[cell] for cell in cells) if pack.pruning else ()
    return Trained(
        results=tuple(results),
        began=began,
        layout=watched.layout,
        reports=reports,
        processor=trainer.processor,
    )


class _Watched:
    """A pack that looks whether it is to end, and says how far it is."""

    def __init__(self, files: PackFolder, pack: PackRequest) -> None:
        self._files, self._pack = files, pack
        self._looked_at = self._said_at = -math.inf
        self._is_stop_requested = False
        self.layout = ""

    def is_stop_requested(self) -> bool:
        now = time.monotonic()
        if not self._is_stop_requested and now - self._looked_at >= PROGRESS_EVERY_S:
            self._looked_at = now
            self._is_stop_requested = DRIVER_GONE.is_set() or not self._files.may_train()
        return self._is_stop_requested

    def stop_if_asked(self) -> None:
        self._looked_at = -math.inf
        if self.is_stop_requested():
            raise PackStopped

    def say(self, layout: str) -> None:
        self.layout = layout

    def listener(self, n_steps: int, n_cells: int, pruner: _Pruner) -> OnEval:
        """What is called at every evaluation."""
        part = n_cells / len(self._pack.cells)

        def on_eval(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
            fraction = step / n_steps
            now = time.monotonic()
            if now - self._said_at >= PROGRESS_EVERY_S:
                self._said_at = now
                self._files.write_progress(self._pack.number, part * fraction, self.layout)
            return pruner.keep(fraction, losses)

        return on_eval


class _Pruner:
    """The pruner's view of runs in training, on a copy of the trials."""

    def __init__(self, pack: PackRequest, cells: Sequence[Cell]) -> None:
        self._trials: list[Trial] = []
        self.reports: dict[Cell, dict[int, float]] = {}
        if pack.pruning is not None:
            by_cell = dict(zip(pack.cells, pack.pruning.trials, strict=True))
            self._trials = [by_cell[cell] for cell in cells]
            self.reports = {cell: {} for cell in cells}
        self._cells = tuple(cells)

    def keep(self, fraction: float, losses: Sequence[float]) -> list[bool] | None:
        """Report held-out losses; which runs the pruner keeps, None for all."""
        due, goes_on = int(REPORTS * fraction + SLACK), [True] * len(losses)
        for i, trial in enumerate(self._trials):
            reported = self.reports[self._cells[i]]
            if math.isfinite(losses[i]) and due > max(reported, default=0):
                reported[due] = losses[i]
                trial.report(losses[i], due)
                goes_on[i] = not trial.should_prune()
        return None if all(goes_on) else goes_on
