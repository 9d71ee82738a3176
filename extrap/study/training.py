"""Training the stages of a study: packs handed to an executor, their results written by one hand.

A pack whose worker is lost is handed out again; that costs its cells nothing. A pack that fails is
halved until the cell that fails is alone; a cell that fails three times is given up by name, and
the rest goes on.
"""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any
from uuid import uuid4

from extrap.errors import ExtrapError, StudyError
from extrap.reading.storages import open_storage, storage_faults, storage_id
from extrap.records import Cell, RunResult, Runs, StudySpec, Train
from extrap.study.events import Notify, TuneEvent
from extrap.study.executors import LocalExecutor, n_workers_of
from extrap.study.fingerprints import fingerprint
from extrap.study.locks import GRACE_S, lock_of
from extrap.study.packs import (
    PACKS,
    Pack,
    PackFailed,
    PackFolder,
    PackStopped,
    Trained,
    checkpoints_of,
    close_crew,
    forget_trainers,
    hash_of,
    train_pack,
    trainer_of,
)
from extrap.study.protocol import Stage
from extrap.study.samplers import Sampled
from extrap.study.trainers import NVIDIA, OwnTrainer, PackedTrainer
from extrap.study.trials import Trials
from extrap.training.own.processes import this_process
from extrap.training.preemption import Preemption, current_preemption

logger = logging.getLogger(__name__)

TRIES = 3
"""Times that a cell may fail by itself before it is given up."""
LOSSES = 50
"""Losses one after the other, no pack finished between, after which there is no use in more.

Packs that are lost at once are one loss."""
PAUSE_S = 1.0
"""How long nothing is handed out after a loss, so that whatever loses packs does not spin."""
LOOK_S = 0.1
"""How often to look how far packs are, and whether to stop."""
BEAT_S = 10.0
"""How often the driver writes down what it is at."""
LEAVE_S = 2.0
"""How long packs that are stopped on the way out are waited for."""
AHEAD, SINGLES_AHEAD = 2, 8
"""Packs, or runs trained one by one, handed out for each worker: writing holds up no worker."""
WORTH_ASKING = 0.05
"""What is wanted is asked again when the finished cells grew by this part."""


