"""The ledger of a stage: which cells are taken, by which process, and what they gave.

The rules that make every cell be trained exactly once, whatever is killed when:

1. A process takes a cell by writing a running trial with its own name on it, in one transaction.
2. A cell belongs to its lowest-numbered trial that is not failed; whoever finds itself with
   another one gives it up.
3. A running trial whose process is dead is failed, which sets its cell free. On its own machine
   a process is looked up; elsewhere, or if it stands still, its beats tell (`leases`).
4. A failed trial can never be told: the result of a process that was taken for dead is dropped.
5. A trial that carries the name of a process which does not know of it, because the answer of
   the storage was lost, is taken over by that process, or failed if it trains another one.

All this rests on the storage: numbers are given in the order in which trials can be seen, and a
trial is finished once. Both are so within a transaction of PostgreSQL and in a journal; for SQLite
`extrap.reading.databases` sees to the latter.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import StudyError
from extrap.reading.optuna import (
    CONDITIONS,
    CURVE,
    DIED,
    FAILURE,
    FINGERPRINT,
    GRADIENTS,
    INTERRUPTED,
    LOST_RACE,
    ORIGIN,
    OWNER,
    RESULT,
    SCHEMA,
    SCHEMA_VERSION,
    SEED,
    TRAINED_BY,
    ignored_trials,
    parse_study_name,
    require_schema,
    study_name,
    study_names,
)
from extrap.reading.patience import PatientStorage, hurried
from extrap.records import Cell, RunResult, StudySpec
from extrap.tuning.fingerprints import require_same
from extrap.tuning.leases import GRACE_S, Lease
from extrap.tuning.processes import is_gone, is_process, this_process

__all__ = ["Claim", "Ledger", "LostError", "cell_of", "owner_of"]

logger = logging.getLogger(__name__)

# A sampled trial exists for a moment before its owner is written; give it this long, by the own
# clock from when it was first seen, for the clocks of machines differ; of a trial that
# is as old as this by any clock nobody writes the owner any more.
UNOWNED_S, UNOWNED_MOST = 60.0, timedelta(days=2)


class Claim(NamedTuple):
    """A cell this process may train, and its trial."""

    cell: Cell
    trial_id: int


class LostError(Exception):
    """All cells in training were given to others, while this process stood still."""


@dataclass(slots=True)
class _Shelf:
    """The trials of one size: those that are finished for good, and those that may change.

    Attributes:
        size: The size.
        tuned: Names of the tuned values in the order of the study.
        known: Numbers of the trials that are finished, or set aside when this process began.
        done: Cells that have a result → the number of its trial.
        live: Trials that are at work, by number.
        read_at: When they were read, by the clock of this process.
    """

    size: tuple[tuple[str, float], ...]
    tuned: tuple[str, ...]
    known: set[int] = field(default_factory=set)
    done: dict[Cell, int] = field(default_factory=dict)
    live: dict[int, FrozenTrial] = field(default_factory=dict)
    read_at: float = -math.inf

    def take(self, trials: Iterable[FrozenTrial]) -> None:
        """Sort all trials in, reading only those that are new or were at work."""
        self.live.clear()
        for trial in trials:
            if trial.number in self.known:
                continue
            if not trial.state.is_finished():
                self.live[trial.number] = trial
                continue
            self.known.add(trial.number)
            if trial.state != TrialState.FAIL:
                self.done.setdefault(self.cell_of(trial), trial.number)

    def finish(self, trial_id: int) -> None:
        """Sort in that a trial at work has its result."""
        for number, trial in list(self.live.items()):
            if trial._trial_id == trial_id:
                del self.live[number]
                self.known.add(number)
                self.done.setdefault(self.cell_of(trial), number)

    def cell_of(self, trial: FrozenTrial) -> Cell:
        """The cell that a trial belongs to."""
        return cell_of(self.size, trial, self.tuned)


class Ledger:
    """The trials of one stage of one study, in its storage."""

    def __init__(
        self,
        storage: PatientStorage,
        spec: StudySpec,
        *,
        stage: str,
        fingerprint: Mapping[str, Any],
        grace_s: float = GRACE_S,
    ) -> None:
        self._storage = storage
        self._spec = spec
        self._stage = stage
        self._fingerprint = dict(fingerprint)
        self._conditions = spec.conditions()
        self._lease = Lease(storage, spec.name, grace_s=grace_s)
        self._studies: dict[str, int] = {}
        self._shelves: dict[int, _Shelf] = {}
        self._unowned: dict[int, float] = {}
        self._hands: list[list[Claim]] = []
        self._lost: set[int] = set()
        for name in study_names(storage):
            key = parse_study_name(name)
            if key is not None and key.name == spec.name:
                self._adopt(name, storage.get_study_id_from_name(name))

    def close(self) -> None:
        """Leave: nobody need wait for this process any more."""
        self._lease.close()

    def study_of(self, size: Mapping[str, float]) -> str:
        """The name of the Optuna study of one size; it is made if need be."""
        name = study_name(self._spec.name, size, stage=self._stage)
        if name not in self._studies:
            optuna.create_study(study_name=name, storage=self._storage, load_if_exists=True)
            self._adopt(name, self._storage.get_study_id_from_name(name))
        return name

    def taken(self, *, seen_within_s: float = 0.0) -> dict[Cell, bool]:
        """Cells that have a live trial → whether it is finished; trials of the dead are failed.

        So are trials that carry the name of this process, which does not know of them: their
        making was answered too late.

        Args:
            seen_within_s: What was read so recently is not read again. Claims do not rely on it.
        """
        cells: dict[Cell, bool] = {}
        held = {claim.trial_id for claims in self._hands for claim in claims}
        for study_id, shelf in self._shelves.items():
            if is_new := time.monotonic() - shelf.read_at >= seen_within_s:
                self._read(study_id)
            cells.update(dict.fromkeys(shelf.done, True))
            for trial in shelf.live.values():
                if is_new and self._is_mine(trial) and trial._trial_id not in held:
                    self._fail(trial._trial_id, LOST_RACE)
                elif is_new and self._is_dead(trial):
                    self._fail(trial._trial_id, DIED)
                else:
                    cells.setdefault(shelf.cell_of(trial), False)
        return cells

    def origin(self, size: Mapping[str, float]) -> str:
        """A name that the trials of one size have in this storage and in no other."""
        study_id = self._studies[self.study_of(size)]
        if ORIGIN not in self._storage.get_study_user_attrs(study_id):
            self._storage.set_study_user_attr(study_id, ORIGIN, uuid4().hex)
        return str(self._storage.get_study_user_attrs(study_id)[ORIGIN])  # others may be quicker

    def finished(self) -> list[Cell]:
        """Cells that were seen to be finished when the storage was last read."""
        return [cell for shelf in self._shelves.values() for cell in shelf.done]

    def owners(self) -> tuple[str, ...]:
        """The processes that trials are running in, as `HOST:PID`."""
        running = (trial for shelf in self._shelves.values() for trial in shelf.live.values())
        names = (owner_of(trial) or {"host": "?", "pid": "?"} for trial in running)
        return tuple(sorted({f"{owner['host']}:{owner['pid']}" for owner in names}))

    def company(self, size: Mapping[str, float]) -> tuple[int, int]:
        """This process' place among those at work on the study, and their number."""
        self._begin(size)
        return self._lease.company()

    def attend(self, claims: Sequence[Claim]) -> None:
        """Notice, if this process stood still, that others have its cells now.

        Raises:
            LostError: They have all of them.
        """
        if not self.still_mine(claims):
            raise LostError

    def still_mine(self, claims: Sequence[Claim]) -> list[Claim]:
        """Of these claims those that others were not given while this process stood still."""
        if self._lease.stood_still():
            held = [claim.trial_id for hand in self._hands for claim in hand]
            lost = {i for i in held if self._storage.get_trial(i).state == TrialState.FAIL}
            if lost:
                logger.warning(
                    "this process was suspended; %d of its %d runs were given to others",
                    len(lost),
                    len(held),
                )
            self._lost |= lost
        return [claim for claim in claims if claim.trial_id not in self._lost]

    @contextmanager
    def claimed(self, cells: Sequence[Cell]) -> Iterator[list[Claim]]:
        """Take cells of one size for this process; whatever ends the block early frees them.

        Yields:
            The cells it got; others may have been quicker.
        """
        with self._claimed({cell: self._new(cell) for cell in cells}) as claims:
            yield claims

    def results(self, size: Mapping[str, float]) -> dict[Cell, FrozenTrial]:
        """The finished cells of one size and their trials."""
        study_id = self._studies[self.study_of(size)]
        shelf = self._read(study_id)
        trials = self._storage.get_all_trials(study_id, deepcopy=False)
        by_number = {trial.number: trial for trial in trials}
        return {cell: by_number[number] for cell, number in shelf.done.items()}

    def copy(self, trials: Mapping[Cell, FrozenTrial]) -> int:
        """Record finished trials of another storage, all of one size; how many were recorded.

        The others are cells that a process is training here.
        """
        running = {cell: self._copied(trial) for cell, trial in trials.items()}
        with self._claimed(running) as claims:
            told = [
                self._finish(claim.trial_id, {}, trial.state, list(trial.values or []))
                for claim in claims
                for trial in [trials[claim.cell]]
            ]
        return sum(told)

    @contextmanager
    def _claimed(self, trials: Mapping[Cell, FrozenTrial]) -> Iterator[list[Claim]]:
        with self.held() as claims:
            size = dict(next(iter(trials)).size)
            self._begin(size)
            study_id = self._studies[self.study_of(size)]
            ids = self._storage.create_new_trials(study_id, list(trials.values()))
            claims += [Claim(cell, i) for cell, i in zip(trials, ids, strict=True)]
            self._keep_mine(study_id, claims)
            yield claims

    def keep_first(self, size: Mapping[str, float], claims: list[Claim], n_wanted: int) -> None:
        """Give up sampled cells that came after enough others of their size.

        Args:
            size: Their size.
            claims: The cells, all of one size; those given up are taken out.
            n_wanted: How many cells of that size there are to be.
        """
        shelf = self._read(self._studies[self.study_of(size)])
        live = {t._trial_id: number for number, t in shelf.live.items()}
        numbers = [*shelf.done.values(), *live.values()]
        kept = []
        for claim in claims:
            mine = live.get(claim.trial_id)  # None: others took it for nobody's
            if mine is not None and sum(number < mine for number in numbers) < n_wanted:
                kept.append(claim)
            else:
                self._fail(claim.trial_id, LOST_RACE)
        claims[:] = kept

    @contextmanager
    def held(self) -> Iterator[list[Claim]]:
        """A list to put claims in; whatever ends the block early frees them."""
        claims: list[Claim] = []
        self._hands.append(claims)
        try:
            yield claims
        except BaseException:  # exits too: the cells must be free for the next start
            with hurried(self._storage):
                self._free(claims, INTERRUPTED)
            raise
        finally:
            self._hands.pop()

    @contextmanager
    def blamed(self, claims: Sequence[Claim]) -> Iterator[None]:
        """Within the block these claims are in training: what it raises is their failure."""
        try:
            yield
        except Exception as error:
            with hurried(self._storage):
                self._free(claims, _why(error))
            raise

    def sign(self, trial_id: int, seed: int) -> bool:
        """Write this process and the run's seed and recipe on a sampled trial.

        Returns:
            False if another process took the trial for nobody's meanwhile.
        """
        try:
            for name, value in self._signature(seed).items():
                self._storage.set_trial_user_attr(trial_id, name, value)
        except optuna.exceptions.UpdateFinishedTrialError:
            return False
        return True

    def tell(self, claim: Claim, result: RunResult) -> bool:
        """Record what a cell gave; False if the cell was given to another process meanwhile."""
        attributes: dict[str, Any] = {RESULT: _costs(result)}
        if result.curve:
            attributes[CURVE] = result.curve
        if result.gradients:
            attributes[GRADIENTS] = result.gradients
        state = TrialState.PRUNED if result.status == "pruned" else TrialState.COMPLETE
        return self._finish(claim.trial_id, attributes, state, [_told_value(result)])

    def _finish(
        self, trial_id: int, attributes: Mapping[str, Any], state: TrialState, values: list[float]
    ) -> bool:
        if not self._storage.finish_trial(trial_id, attributes, state, values):
            logger.warning(
                "trial %d finished too late: its run was given to another process", trial_id
            )
            return False
        for shelf in self._shelves.values():
            shelf.finish(trial_id)
        return True

    def _begin(self, size: Mapping[str, float]) -> None:
        """Let others know that this process is there."""
        if not self._studies:
            self.study_of(size)
        self._lease.start(min(self._studies.values()))

    def _adopt(self, name: str, study_id: int) -> None:
        """Take a study in, after a look at its fingerprint."""
        attributes = self._storage.get_study_user_attrs(study_id)
        require_schema(attributes, study=name)
        stored = attributes.get(FINGERPRINT)
        if stored is None:
            self._storage.set_study_user_attr(study_id, SCHEMA, SCHEMA_VERSION)
            self._storage.set_study_user_attr(study_id, FINGERPRINT, self._fingerprint)
        elif not isinstance(stored, dict):
            raise StudyError(
                "the fingerprint of a study must be a table of names, got "
                f"{type(stored).__name__} in {name!r}; restore the storage from a backup."
            )
        else:
            require_same(stored, self._fingerprint, study=self._spec.name)
        self._studies[name] = study_id
        key = parse_study_name(name)
        if key is not None and key.stage == self._stage:
            ignored = set(ignored_trials(attributes))
            self._shelves[study_id] = _Shelf(key.size, tuple(self._spec.tune), ignored)

    def _read(self, study_id: int) -> _Shelf:
        shelf = self._shelves[study_id]
        started = time.monotonic()
        shelf.take(self._storage.get_all_trials(study_id, deepcopy=False))
        shelf.read_at = started
        return shelf

    def _new(self, cell: Cell) -> FrozenTrial:
        """A running trial of a cell, signed by this process."""
        tuned = dict(cell.tuned)
        return optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=tuned,
            distributions={name: self._distribution(name, v) for name, v in tuned.items()},
            user_attrs=self._signature(cell.seed),
        )

    def _copied(self, trial: FrozenTrial) -> FrozenTrial:
        """A finished trial of another storage as a running one, signed by this process."""
        trainer = trial.user_attrs.get(OWNER)
        copy = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={**trial.user_attrs, OWNER: self._owner(), TRAINED_BY: trainer},
            intermediate_values=trial.intermediate_values,
        )
        copy.datetime_start = trial.datetime_start
        return copy

    def _signature(self, seed: int) -> dict[str, Any]:
        return {SEED: seed, CONDITIONS: self._conditions, OWNER: self._owner()}

    def _owner(self) -> dict[str, Any]:
        return {**this_process(), "worker": self._lease.worker}

    def _distribution(self, name: str, value: float) -> FloatDistribution:
        """The tuned range, widened to hold a value beyond it."""
        tuned = self._spec.tune.get(name)
        low = min(value, tuned.low) if tuned else value
        high = max(value, tuned.high) if tuned else value
        return FloatDistribution(low, high, log=True)

    def _keep_mine(self, study_id: int, claims: list[Claim]) -> None:
        """Give up the cells that another process was quicker to take, and correct one's own."""
        shelf = self._read(study_id)
        first: dict[Cell, FrozenTrial] = {}
        for number in sorted(shelf.live):
            first.setdefault(shelf.cell_of(shelf.live[number]), shelf.live[number])
        mine = {t._trial_id for t in shelf.live.values() if self._is_mine(t)}
        kept = [
            Claim(claim.cell, first[claim.cell]._trial_id)
            for claim in claims
            if claim.cell not in shelf.done
            and claim.cell in first
            and first[claim.cell]._trial_id in mine
        ]
        for trial_id in mine - {claim.trial_id for claim in kept}:
            self._fail(trial_id, LOST_RACE)
        claims[:] = kept

    def _is_mine(self, trial: FrozenTrial) -> bool:
        owner = owner_of(trial)
        return owner is not None and owner.get("worker") == self._lease.worker

    def _is_dead(self, trial: FrozenTrial) -> bool:
        """Whether the process that a trial runs in is gone, or silent for too long."""
        owner = owner_of(trial)
        if owner is None:
            seen_at = self._unowned.setdefault(trial._trial_id, time.monotonic())
            started = trial.datetime_start
            is_old = started is None or datetime.now() - started >= UNOWNED_MOST
            return is_old or time.monotonic() - seen_at >= UNOWNED_S
        if is_gone(owner):
            return True
        self._lease.start(min(self._studies.values()))  # who does not listen knows of no silence
        # one that never beats is of a version before there were beats: it gets as long as others
        return self._lease.is_silent(str(owner.get("worker") or f"{owner['host']}:{owner['pid']}"))

    def _free(self, claims: Sequence[Claim], why: str) -> None:
        """Fail the trials of claims on the way out; what cannot be freed frees itself later."""
        for claim in claims:
            try:
                self._fail(claim.trial_id, why)
            except (optuna.exceptions.OptunaError, StudyError) as error:
                logger.warning(
                    "runs could not be released, other processes will release them: %s", error
                )
                return

    def _fail(self, trial_id: int, why: str) -> None:
        if not self._storage.finish_trial(trial_id, {FAILURE: why}, TrialState.FAIL, []):
            logger.debug("trial %d was finished by another process", trial_id)


