"""Hands packs to an executor and alone writes their results; what is lost is handed out again.

A pack whose worker is lost is handed out again, at no cost to its cells. A pack that fails is
halved until the failing cell is alone; a cell that fails three times is given up by name, and the
rest continues.
"""

from __future__ import annotations

import gc
import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from extrap import training
from extrap.errors import ExtrapError, StudyError
from extrap.reading.storages import storage_faults
from extrap.records import Cell, Runs, StudySpec, Train
from extrap.study.database import Retries, open_storage, storage_id
from extrap.study.executors import LocalExecutor, n_workers_of
from extrap.study.file_locks import this_process
from extrap.study.fingerprints import fingerprint
from extrap.study.ledger import MOST_FAILURES, Ledger, Part, size_statuses
from extrap.study.lock import lock_of
from extrap.study.pack_requests import (
    PROGRESS_EVERY_S,
    PackFailed,
    PackFolder,
    PackRequest,
    PackStopped,
    Trained,
    train_pack,
)
from extrap.study.progress import Notify, TuneEvent
from extrap.study.protocol import Say, Seal, Stage
from extrap.study.status import MORE, SizeStatus, time_left
from extrap.study.trainers import forget_trainers, run_words, trainer_of
from extrap.study.trials import SizeResults, Trials, first_sealed
from extrap.study.workers import start as start_importing
from extrap.training.cores import n_cores
from extrap.training.preemption import NO_CHECKPOINTS, Preemption

logger = logging.getLogger(__name__)

MOST_LOST = 50
"""Packs lost in a row after which the study ends; those lost at once count as one."""
PAUSE_S = 1.0
"""Pause after a loss before anything is handed out, so that a broken cluster is not flooded."""
LOOK_S = 0.1
"""Seconds between two looks at the progress of packs and at requests to stop."""
BEAT_S = 5.0
"""Seconds between two entries of the driver's state in the storage."""
LEAVE_S = 2.0
"""Seconds that packs which were asked to stop are waited for on the way out."""
AHEAD, SINGLES_AHEAD = 2, 8
"""Packs, or runs trained one by one, per worker: no worker waits while results are written."""


@dataclass(slots=True, eq=False)
class _RunningPack:
    """A pack that an executor has; its epoch is the number of losses before it was handed out."""

    pack: PackRequest
    part: Part
    ledger: Ledger
    files: PackFolder
    began: datetime
    epoch: int
    look_at: float = 0.0
    fraction: float = 0.0
    layout: str = ""


