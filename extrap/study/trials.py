"""The trials of one stage of one study: what is there, and the only place that writes them.

A finished trial is written at once, with its values, at most `POINTS` intermediate values and its
whole curve as an attribute. The lowest-numbered finished trial of a cell counts. After an error of
the storage the cells are read again before the next try: what was written may have arrived.
Whoever calls tries again while the storage does not answer (`extrap.study.database.Retries`).
"""

from __future__ import annotations

import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from extrap.errors import DataError
from extrap.reading.optuna import (
    CONDITIONS_KEY,
    CURVE_KEY,
    ENDED,
    FINGERPRINT_KEY,
    GRADIENTS_KEY,
    RESULT_KEY,
    ROLE_KEY,
    SCHEMA_KEY,
    SEED_KEY,
    STORAGE_SCHEMA_VERSION,
    StoredStudy,
    cells_in,
    our_studies,
    read_stored,
    study_name,
)
from extrap.reading.storages import open_if_there, open_to_read, storage_faults
from extrap.records import Cell, RunResult, Runs, StudySpec, Train
from extrap.records.fields import LARGEST_LOSS
from extrap.study.database import drop_session, open_storage
from extrap.study.file_locks import this_process
from extrap.study.fingerprints import differences, fingerprint, is_of_own_training, refuse
from extrap.study.lock import lock_of
from extrap.study.protocol import no_runs
from extrap.study.status import DRIVER, Size
from extrap.study.trainers import trainer_of
from extrap.training.own.answers import COST_NAMES

logger = logging.getLogger(__name__)

STORAGE_ORIGIN = "origin"
"""Study attribute: a name of a storage's own, which only a copy of the storage has too."""
SEALED = "sealed:"
"""Beginning of study attributes: when the forecast of a content hash was sealed."""
OWNER = "owner"
"""Trial attribute: the process that wrote it."""
FAILURE = "failure"
"""Trial attribute: why a run was given up."""
POINTS = 5
"""Intermediate values of a trial, from which a dashboard draws its curve; reading and writing ten
took a quarter longer. Of a pruned study all reports are kept, ten at most."""


@dataclass(slots=True)
class _SizeTrials:
    """The finished trials of one size, as its storage has them.

    Attributes:
        study: Optuna's study.
        stored: What the storage says of it.
        origin: See `Trials.origin`.
        finished: The trials, by number.
        cells: Those that have a result.
        is_known: Whether the storage has these and no others: not after a write that failed.
        n_broken: Trials that are not as extrap writes them.
    """

    study: optuna.Study
    stored: StoredStudy
    origin: str
    finished: list[FrozenTrial] = field(default_factory=list)
    cells: set[Cell] = field(default_factory=set)
    is_known: bool = False
    n_broken: int = 0


@dataclass(slots=True)
class SizeResults:
    """How many cells of a size have a result, further results of them, and what all cost."""

    complete: int = 0
    diverged: int = 0
    duplicates: int = 0
    wall_s: float = 0.0
    flops: float = 0.0