class Training:
    """One driver of one study: it alone writes to the storage. A context manager.

    Args:
        storage: URL of the storage.
        specs: The sweeps that it may train.
        executor: Where packs train; on this machine by default.
        device: `"cpu"`, `"cuda:1"`, … of extrap's own training; a GPU if there is one by default.
        notify: Hears of the progress.
        preemption: How training is asked to stop, and the folder of checkpoints.
        grace_s: Seconds of silence after which another driver may take the study over.

    Raises:
        StudyError: The storage cannot be used, or another process runs the study.
    """

    def __init__(
        self,
        storage: str,
        specs: Sequence[StudySpec],
        *,
        executor: Executor | None = None,
        device: str | None = None,
        notify: Notify | None = None,
        preemption: Preemption | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._url, self._device = storage, device
        self._storage_id = storage_id(storage)
        self._executor, self._notify = executor, notify
        self._preemption = preemption or current_preemption()
        self._lock = lock_of(storage, [spec.name for spec in specs], grace_s)
        self._stack = ExitStack()
        self._flights: dict[Future[Trained], _Flight] = {}
        self._folders: dict[str, tuple[str, PackFolder]] = {}
        self._driver, self._n_attempts, self._n_lost = (
            f"{self._storage_id}-{uuid4().hex[:12]}",
            0,
            0,
        )
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._beat_at = -math.inf
        self._grace_s = grace_s
        self._courses: list[_Course] = []
        self._told: Trials | None = None
        self._has_said = False
        self._processors: set[str] = set()
        self._pause_until = -math.inf
        self._raised: Exception | None = None
        self.given_up: dict[Cell, Exception] = {}

    def __enter__(self) -> Training:
        with ExitStack() as stack:
            stack.enter_context(storage_faults(self._url))
            self._lock.acquire()
            stack.callback(self._lock.release)
            stack.callback(close_crew)
            self._storage = open_storage(self._url)
            forget_trainers()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> bool | None:
        try:
            self._leave()
        finally:
            is_own = bool(error) and error[0] is self._raised  # the user's is no storage's fault
            told = (None, None, None) if is_own else (kind, *error)
            ended = self._stack.__exit__(*told)
        return ended

    def trials(
        self, spec: StudySpec, stage: str, train: Train | None
    ) -> tuple[Trials, OwnTrainer | PackedTrainer]:
        """The trials of a stage, and who trains them."""
        trainer = trainer_of(spec, train, self._device, starts_crew=self._executor is None)
        made_with = fingerprint(spec, trainer.fingerprint)
        trials = Trials(
            self._storage,
            self._url,
            spec,
            stage=stage,
            fingerprint=made_with,
            require_lock=self._lock.check,
        )
        return trials, trainer

    def train(
        self,
        stages: Sequence[Stage],
        training_of: Callable[[StudySpec], Train | None],
        put: Callable[[Stage, Runs], None] = lambda stage, runs: None,
    ) -> None:
        """Train stages side by side until nothing more is wanted, smallest sizes first.

        Args:
            stages: The stages.
            training_of: Who trains a sweep; None for extrap's own training.
            put: Receives the runs of each stage when it is done.

        Raises:
            StopAsked: A stop was requested.
            StudyError: The storage cannot be used, or another process took the study over.
            DataError: The workload's data are missing.
        """
        self._courses = []
        for stage in stages:
            train = training_of(stage.spec)
            trials, trainer = self.trials(stage.spec, stage.stage, train)
            self._courses.append(_Course(stage, trials, trainer, train))
        self._reach_out()
        with self._preemption.heard():
            while True:
                self._fill()
                if not self._flights:
                    self._preemption.stop_if_asked()
                    if all(course.is_done() for course in self._courses):
                        break
                    time.sleep(LOOK_S)
                    continue
                self._look()
        self._beat(force=True)
        for course in self._courses:
            put(course.stage, course.trials.runs())

    def failures(self) -> tuple[str, ...]:
        """Which runs were given up and why, one sentence each."""
        return tuple(_given_up(cell, error) for cell, error in self.given_up.items())

    def last_failure(self) -> Exception | None:
        """The error of the last run that was given up."""
        return next(reversed(self.given_up.values()), None)

    def _reach_out(self) -> None:
        """Have somebody who trains."""
        if not isinstance(self._executor, LocalExecutor | None) and not self._has_said:
            self._has_said = True
            trains = any(course.trainer.trains_packs for course in self._courses)
            if trains and not self._preemption.is_shared:
                logger.warning(
                    "checkpoints on a cluster need a folder that all its machines share, "
                    "--checkpoints FOLDER; without one a lost pack starts over."
                )
        if self._executor is None:
            trains = any(course.trainer.trains_packs for course in self._courses)
            uses_all = trains and self._device is None and NVIDIA.exists()
            self._executor = LocalExecutor(_all_gpus() if uses_all else 0)
            self._stack.callback(self._executor.shutdown, wait=False, cancel_futures=True)

    def _fill(self) -> None:
        """Hand out packs as long as there is room."""
        if time.monotonic() < self._pause_until:
            return
        n_workers = n_workers_of(self._the_executor)
        for course in self._courses:
            ahead = AHEAD if course.trainer.trains_packs else SINGLES_AHEAD
            if not course.trials.done():  # perhaps nothing of this can be trained
                ahead = 1
            while len(self._flights) < ahead * n_workers:
                if self._preemption.is_asked:
                    return
                cells = course.next_cells(n_workers)
                if not cells:
                    break
                if not self._submit(course, cells):
                    return

    @property
    def _the_executor(self) -> Executor:
        assert self._executor is not None, "somebody trains by now"
        return self._executor

    def _submit(self, course: _Course, cells: Sequence[Cell]) -> bool:
        """Hand a pack out; whether the executor took it."""
        folder, files = self._folder(course.stage.spec)
        self._n_attempts += 1
        keeps = self._preemption.folder is not None
        pack = Pack(
            spec=course.stage.spec,
            cells=tuple(cells),
            train=course.train,
            device=self._device,
            driver=self._driver,
            attempt=str(self._n_attempts),
            every_s=self._preemption.every_s if keeps else math.inf,
            origin=course.origin(cells[0]),
            pruning=course.pruning(cells),
            made_with=hash_of(course.stage.spec, course.trainer.fingerprint),
        )
        course.trials.study_of(dict(cells[0].size))
        course.trials.require_lock()
        try:
            files.permit(pack.attempt)
        except OSError as error:  # a full disk; it trains all the same
            logger.debug("nobody can stop %s: %s", pack.attempt, error)
            pack = replace(pack, attempt="")
        self._told = self._told or course.trials
        try:
            future = self._the_executor.submit(train_pack, pack, folder)
        except StudyError:
            raise
        except Exception as error:  # an executor that is broken, or away for a moment
            self._lose(course, cells, error)
            return False
        began = datetime.now()
        self._flights[future] = _Flight(pack, course, files, began, self._n_lost)
        course.in_training.update(cells)
        self._beat()
        return True

    def _folder(self, spec: StudySpec) -> tuple[str, PackFolder]:
        """Where packs of a sweep leave checkpoints and hear from us."""
        if spec.name in self._folders:
            return self._folders[spec.name]
        wanted = self._preemption.folder
        if wanted is not None:
            place = wanted.absolute() / spec.name
            files = PackFolder(place / PACKS, self._driver)
            try:
                files.begin()
            except OSError as error:
                logger.warning(
                    "checkpoints need a writable folder with free space, got %s (%s); "
                    "training continues without checkpoints; free some space, or give "
                    "another folder with --checkpoints.",
                    place,
                    error.strerror or error,
                )
                wanted = None
            else:
                self._stack.callback(files.end)
        if wanted is None:
            made = tempfile.TemporaryDirectory(prefix="extrap-", ignore_cleanup_errors=True)
            place = Path(self._stack.enter_context(made))
            files = PackFolder(place / PACKS, self._driver)
            files.begin()
        self._folders[spec.name] = str(place), files
        return self._folders[spec.name]

    def _look(self) -> None:
        """Wait a moment; take in what is finished, and tell how far the rest is."""
        finished, _ = wait(self._flights, timeout=LOOK_S, return_when=FIRST_COMPLETED)
        if self._preemption.is_asked:
            self._stop()
        for future in finished:
            self._land(self._flights.pop(future), future)
        for flight in self._flights.values():
            if time.monotonic() < flight.look_at:
                continue
            flight.look_at = time.monotonic() + flight.files.look_s
            told = flight.files.progress(flight.pack.attempt)
            if told is not None and told[0] > flight.fraction:
                flight.fraction, flight.layout = told
                self._tell(flight)
        self._beat()

    def _stop(self) -> None:
        """Ask all packs to stop, take in those that end by themselves, and raise.

        Raises:
            StopAsked: Always.
        """
        for future, flight in list(self._flights.items()):
            if future.cancel():  # an executor that is broken may never say so itself
                self._land(self._flights.pop(future), future)
            else:
                flight.files.stop(flight.pack.attempt)
        is_heard = self._preemption.is_shared or not getattr(self._executor, "is_remote", False)
        while self._flights and is_heard:
            finished, _ = wait(self._flights, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            for future in finished:
                self._land(self._flights.pop(future), future)
        self._preemption.stop_if_asked()

    def _land(self, flight: _Flight, future: Future[Trained]) -> None:
        """Take in what became of a pack."""
        course, pack = flight.course, flight.pack
        course.in_training.difference_update(pack.cells)
        flight.files.forget(pack.attempt)
        try:
            trained = future.result()
        except PackFailed as error:
            self._blame(course, error.error, error.cells)
            course.again([cell for cell in pack.cells if cell not in set(error.cells)])
        except ExtrapError:
            raise
        except (CancelledError, Exception) as error:  # whatever an executor says of a lost worker
            self._lose(course, pack.cells, error, flight)
        else:
            _require_results(trained, pack)
            self._n_lost = 0
            for cell in pack.cells:
                course.losses.pop(cell, None)
            self._record(flight, trained)
            course.again(pack.cells[len(trained.results) :])
            flight.fraction, flight.layout = 1.0, trained.layout
            self._tell(flight, is_finished=True)

    def _lose(
        self,
        course: _Course,
        cells: Sequence[Cell],
        error: BaseException,
        flight: _Flight | None = None,
    ) -> None:
        """Hand a lost pack out again, in halves if it was lost before: it may be too large.

        Args:
            course: Its stage.
            cells: Its cells.
            error: What is said of it.
            flight: The pack, if an executor took it.

        Raises:
            StudyError: Too many were lost, and none finished between.
        """
        if self._preemption.is_asked:  # it was lost because we asked for it
            course.again(cells)
            return
        for cell in cells:
            course.losses[cell] = course.losses.get(cell, 0) + 1
        self._n_lost += flight is None or flight.n_lost >= self._n_lost  # else lost with others
        n_lost = max(course.losses[cell] for cell in cells)
        if max(self._n_lost, n_lost) > LOSSES:
            raise StudyError(
                f"workers must finish the packs they are given, {LOSSES} in a row were lost "
                f"({type(error).__name__}: {error}); check the logs of the workers, then run the "
                "same command to resume."
            ) from error
        if not isinstance(error, CancelledError | PackStopped):
            logger.warning("lost a worker (%s); its runs are trained again", error)
        self._pause_until = time.monotonic() + PAUSE_S
        if len(cells) > 1 and n_lost > 1:
            self._halve(course, cells)
            for cell in cells:
                del course.losses[cell]
        else:
            course.again(cells)

    @staticmethod
    def _halve(course: _Course, cells: Sequence[Cell]) -> None:
        middle = (len(cells) + 1) // 2
        course.again(cells[:middle])
        course.again(cells[middle:])

    def _record(self, flight: _Flight, trained: Trained) -> None:
        """Write results down; then their checkpoints can go."""
        course = flight.course
        if trained.processor and trained.processor not in self._processors:
            self._processors.add(trained.processor)
            if len(self._processors) > 1:
                logger.warning(
                    "workers have different processors (%s); their losses agree up to rounding, "
                    "about 1e-7 between CPUs and 1e-3 between a CPU and a GPU",
                    " and ".join(sorted(self._processors)),
                )
        course.record(trained, datetime.fromtimestamp(trained.began))
        if isinstance(course.trainer, PackedTrainer):
            folder, _ = self._folder(course.stage.spec)
            kept = checkpoints_of(course.stage.spec, course.trainer, folder)
            assert kept is not None
            course.trainer.forget([r.cell for r in trained.results], kept)

    def _blame(self, course: _Course, error: Exception, cells: Sequence[Cell]) -> None:
        """Halve a pack that failed; give up a cell that failed too often.

        Raises:
            Exception: The error, if nothing was ever trained: the fault is not the cell's.
        """
        if len(cells) > 1:
            self._halve(course, cells)
            return
        (cell,) = cells
        course.tries[cell] = course.tries.get(cell, 0) + 1
        if course.tries[cell] < TRIES:
            course.again(cells)
            return
        course.give_up(cell, f"the training raised {type(error).__name__}")
        if not any(each.trials.done() for each in self._courses):
            self._raised = error
            raise error
        self.given_up[cell] = error
        logger.warning("%s", _given_up(cell, error))

    def _tell(self, flight: _Flight, *, is_finished: bool = False) -> None:
        if self._notify is None:
            return
        course, pack = flight.course, flight.pack
        under_way = [f for f in self._flights.values() if f.course is course]
        under_way += [] if is_finished or flight in under_way else [flight]
        done, total = course.costs()
        self._notify(
            TuneEvent(
                stage=course.stage.stage,
                size=dict(pack.cells[0].size),
                n_runs=len(pack.cells),
                fraction=flight.fraction,
                cost_done=done + sum(f.fraction * course.cost(f.pack.cells) for f in under_way),
                cost_total=total,
                is_finished=is_finished,
                wall_s=(datetime.now() - flight.began).total_seconds(),
                layout=flight.layout,
                study=course.stage.spec.name,
            )
        )

    def _beat(self, *, force: bool = False, has_left: bool = False) -> None:
        """Write down what the driver is at, now and then."""
        now = time.monotonic()
        if self._told is None or (now - self._beat_at < BEAT_S and not force):
            return
        self._beat_at = now
        running: dict[tuple[str, str, tuple[tuple[str, float], ...]], int] = {}
        for flight in () if has_left else self._flights.values():
            stage, size = flight.course.stage, flight.pack.cells[0].size
            key = (stage.spec.name, stage.stage, size)
            running[key] = running.get(key, 0) + len(flight.pack.cells)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        executor = self._executor
        self._told.beat(
            {
                **this_process(),
                "since": self._since,
                "at": at,
                "grace_s": max(self._grace_s, 3 * BEAT_S),
                "left": has_left,
                "executor": "" if executor is None else type(executor).__name__,
                "workers": 0 if executor is None else n_workers_of(executor),
                "running": [[*key[:2], dict(key[2]), n] for key, n in running.items()],
            }
        )

    def _leave(self) -> None:
        """End what is still in training, and say that nobody trains any more."""
        for future, flight in self._flights.items():
            future.cancel()
            flight.files.stop(flight.pack.attempt)
        if self._flights and isinstance(self._executor, LocalExecutor):
            wait(self._flights, timeout=LEAVE_S)
        for future in [future for future in self._flights if future.done()]:
            flight = self._flights.pop(future)
            flight.course.trials.hurry()
            with suppress(Exception, CancelledError):  # it hides why we leave
                self._land(flight, future)
        with suppress(Exception):  # so does a storage that is gone
            self._beat(force=True, has_left=True)


@dataclass(slots=True, eq=False)
class _Flight:
    """A pack that was handed out."""

    pack: Pack
    course: _Course
    files: PackFolder
    began: datetime
    n_lost: int
    look_at: float = 0.0
    fraction: float = 0.0
    layout: str = ""


@dataclass(slots=True, eq=False)
class _Course:
    """A stage on its way.

    Attributes:
        stage: What is wanted.
        trials: What is there.
        trainer: Who trains it, and knows what that costs.
        train: The user's own training, if any.
        in_training: Cells that were handed out.
        tries: Cell → how often it failed alone.
        losses: Cell → how often its pack was lost since one of its size was finished.
        given_up: Cells that are not tried again.
    """

    stage: Stage
    trials: Trials
    trainer: OwnTrainer | PackedTrainer
    train: Train | None
    in_training: set[Cell] = field(default_factory=set)
    tries: dict[Cell, int] = field(default_factory=dict)
    losses: dict[Cell, int] = field(default_factory=dict)
    given_up: set[Cell] = field(default_factory=set)
    _wanted: list[Cell] = field(default_factory=list)
    _n_asked: int = -1
    _open: deque[Cell] = field(default_factory=deque)
    _first: list[list[Cell]] = field(default_factory=list)
    _samplers: dict[tuple[tuple[str, float], ...], Sampled] = field(default_factory=dict)
    _origins: dict[tuple[tuple[str, float], ...], str] = field(default_factory=dict)
    _costs: dict[Cell, float] = field(default_factory=dict)
    _cost_done: float = 0.0
    _cost_wanted: float = 0.0

    def __post_init__(self) -> None:
        self._cost_done = self.cost(self.trials.done())

    def next_cells(self, n_workers: int) -> list[Cell]:
        """The next pack; nothing while all that is wanted is done or in training."""
        while self._first:
            done = self.trials.done()
            if cells := [cell for cell in self._first.pop(0) if cell not in done]:
                return cells
        if self.stage.wants is None:
            return self._sampled()
        self._ask()
        if not self._open:
            return []
        self.stage.spec.require_whole()
        cells = self._pack(n_workers)
        if len(cells) == 1 and cells[0] == self._open[0]:
            self._open.popleft()
        else:
            taken = set(cells)
            self._open = deque(cell for cell in self._open if cell not in taken)
        return cells

    def is_done(self) -> bool:
        """Whether nothing is wanted any more."""
        if self._first or self.in_training:
            return False
        if self.stage.wants is None:
            return not self._sampled(looks_only=True)
        self._ask()
        return not self._open and self._n_asked == len(self.trials.done())

    def again(self, cells: Sequence[Cell]) -> None:
        """Hand these out first."""
        if cells:
            self._first.append(list(cells))

    def give_up(self, cell: Cell, why: str) -> None:
        """Try a cell no more; the next start does."""
        self.given_up.add(cell)
        self.trials.fail(cell, why)
        if cell.size in self._samplers:
            self._samplers[cell.size].give_up(cell)

    def pruning(self, cells: Sequence[Cell]) -> Any:
        """What lets a pruner look at a pack."""
        size = cells[0].size
        if self.stage.stage != "tune" or not self.trainer.trains_packs:
            return None
        if self.stage.wants is not None and self.stage.spec.pruner in ("", "none"):
            return None
        if size not in self._samplers:
            self._samplers[size] = Sampled(self.stage.spec, self.trials, dict(size))
        self._samplers[size].enter(cells)
        return self._samplers[size].pruning(cells)

    def record(self, trained: Trained, began: datetime) -> None:
        """Write results down."""
        sampler = self._samplers.get(trained.results[0].cell.size)
        asked = None if sampler is None else sampler.tell(trained.results, trained.reports)
        self.trials.add(trained.results, began, asked)
        self._cost_done += self.cost(result.cell for result in trained.results)

    def origin(self, cell: Cell) -> str:
        """A name of the storage, for what runs of a command leave."""
        if self.train is None:
            return ""
        if cell.size not in self._origins:
            self._origins[cell.size] = self.trials.origin(dict(cell.size))
        return self._origins[cell.size]

    def cost(self, cells: Iterable[Cell]) -> float:
        """Cost of some runs."""
        total = 0.0
        for cell in cells:
            if cell not in self._costs:
                self._costs[cell] = self.trainer.cost(cell)
            total += self._costs[cell]
        return total

    def costs(self) -> tuple[float, float]:
        """Cost of what is done, and of what is wanted; sampled cells cost what the grid's do."""
        if self.stage.wants is None and not self._cost_wanted:
            self._cost_wanted = self.cost(self.stage.spec.grid_cells())
        return self._cost_done, max(self._cost_done, self._cost_wanted)

    def _ask(self) -> None:
        """Ask what is wanted, if enough was finished since, or nothing is left to hand out."""
        assert self.stage.wants is not None, "no sampler chooses"
        done = self.trials.done()
        n_new = len(done) - self._n_asked
        is_much = n_new > WORTH_ASKING * max(len(done), len(self._wanted))
        is_due = is_much or not self._open or self.stage.spec.sampler == "law"
        if self._n_asked < 0 or (n_new and is_due):
            self._wanted = list(dict.fromkeys(self.stage.wants(self.trials.runs())))
            self._n_asked, self._cost_wanted = len(done), self.cost(self._wanted)
            kept = done | self.in_training | self.given_up
            missing = [cell for cell in self._wanted if cell not in kept]
            missing.sort(key=lambda cell: [value for _, value in cell.size])
            self._open = deque(missing)

    def _pack(self, n_workers: int) -> list[Cell]:
        """Cells of the smallest size, of one shape, to train together.

        With several workers no more than half of a worker's part of what is left, so that all
        finish together.
        """
        first = self._open[0]
        if not self.trainer.trains_packs:
            return [first]
        cells = list(takewhile(lambda cell: cell.size == first.size, self._open))
        shape = self.trainer.shape(first)
        same = [cell for cell in cells if self.trainer.shape(cell) == shape]
        if n_workers > 1 and len(same) > 1:
            part = self.cost(self._open) / (2 * n_workers)
            n_most = min(math.ceil(len(cells) / n_workers), int(part / self.cost(same[:1])))
            same = same[: max(1, n_most)]
        return same

    def _sampled(self, *, looks_only: bool = False) -> list[Cell]:
        """The next pack of the first size whose sampler waits for no result."""
        spec = self.stage.spec
        points = spec.size_points()
        n_wanted = len(spec.grid_cells()) // len(points)
        done = self.trials.done()
        busy = {cell.size for cell in self.in_training}
        for point in points:
            size = Cell.of(point, {}, 0).size
            n_there = sum(cell.size == size for cell in done)
            if n_there >= n_wanted or size in busy:
                continue
            if size not in self._samplers:
                self._samplers[size] = Sampled(spec, self.trials, dict(size))
            sampler = self._samplers[size]
            n_given_up = sum(cell.size == size for cell in self.given_up)
            if sampler.is_exhausted or n_given_up >= n_wanted:
                continue
            if looks_only:
                return [Cell.of(point, {}, 0)]
            spec.require_whole()
            asked = sampler.ask(n_wanted)
            by_shape: dict[Any, list[Cell]] = {}
            for cell in asked:
                by_shape.setdefault(self.trainer.shape(cell), []).append(cell)
            packs = list(by_shape.values())
            self._first += packs[1:]
            if packs:
                return packs[0]
        return []


def _require_results(trained: object, pack: Pack) -> None:
    """Raise unless an executor gave back what training the pack gave.

    Raises:
        StudyError: It did not.
    """
    if not isinstance(trained, Trained) or not all(
        isinstance(result, RunResult) for result in trained.results
    ):
        raise StudyError(
            "an executor must return what the function it was given returned, got "
            f"{type(trained).__name__}; check its submit method."
        )
    cells = [result.cell for result in trained.results]
    if not cells or cells != list(pack.cells[: len(cells)]):
        raise StudyError(
            "an executor must return the results of the pack it was given, got those of other "
            "cells; check its submit method."
        )


def _all_gpus() -> int:
    from extrap.training import n_gpus  # torch, which other training does without

    return n_gpus()


def _given_up(cell: Cell, error: Exception) -> str:
    values = [f"{name}={value:g}" for name, value in (*cell.size, *cell.tuned)]
    return (
        f"The run {', '.join([*values, f'seed={cell.seed}'])} failed {TRIES} times and was "
        f"skipped ({type(error).__name__}: {error}); run the command again to retry it."
    )