def owner_of(trial: FrozenTrial) -> Mapping[str, Any] | None:
    """The process that a trial is signed by, if it is."""
    owner = trial.user_attrs.get(OWNER)
    return owner if is_process(owner) else None


def cell_of(size: tuple[tuple[str, float], ...], trial: FrozenTrial, tuned: Sequence[str]) -> Cell:
    """The cell that a trial belongs to.

    Args:
        size: Its size.
        trial: The trial.
        tuned: Names of the tuned values in the order of the study; Optuna's proxy loses it.
    """
    names = [name for name in tuned if name in trial.params]
    names += [name for name in trial.params if name not in names]
    values = {name: trial.params[name] for name in names}
    return Cell.of(dict(size), values, trial.user_attrs.get(SEED, -1))


def _why(error: BaseException) -> str:
    """Why a run ended early: by a fault of its own, or because its process was to end."""
    is_own = isinstance(error, Exception) and not isinstance(
        error, optuna.exceptions.OptunaError | StudyError | LostError
    )
    return f"the training raised {type(error).__name__}" if is_own else INTERRUPTED


def _costs(result: RunResult) -> dict[str, Any]:
    others = ["cell", "loss", "curve", "gradients"]
    others += [] if result.gradients else ["noise_scale"]
    return {f.name: getattr(result, f.name) for f in fields(result) if f.name not in others}


def _told_value(result: RunResult) -> float:
    """What the sampler learns from: a diverged run made nothing of its initial loss."""
    if result.loss is not None:
        return result.loss
    if result.status == "pruned" and result.curve:
        return result.curve[-1][1]
    return math.inf if result.initial_loss is None else result.initial_loss