class Trials:
    """The trials of one stage of one study.

    A `StudyError` says that the study was made differently, or by a newer version.
    `require_lock` is called before every write; `roles` are stored with the runs of their cells.

    Attributes:
        results: Size → what its finished trials gave.
    """

    def __init__(
        self,
        storage: BaseStorage,
        spec: StudySpec,
        *,
        stage: str,
        fingerprint: Mapping[str, Any],
        roles: Mapping[Cell, str] | None = None,
        require_lock: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage, self._spec, self._stage = storage, spec, stage
        self._fingerprint, self._roles = dict(fingerprint), roles or {}
        self._conditions = spec.conditions()
        self.require_lock = require_lock
        self._studies: set[str] = set()
        self._beats_in = ""
        self._sizes: dict[str, _SizeTrials] = {}
        self._done: set[Cell] = set()
        self.results = defaultdict[Size, SizeResults](SizeResults)
        self._runs = no_runs(spec)
        self._n_read = 0
        self._find()

    def study_of(self, size: Mapping[str, float]) -> optuna.Study:
        """Optuna's study of one size, which is created if it does not exist."""
        return self._of(size).study

    def done(self) -> AbstractSet[Cell]:
        """Cells that have a result; the set grows as results come."""
        return self._done

    def origin(self, size: Mapping[str, float]) -> str:
        """A name that the trials of one size have in this storage and in no other."""
        return self._of(size).origin

    def add(
        self,
        results: Iterable[RunResult],
        began: datetime,
        drawn: Mapping[Cell, FrozenTrial] | None = None,
    ) -> int:
        """Write finished runs; those whose cell has a result by now are left out.

        Args:
            results: The runs, in any order.
            began: When they were begun, local time.
            drawn: Trials of a sampler, which are written with the parameters, reports and marks
                that it gave them.

        Returns:
            How many were written.
        """
        by_cell = drawn or {}
        by_size: dict[tuple[tuple[str, float], ...], dict[Cell, FrozenTrial]] = {}
        for result in results:
            trial = self._trial(result, began, by_cell.get(result.cell))
            by_size.setdefault(result.cell.size, {}).setdefault(result.cell, trial)
        n_before = len(self._done)
        for size, trials in by_size.items():
            of_size = self._of(dict(size))
            for cell, trial in trials.items():
                self._read(of_size)
                if cell not in self._done:
                    self._write(of_size, trial)
        return len(self._done) - n_before

    def fail(self, cell: Cell, why: str) -> None:
        """Write down that a cell was given up, and why; the next start tries it again."""
        trial = create_trial(
            state=TrialState.FAIL,
            params=dict(cell.tuned),
            distributions=self.distributions(cell),
            user_attrs={**self._signature(cell), FAILURE: why},
        )
        of_size = self._of(dict(cell.size))
        self._read(of_size)
        self._write(of_size, trial)

    def beat(self, state: Mapping[str, Any]) -> None:
        """Write the state of the driver; where that cannot be done, do without."""
        self._beats_in = self._beats_in or min(self._studies, default="")  # always the same one
        if not self._beats_in:
            return
        try:
            self.require_lock()
            study_id = self._storage.get_study_id_from_name(self._beats_in)
            self._storage.set_study_user_attr(study_id, DRIVER, dict(state))
        except (optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError, OSError) as error:
            logger.debug("the state of the driver was not written: %s", error)
            drop_session(self._storage)

    def trials_of(self, size: Mapping[str, float]) -> list[FrozenTrial]:
        """The finished trials of one size, by number."""
        of_size = self._of(size)
        self._read(of_size)
        return of_size.finished

    def runs(self) -> Runs:
        """The finished runs, in the order of size, tuned values and seed."""
        if self._n_read != len(self._done):
            stored = [s.stored._replace(finished=s.finished) for s in self._sizes.values()]
            self._runs = _runs_of(stored, self._spec, self._stage)
            self._n_read = len(self._done)
        return self._runs

    @property
    def n_broken(self) -> int:
        """Trials that are not as extrap writes them."""
        return sum(of_size.n_broken for of_size in self._sizes.values())

    def _of(self, size: Mapping[str, float]) -> _SizeTrials:
        name = study_name(self._spec.name, size, stage=self._stage)
        if name not in self._sizes:
            self.require_lock()
            optuna.create_study(study_name=name, storage=self._storage, load_if_exists=True)
            self._find()
        return self._sizes[name]

    def _find(self) -> None:
        """Take in the studies that are there, after a look at their fingerprints.

        One that was made differently is refused if it has a result, else it is made anew.
        """
        studies = our_studies(self._storage, (self._spec.name,))
        for stored in studies:
            name = stored.full_name
            if name in self._studies:
                continue
            made_with = stored.fingerprint()
            columns = [", ".join(names) for names in (dict(stored.key.size), self._spec.sizes)]
            before, now = (
                {**parts, "sizes": names}
                for parts, names in zip((made_with, self._fingerprint), columns, strict=True)
            )
            changed = differences(before, now) if made_with else {}
            if changed and any(t.state in ENDED for other in studies for t in other.trials()):
                raise refuse(changed, study=self._spec.name)
            study = optuna.load_study(study_name=name, storage=self._storage)
            initial = {
                SCHEMA_KEY: STORAGE_SCHEMA_VERSION,
                FINGERPRINT_KEY: self._fingerprint,
                STORAGE_ORIGIN: uuid4().hex,
            }
            present = stored.attributes.keys() - ({FINGERPRINT_KEY} if changed else set())
            for attribute in [key for key in initial if key not in present]:
                self.require_lock()
                study.set_user_attr(attribute, initial[attribute])
            if stored.key.stage == self._stage:
                attributes = {
                    **stored.attributes,
                    **{a: initial[a] for a in initial if a not in present},
                }
                of_size = _SizeTrials(
                    study, stored._replace(attributes=attributes), attributes[STORAGE_ORIGIN]
                )
                self._read(of_size)
                self._sizes[name] = of_size
            self._studies.add(name)  # not before: a lost connection begins it again

    def _read(self, of_size: _SizeTrials) -> None:
        """Take in what the storage has, unless that is known."""
        if of_size.is_known:
            return
        trials = of_size.stored.trials()  # before anything is forgotten: it may fail
        self.results.pop(of_size.stored.key.size, None)
        of_size.finished, of_size.cells, of_size.n_broken = [], set(), 0
        for trial in trials:
            self._take(of_size, trial)
        of_size.is_known = True

    def _write(self, of_size: _SizeTrials, trial: FrozenTrial) -> None:
        """Write a finished trial of known ones; where that fails they are to be read again."""
        self.require_lock()
        of_size.is_known = False
        of_size.study.add_trial(trial)
        # after the last finished one: the storage may count higher, and nothing rests on it
        trial.number = of_size.finished[-1].number + 1 if of_size.finished else 0
        trial.user_attrs = json.loads(json.dumps(trial.user_attrs))  # as they are read
        self._take(of_size, trial)
        of_size.is_known = True

    def _take(self, of_size: _SizeTrials, finished: FrozenTrial) -> None:
        """Count a finished trial; the first of a cell counts."""
        of_size.finished.append(finished)
        for cell, trial in cells_in([finished], of_size.stored.key.size, self._spec):
            if trial.state not in ENDED:
                continue
            if cell is None:
                of_size.n_broken += 1
                continue
            result, results = trial.user_attrs.get(RESULT_KEY, {}), self.results[cell.size]
            results.wall_s += float(result.get("wall_s") or 0)
            results.flops += float(result.get("flops") or 0)
            if cell in of_size.cells:
                results.duplicates += 1
                continue
            of_size.cells.add(cell)
            self._done.add(cell)
            value = (trial.values or [math.nan])[0]
            is_lost = trial.state == TrialState.COMPLETE and not math.isfinite(value)
            results.complete += 1
            results.diverged += is_lost or result.get("status") == "diverged"

    def _trial(self, result: RunResult, began: datetime, drawn: FrozenTrial | None) -> FrozenTrial:
        """A finished trial of a run."""
        is_pruned = result.status == "pruned"
        attributes = {**self._signature(result.cell), RESULT_KEY: _costs(result)}
        if result.curve:
            attributes[CURVE_KEY] = result.curve
        if result.gradients:
            attributes[GRADIENTS_KEY] = result.gradients
        trial = create_trial(
            state=TrialState.PRUNED if is_pruned else TrialState.COMPLETE,
            params=dict(result.cell.tuned) if drawn is None else drawn.params,
            distributions=(
                self.distributions(result.cell) if drawn is None else drawn.distributions
            ),
            value=reported_value(result),
            user_attrs=attributes,
            system_attrs=None if drawn is None else drawn.system_attrs,
            intermediate_values=_points(result) if drawn is None else drawn.intermediate_values,
        )
        trial.datetime_start = began
        return trial

    def _signature(self, cell: Cell) -> dict[str, Any]:
        role = {ROLE_KEY: self._roles[cell]} if cell in self._roles else {}
        return {
            SEED_KEY: cell.seed,
            **role,
            CONDITIONS_KEY: self._conditions,
            OWNER: this_process(),
        }

    def distributions(self, cell: Cell) -> dict[str, BaseDistribution]:
        """The tuned ranges, widened to hold values beyond them."""
        is_drawn = self._spec.is_sampled and self._stage == "tune"
        return {n: range_of(self._spec, n, v, may_be_whole=is_drawn) for n, v in cell.tuned}


def range_of(
    spec: StudySpec, name: str, *others: float, may_be_whole: bool = True
) -> BaseDistribution:
    """The range of a tuned column, widened to hold other values."""
    tuned = spec.tune.get(name)
    ends = (*others, *((tuned.low, tuned.high) if tuned else ()))
    if may_be_whole and tuned and spec.is_whole(name):
        return IntDistribution(int(min(ends)), int(max(ends)), log=True)
    return FloatDistribution(min(ends), max(ends), log=True)


def _runs_of(stored: Sequence[StoredStudy], spec: StudySpec, stage: str) -> Runs:
    stored_runs = read_stored(stored, study=spec.name, stage=stage)
    if stored_runs.table.empty:
        return no_runs(spec)
    return Runs.from_frame(
        stored_runs.table,
        sizes=tuple(spec.sizes),
        tuned=tuple(spec.tune),
        conditions=tuple(name for name in spec.conditions() if name in stored_runs.table),
        curves=stored_runs.curves("loss"),
        source=f"study {spec.name}",
        notes=stored_runs.notes,
    )


def reported_value(result: RunResult) -> float:
    """What a sampler learns from: a diverged run made nothing of its initial loss."""
    if result.loss is not None:
        return result.loss if result.loss <= LARGEST_LOSS else math.inf  # squares overflow
    if result.status == "pruned" and result.curve:
        return result.curve[-1][1]
    return math.inf if result.initial_loss is None else result.initial_loss


def _points(result: RunResult) -> dict[int, float]:
    """Some points of a curve, the last one among them."""
    curve = list(result.curve)
    if len(curve) > POINTS:
        curve = [curve[round((i + 1) * len(curve) / POINTS) - 1] for i in range(POINTS)]
    return dict(curve)


def _costs(result: RunResult) -> dict[str, Any]:
    """What is known of a run beside what is kept by itself."""
    others = ["cell", "curve", "gradients"]
    others += ["loss"] if result.loss is None or result.loss == reported_value(result) else []
    others += [] if result.gradients else ["noise_scale"]
    values = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in others}
    return {name: value for name, value in values.items() if value or name not in COST_NAMES}