class Training:
    """The driver of one study; it alone writes to the storage. A context manager.

    Its arguments are those of `extrap.study.run`; `specs` are the sweeps that it may train, `name`
    is that of their study, and `follows` whether more is wanted than the next `train` is given.
    """

    def __init__(
        self,
        storage: str,
        specs: Sequence[StudySpec],
        *,
        executor: Executor | None = None,
        device: str | None = None,
        notify: Notify | None = None,
        say: Say = logger.info,
        preemption: Preemption | None = None,
        name: str = "",
        follows: bool = False,
    ) -> None:
        self._url, self._device = storage, device
        self._sweeps = [spec.name for spec in specs]
        self._study, self.follows = name or specs[0].name, follows
        self._external, self._notify, self._say = executor, notify, say
        self._local: dict[bool, LocalExecutor] = {}
        self._preemption = preemption or Preemption()
        self._lock = lock_of(storage, self._sweeps)
        self._stack = ExitStack()
        self._ledgers: list[Ledger] = []
        self._ended: list[Ledger] = []
        self._running: dict[Future[Trained], _RunningPack] = {}
        self._folders: dict[str, PackFolder] = {}
        self._name, self._n_packs = f"{storage_id(storage)}-{uuid4().hex[:12]}", 0
        self._n_losses, self._epoch, self._pause_until = 0, 0, -math.inf
        self._since, self._beat_at = datetime.now(UTC).isoformat(timespec="seconds"), -math.inf
        self._beats_in: Trials | None = None
        self._processors: set[str] = set()
        self._error_of_user: Exception | None = None

    def __enter__(self) -> Training:
        with ExitStack() as stack:
            stack.enter_context(storage_faults(self._url))
            self._lock.acquire()
            stack.callback(self._lock.release)
            self._storage = open_storage(self._url)
            self._retries = Retries(self._storage, self._url)
            forget_trainers()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> bool | None:
        try:
            self._leave()
        finally:
            # what the user's function raised is no fault of the storage
            is_of_user = bool(error) and error[0] is self._error_of_user
            ended = self._stack.__exit__(*((None, None, None) if is_of_user else (kind, *error)))
        return ended

    def train(
        self,
        stages: Sequence[Stage],
        training_of: Callable[[StudySpec], Train | None],
        put: Callable[[Stage, Runs], None] = lambda stage, runs: None,
    ) -> None:
        """Train stages side by side until nothing more is wanted, smallest sizes first.

        Args:
            stages: The stages.
            training_of: Returns the user's training of a sweep; None for extrap's own.
            put: Receives the runs of each stage when it is done.
        """
        wait = self._retries.until_answered
        openings = [partial(self._ledger, stage, training_of(stage.spec)) for stage in stages]
        for stage in stages:
            self._executor(training_of(stage.spec))  # it imports while we read
        self._ended += self._ledgers
        self._ledgers = [wait(opening) for opening in openings]
        if self._ledgers and self._beats_in is None:
            self._beats_in = self._ledgers[0].trials
        with self._preemption.heard():
            while True:
                is_done = self._turn()
                if self._running:
                    self._look()
                    continue
                self._preemption.stop_if_asked()
                if is_done:
                    break
                time.sleep(LOOK_S)
        self._beat(force=True)
        for ledger in self._ledgers:
            put(ledger.stage, wait(ledger.trials.runs))

    def first_sealed(self, seal: Seal, now: str) -> str:
        """When the content of a seal was first written down in the storage; now, if never."""

        def ask() -> str:
            self._lock.check()
            return first_sealed(self._storage, seal.spec.name, seal.content_hash, now)

        return self._retries.until_answered(ask)

    @property
    def given_up(self) -> dict[Cell, Exception]:
        """Cells that were given up → why."""
        return {
            cell: error
            for ledger in (*self._ended, *self._ledgers)
            for cell, error in ledger.given_up.items()
        }

    def failures(self) -> tuple[str, ...]:
        """The runs that were given up and why, one sentence each."""
        return tuple(
            f"The run {run_words(cell)} failed {MOST_FAILURES} times and was skipped "
            f"({type(error).__name__}: {error}); run the command again to retry it."
            for cell, error in self.given_up.items()
        )

    def _ledger(self, stage: Stage, train: Train | None) -> Ledger:
        spec = stage.spec
        trainer = trainer_of(spec, train, self._device)
        with _collector_paused():
            trials = Trials(
                self._storage,
                spec,
                stage=stage.name,
                fingerprint=fingerprint(spec, trainer.fingerprint),
                roles=stage.roles,
                require_lock=self._lock.check,
            )
        return Ledger(stage, trials, trainer, train, self._say)

    def _executor(self, train: Train | None) -> Executor:
        """Where packs of extrap's own training go, or runs of the user's."""
        if self._external is not None:
            return self._external
        is_own = train is not None
        if is_own not in self._local:
            executor = LocalExecutor(**{} if is_own else self._workers())
            self._stack.callback(executor.shutdown, wait=False, cancel_futures=True)
            self._local[is_own] = executor
        return self._local[is_own]

    def _workers(self) -> dict[str, int]:
        """Processes of this machine: one for each GPU or, on a CPU, for each core."""
        if self._device is not None:
            return {"n_workers": n_cores() if self._device == "cpu" else 1}
        start_importing()  # as this process does, to count GPUs
        return {"n_workers": n_cores(), "n_gpus": training.n_gpus()}

    def _executors(self) -> list[Executor]:
        return [self._external] if self._external is not None else [*self._local.values()]

    def _n_threads(self, executor: Executor, ledger: Ledger) -> int:
        """Threads of the next pack: the cores of this machine that no other pack will use."""
        if self._external is not None or not ledger.trainer.trains_packs:
            return 1
        n_waiting = sum(ledger.n_waiting() for ledger in self._ledgers)
        n_packs = min(n_workers_of(executor), 1 + len(self._running) + n_waiting)
        n_free = n_cores() - sum(running.pack.n_threads for running in self._running.values())
        return max(1, min(n_free, n_cores() // n_packs))

    def _turn(self) -> bool:
        """Write down what has come and hand out more; whether nothing more is wanted."""
        if not self._retries.is_due():
            return False
        try:
            for ledger in self._ledgers:
                ledger.write()
            self._fill()
            is_done = not self._running and all(ledger.is_done() for ledger in self._ledgers)
        except Exception as error:
            self._retries.failed(error)  # raises what does not pass by itself
            return False
        self._retries.answered()
        return is_done

    def _fill(self) -> None:
        """Hand out packs as long as there is room."""
        if time.monotonic() < self._pause_until:
            return
        for ledger in self._ledgers:
            executor = self._executor(ledger.train)
            n_workers = n_workers_of(executor)
            ahead = AHEAD if ledger.trainer.trains_packs else SINGLES_AHEAD
            if not ledger.has_results():  # perhaps nothing of this can be trained
                ahead = 1
            for _ in range(ahead * n_workers - self._n_running(executor)):
                if self._preemption.is_stop_requested:
                    return
                part = ledger.next_part(n_workers)
                if part is None:
                    break
                try:
                    is_taken = self._submit(executor, ledger, part)
                except Exception:
                    ledger.put_back(part)
                    raise
                if not is_taken:
                    return

    def _n_running(self, executor: Executor) -> int:
        """Packs that an executor has."""
        all_running = self._running.values()
        return sum(self._executor(r.ledger.train) is executor for r in all_running)

    def _submit(self, executor: Executor, ledger: Ledger, part: Part) -> bool:
        """Hand a pack out; whether the executor took it."""
        spec, size = ledger.stage.spec, dict(part.cells[0].size)
        files = self._folder(spec)
        self._n_packs += 1
        pack = PackRequest(
            spec=spec,
            cells=part.cells,
            train=ledger.train,
            device=self._device,
            driver=self._name,
            number=self._n_packs,
            n_threads=self._n_threads(executor, ledger),
            every_s=math.inf if self._preemption.folder is None else self._preemption.every_s,
            origin="" if ledger.train is None else ledger.trials.origin(size),
            pruning=ledger.pruning(part.cells),
            made_with=ledger.trainer.made_with,
            n_gpus=getattr(executor, "n_gpus", 0),
        )
        ledger.trials.study_of(size)
        ledger.trials.require_lock()
        try:
            future = executor.submit(train_pack, pack, files.path)
        except StudyError:
            raise
        except Exception as error:  # an executor that is broken, or away for a moment
            self._lose(ledger, part, error, is_new=True)
            return False
        now = datetime.now()
        self._running[future] = _RunningPack(pack, part, ledger, files, now, self._epoch)
        self._beat()
        return True

    def _folder(self, spec: StudySpec) -> PackFolder:
        """The folder of a sweep's checkpoints, where packs exchange files with us."""
        if spec.name not in self._folders:
            is_remote = getattr(self._external, "is_remote", False)
            if is_remote and not (self._folders or self._preemption.is_shared):
                logger.warning(
                    "checkpoints on a cluster need a folder that all its machines share, "
                    "--checkpoints FOLDER; without one a lost pack starts over."
                )
            self._folders[spec.name] = self._begin(spec.name) or self._begin_without()
        return self._folders[spec.name]

    def _begin(self, name: str) -> PackFolder | None:
        """Use a folder of checkpoints; None if there is to be none or it cannot be written to."""
        if self._preemption.folder is None:
            return None
        files = PackFolder(self._preemption.folder.absolute() / name, self._name)
        try:
            files.begin()
        except OSError as error:
            logger.warning(NO_CHECKPOINTS, files.path, error.strerror or error)
            return None
        self._stack.callback(self._end, files)
        return files

    def _begin_without(self) -> PackFolder:
        folder = tempfile.TemporaryDirectory(prefix="extrap-", ignore_cleanup_errors=True)
        files = PackFolder(self._stack.enter_context(folder), self._name)
        files.begin()
        return files

    def _end(self, files: PackFolder) -> None:
        """Remove the files of this driver; its note stays where packs may still begin."""
        if self._external is None or not self._running:
            files.end()

    def _look(self) -> None:
        """Wait a moment; take in what is finished, and pass on the progress of the rest."""
        wait(self._running, timeout=LOOK_S, return_when=FIRST_COMPLETED)
        if self._preemption.is_stop_requested:
            self._stop()
        self._take_finished()
        for running in self._running.values():
            is_one_run = not running.ledger.trainer.trains_packs  # which reports no progress
            if is_one_run or time.monotonic() < running.look_at:
                continue
            running.look_at = time.monotonic() + PROGRESS_EVERY_S
            progress = running.files.progress(running.pack.number)
            if progress is not None and progress[0] > running.fraction:
                running.fraction, running.layout = progress
                self._report(running)
        self._beat()

    def _take_finished(self) -> None:
        # an executor that is broken may never confirm that a future is cancelled: wait misses it
        for future in [future for future in self._running if future.done()]:
            self._take(self._running.pop(future), future)

    def _stop(self) -> None:
        """Ask all packs to stop, take in those that end by themselves, and raise."""
        self._ask_to_stop()
        is_heard = self._preemption.is_shared or not getattr(self._external, "is_remote", False)
        self._take_finished()
        while self._running and is_heard:
            wait(self._running, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            self._take_finished()
        self._preemption.stop_if_asked()

    def _ask_to_stop(self) -> None:
        for future in self._running:
            future.cancel()
        for files in self._folders.values():
            files.stop()

    def _take(self, running: _RunningPack, future: Future[Trained]) -> None:
        """Take in the end of a pack: its results, its failure or its loss."""
        ledger, part = running.ledger, running.part
        running.files.forget(running.pack.number)
        try:
            trained = future.result()
        except PackFailed as error:
            sound = [cell for cell in part.cells if cell not in set(error.cells)]
            ledger.put_back(Part(tuple(sound)))
            is_last = ledger.fail(error.cells, error.error)
            if is_last and not any(ledger.has_results() for ledger in self._ledgers):
                self._error_of_user = error.error  # the fault is not the cell's
                raise error.error from None
        except ExtrapError:
            raise
        except ImportError as error:  # of the executor: a worker lacks a library, extrap itself
            raise StudyError(
                f"a worker must have the driver's libraries, got {type(error).__name__}: {error}; "
                "install what is missing on every worker."
            ) from error
        except (CancelledError, Exception) as error:  # whatever an executor says of a lost worker
            self._lose(ledger, part, error, is_new=running.epoch == self._epoch)
        else:
            _require_results(trained, part)
            self._n_losses = 0
            self._record(ledger, trained)
            ledger.put_back(Part(part.cells[len(trained.results) :]))
            running.fraction, running.layout = 1.0, trained.layout
            self._report(running, is_finished=True)

    def _lose(self, ledger: Ledger, part: Part, error: BaseException, *, is_new: bool) -> None:
        """Hand a lost pack out again, in halves if it was lost before: it may be too large.

        `is_new`: whether it was handed out after the last loss, or was lost with others.
        """
        if self._preemption.is_stop_requested:  # it was lost because we asked for it
            ledger.put_back(part)
            return
        self._n_losses += is_new
        self._epoch += is_new
        part = replace(part, n_lost=part.n_lost + 1)
        if max(self._n_losses, part.n_lost) > MOST_LOST:
            raise StudyError(
                f"workers must finish the packs they are given, {MOST_LOST} in a row were lost "
                f"({type(error).__name__}: {error}); check the logs of the workers, then run the "
                "same command to resume."
            ) from error
        if not isinstance(error, CancelledError | PackStopped):
            logger.warning("lost a worker (%s); its runs are trained again", error)
        self._pause_until = time.monotonic() + PAUSE_S
        ledger.put_back(part, halved=part.n_lost > 1)

    def _record(self, ledger: Ledger, trained: Trained) -> None:
        """Take in results; when they are written down their checkpoints can be deleted."""
        if trained.processor and trained.processor not in self._processors:
            self._processors.add(trained.processor)
            if len(self._processors) > 1:
                logger.warning(
                    "workers have different processors (%s); their losses agree up to rounding, "
                    "about 1e-7 between CPUs and 1e-3 between a CPU and a GPU",
                    " and ".join(sorted(self._processors)),
                )
        folder = self._folder(ledger.stage.spec).path
        cells = [result.cell for result in trained.results]
        ledger.record(trained, then=partial(ledger.trainer.forget, cells, folder))

    def _report(self, running: _RunningPack, *, is_finished: bool = False) -> None:
        """Notify the listener of the progress of a pack."""
        if self._notify is None:
            return
        ledger, pack = running.ledger, running.pack
        done, total = ledger.costs()
        for other in self._running.values():
            if other.ledger is ledger:
                done += other.fraction * ledger.cost(other.pack.cells)
        self._notify(
            TuneEvent(
                stage=ledger.stage.name,
                size=dict(pack.cells[0].size),
                n_runs=len(pack.cells),
                fraction=running.fraction,
                cost_done=done,
                cost_total=total,
                is_finished=is_finished,
                wall_s=(datetime.now() - running.began).total_seconds(),
                layout=running.layout,
                study=ledger.stage.spec.name,
            )
        )

    def _beat(self, *, force: bool = False, has_left: bool = False) -> None:
        """Write the state of the driver into the storage, now and then."""
        now = time.monotonic()
        if self._beats_in is None or (now - self._beat_at < BEAT_S and not force):
            return
        self._beat_at = now
        n_workers = sum(map(n_workers_of, self._executors()))
        self._beats_in.beat(
            {
                **this_process(),
                "since": self._since,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "left": has_left,
                "executor": type(self._executors()[0]).__name__,
                "workers": n_workers,
                "study": self._study,
                "sweeps": self._sweeps,
                "status": self._status(n_workers, has_left=has_left),
            }
        )

    def _status(self, n_workers: int, *, has_left: bool) -> dict[str, Any]:
        """The status of the study, as `read_status` reads it."""
        stages: dict[tuple[str, str], list[Ledger]] = {}
        for ledger in (*self._ended, *self._ledgers):
            stages.setdefault((ledger.stage.spec.name, ledger.stage.name), []).append(ledger)
        packs = [] if has_left else [*self._running.values()]
        sizes, results, n_broken = list[tuple[SizeStatus, float]](), list[SizeResults](), 0
        for ledgers in stages.values():
            running = [cell for r in packs if r.ledger in ledgers for cell in r.pack.cells]
            sizes += size_statuses(ledgers, running)
            trials = ledgers[-1].trials
            results += trials.results.values()
            n_broken += trials.n_broken
        notes = [f"trials left out because they are not in extrap's format: {n_broken}"]
        return {
            "done": not self.follows and not any(size.n_left for size, _ in sizes),
            "sizes": [asdict(size) for size, _ in sizes],
            "eta_s": time_left(sizes, n_workers),
            "wall_s": sum(result.wall_s for result in results),
            "flops": sum(result.flops for result in results),
            "notes": notes * bool(n_broken) + [MORE] * self.follows,
        }

    def _leave(self) -> None:
        """End what is still in training, and write down that this driver has left."""
        self._notify = None  # the listener may be what raised
        self._ask_to_stop()
        if self._running and self._external is None:
            wait(self._running, timeout=LEAVE_S)
        for future in [future for future in self._running if future.done()]:
            running = self._running.pop(future)
            with suppress(BaseException):  # it hides why we leave
                self._take(running, future)
        for ledger in self._ledgers:
            with suppress(Exception):
                ledger.write()
        with suppress(Exception):  # so does a storage that is gone
            self._beat(force=True, has_left=True)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the garbage collector, which halves the speed of reading curves by the thousand."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _require_results(trained: object, part: Part) -> None:
    """Raise unless an executor gave back what training a part gave.

    Raises:
        StudyError: It did not.
    """
    if not isinstance(trained, Trained):
        raise StudyError(
            "an executor must return what the function it was given returned, got "
            f"{type(trained).__name__}; check its submit method."
        )
    cells = [result.cell for result in trained.results]
    if not cells or cells != list(part.cells[: len(cells)]):
        raise StudyError(
            "an executor must return the results of the pack it was given, got those of other "
            "cells; check its submit method."
        )
