"""Packs: what a worker trains at once, as plain data in and out; no storage is touched.

While a pack trains, driver and worker exchange two files beside its checkpoints: the driver
removes `ATTEMPT` to stop an attempt, and the worker writes its progress to `ATTEMPT.progress`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from extrap.errors import ExtrapError, StudyError
from extrap.files import write_note
from extrap.records import Cell, OnEval, RunResult, StudySpec, Train
from extrap.study.trainers import trainer_of
from extrap.study_folders import import_words
from extrap.training.preemption import EVERY_S, StopAsked

if TYPE_CHECKING:
    from optuna import Study, Trial


REPORTS = 10
"""Reports to the pruner in one run, at tenths of the run: runs of different length compare."""
SLACK = 0.25
"""An evaluation stands for a tenth that it misses by less: steps are whole numbers."""
PROGRESS_EVERY_S = 0.2
"""How often a pack looks whether it is to stop, and says how far it is."""
DRIVER, PROGRESS = "driver", ".progress"
PACKS_FOLDER = "packs"
"""Where in the folder of checkpoints the files of packs lie."""


_ONE_BY_ONE = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """A copy of a size's trials, for a pruner that looks at a pack while it trains.

    Attributes:
        study: The study in memory, with its pruner.
        trials: Its running trials, one a cell of the pack.
    """

    study: Study
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRequest:
    """Cells of one size and shape, and all that training them takes.

    Attributes:
        spec: The study.
        cells: What to train.
        train: The user's function or command; None for extrap's own training.
        device: Where; a GPU if there is one by default.
        driver: A name of the storage and of who handed the pack out.
        attempt: Name of this attempt at these cells; empty where it cannot be stopped.
        every_s: Seconds between two checkpoints; infinite for none.
        origin: A name of the storage that the runs are recorded in.
        pruning: Trials for a pruner, if one is to look.
        made_with: Hash of what determines the results, as the driver finds it.
    """

    spec: StudySpec
    cells: tuple[Cell, ...]
    train: Train | None = None
    device: str | None = None
    driver: str = ""
    attempt: str = ""
    every_s: float = EVERY_S
    origin: str = ""
    pruning: Pruning | None = None
    made_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What training a pack gave.

    Attributes:
        results: One a cell, in the order of the pack; of its first cells only, where not all fit
            into memory.
        began: When it was begun, seconds since 1970.
        layout: How it was trained, in words.
        reports: Of each run the losses reported to the pruner, by tenths of the run.
        processor: What extrap's own training computed on.
    """

    results: tuple[RunResult, ...]
    began: float = 0.0
    layout: str = ""
    reports: tuple[Mapping[int, float], ...] = ()
    processor: str = ""


class PackStopped(Exception):
    """A pack ended before its time: it was asked to, or a newer attempt has its cells."""


class PackFailed(Exception):
    """Training a pack raised an error.

    Args:
        error: The error.
        cells: Those that were in training.
    """

    def __init__(self, error: Exception, cells: Sequence[Cell]) -> None:
        super().__init__(error, cells)
        self.error, self.cells = error, tuple(cells)

    def __reduce__(self) -> tuple[Any, ...]:
        """A user's error may not survive the way to another process; its words do."""
        notes = getattr(self.error, "__notes__", ())
        words = "; ".join([f"{type(self.error).__name__}: {self.error}", *notes])
        return PackFailed, (ExtrapError(words), self.cells)