def first_sealed(storage: BaseStorage, study: str, content_hash: str, now: str) -> str:
    """When what a study foresees was first sealed in its storage, which is now if it never was.

    Only who has the lock of the study may call this.
    """
    studies, key = our_studies(storage, (study,)), SEALED + content_hash
    if not studies:
        raise DataError(f"the storage has no study {study!r}; tune first.")
    times = [stored.attributes[key] for stored in studies if key in stored.attributes]
    if not times:
        storage.set_study_user_attr(min(stored.id for stored in studies), key, now)
    return str(times[0]) if times else now


def sealed_at(url: str, study: str, content_hash: str) -> str:
    """When what a study foresees was first sealed in its storage; empty if it never was."""
    key = SEALED + content_hash
    with storage_faults(url):
        studies = our_studies(open_to_read(url), (study,))
    return next(
        (str(stored.attributes[key]) for stored in studies if key in stored.attributes), ""
    )


def read_fingerprint(url: str, *, study: str) -> dict[str, Any]:
    """What a study was made with: dotted name → value; empty for any other study."""
    with storage_faults(url):
        studies = our_studies(open_to_read(url), (study,))
        return studies[0].fingerprint() if studies else {}


def adopt_training(spec: StudySpec, storage: str, train: Train) -> tuple[str, ...]:
    """Write into the storage of a study that it is trained by this function or command.

    Whatever was trained before then counts as trained by it; nothing is trained again. Where there
    is no storage, nothing happens. Returns what changed, one sentence each.
    """
    spec = spec.without_recipe()
    now = fingerprint(spec, trainer_of(spec, train).fingerprint)
    changes: dict[str, None] = {}
    with storage_faults(storage), ExitStack() as stack:
        if open_if_there(storage) is None:
            return ()
        lock = lock_of(storage, [spec.name])
        lock.acquire()
        stack.callback(lock.release)
        opened = open_storage(storage)
        for study in our_studies(opened, (spec.name,)):
            stored = study.fingerprint()
            training_parts = sorted(filter(is_of_own_training, {*stored, *now}))
            differ = [part for part in training_parts if stored.get(part) != now.get(part)]
            if stored and differ:
                unchanged = {k: v for k, v in stored.items() if k not in training_parts}
                accepted = {k: now[k] for k in training_parts if k in now}
                opened.set_study_user_attr(study.id, FINGERPRINT_KEY, {**unchanged, **accepted})
                for part in differ:
                    was, is_now = stored.get(part, "nothing"), now.get(part, "nothing")
                    changes[f"{part} was {was}, is {is_now}"] = None
    return tuple(changes)