class PackFolder:
    """The files that a driver and its workers exchange.

    They lie in a folder of the driver's own. An attempt at a pack may go on while its file is
    there; another file says how far it is.

    Args:
        path: Where drivers have their folders; None where nothing is exchanged.
        driver: The driver, by the name of its storage, a dash, and what is its own.
    """

    def __init__(self, path: str | Path | None, driver: str) -> None:
        self.path = None if path is None else Path(path) / driver

    def begin(self) -> None:
        """End all attempts of earlier drivers of this storage.

        Raises:
            OSError: The folder cannot be written to.
        """
        assert self.path is not None
        storage = self.path.name.rpartition("-")[0]
        for folder in self.path.parent.glob(f"{storage}-*"):
            _remove(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        write_note(self.path / DRIVER, "")

    def end(self) -> None:
        """Remove the folder, and the one above where nothing else is in it."""
        if self.path is not None:
            with suppress(OSError):
                _remove(self.path)
                self.path.parent.rmdir()

    def is_shared(self) -> bool:
        """Whether the driver made this folder, or another machine has one at the same path."""
        return self._has(DRIVER)

    def permit(self, attempt: str) -> None:
        """Let an attempt go on.

        Raises:
            OSError: It cannot be written down.
        """
        if self.path is not None:
            write_note(self.path / attempt, "")

    def stop(self, attempt: str) -> None:
        """Ask an attempt to end at its next evaluation."""
        if self.path is not None:
            with suppress(OSError):
                (self.path / attempt).unlink(missing_ok=True)

    def goes_on(self, attempt: str) -> bool:
        """Whether an attempt may go on; it may where that is not known."""
        return not attempt or self._has(attempt)

    def write_progress(self, attempt: str, fraction: float, layout: str) -> None:
        """Say how far an attempt is."""
        if self.path is not None and attempt:
            with suppress(OSError):  # a full disk ends no training
                write_note(self.path / f"{attempt}{PROGRESS}", json.dumps([fraction, layout]))

    def progress(self, attempt: str) -> tuple[float, str] | None:
        """How far an attempt is and how it is trained; None if that is not known."""
        if self.path is None:
            return None
        try:
            text = (self.path / f"{attempt}{PROGRESS}").read_text("utf-8")
            fraction, layout = json.loads(text)
            return float(fraction), str(layout)
        except (OSError, ValueError, TypeError):  # none yet, or half of one
            return None

    def forget(self, attempt: str) -> None:
        """Remove the files of an attempt, which ends if it still trains."""
        self.stop(attempt)
        self.stop(f"{attempt}{PROGRESS}")

    def _has(self, name: str) -> bool:
        if self.path is None:
            return True
        try:
            return (self.path / name).exists()
        except OSError:  # a disk that is away for a moment
            return True


def _remove(folder: Path) -> None:
    """Remove the folder that a driver left."""
    for file in folder.glob("*"):
        file.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        folder.rmdir()


def train_pack(pack: PackRequest, folder: str | None = None) -> Trained:
    """Train the cells of a pack, in this process and those that help it.

    Where not all fit into memory the first are trained; who handed the pack out hands out the
    others again. extrap's own training takes a process for itself: threads take turns.

    Args:
        pack: What to train.
        folder: Where checkpoints of the study lie; None to leave and to find none.

    Raises:
        PackStopped: It was asked to end, or a newer attempt began; checkpoints are left.
        PackFailed: Training raised an error.
        StudyError: This process has other data than the driver, or cannot import what training
            imports.
        DataError: It has none.
    """
    try:
        files = PackFolder(None if folder is None else Path(folder) / PACKS_FOLDER, pack.driver)
        if not files.is_shared():  # that of another machine
            folder, files = None, PackFolder(None, pack.driver)
        watched = _Watched(files, pack)
        trainer = trainer_of(
            pack.spec, pack.train, pack.device, is_asked=watched.is_asked, origin=pack.origin
        )
    except ExtrapError:
        raise
    except (ImportError, ValueError) as error:
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
        folder if keeps else None, every_s=pack.every_s, is_asked=watched.is_asked
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
                prunes=pack.pruning is not None,
                checkpoints=checkpoints,
            )
        except StopAsked as error:
            raise PackStopped(pack.attempt) from error
        except PackStopped:
            raise
        except SystemExit as error:
            left = ExtrapError(f"a training must return its loss, got a call to exit ({error}).")
            raise PackFailed(left, cells) from error
        except ImportError as error:  # no other run would find it either
            words = import_words(error, getattr(pack.train, "folder", Path()))
            raise StudyError(
                f"a training must find all that it imports, got {words}; install it, or copy it "
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
        self._is_asked = False
        self.layout = ""

    def is_asked(self) -> bool:
        now = time.monotonic()
        if not self._is_asked and now - self._looked_at >= PROGRESS_EVERY_S:
            self._looked_at = now
            self._is_asked = not self._files.goes_on(self._pack.attempt)
        return self._is_asked

    def stop_if_asked(self) -> None:
        self._looked_at = -math.inf
        if self.is_asked():
            raise PackStopped(self._pack.attempt)

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
                self._files.write_progress(self._pack.attempt, part * fraction, self.layout)
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
        due, kept = int(REPORTS * fraction + SLACK), [True] * len(losses)
        for i, trial in enumerate(self._trials):
            reported = self.reports[self._cells[i]]
            if math.isfinite(losses[i]) and due > max(reported, default=0):
                reported[due] = losses[i]
                trial.report(losses[i], due)
                kept[i] = not trial.should_prune()
        return None if all(kept) else kept
