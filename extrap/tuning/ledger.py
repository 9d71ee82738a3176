"""The ledger of a stage: which cells are taken, by which process, and what they gave.

The rules that make every cell be trained exactly once, whatever is killed when:

1. A process takes a cell by writing a running trial with its own name on it, in one transaction.
2. A cell belongs to its lowest-numbered trial that is not failed; whoever finds itself with
   another one gives it up.
3. A running trial whose process is dead is failed, which sets its cell free.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import optuna
import psutil
from optuna.distributions import FloatDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.reading.optuna import (
    CONDITIONS,
    CURVE,
    FINGERPRINT,
    GRADIENTS,
    OWNER,
    RESULT,
    SEED,
    parse_study_name,
    study_name,
    study_names,
)
from extrap.records import Cell, RunResult, StudySpec
from extrap.tuning.fingerprints import require_same

__all__ = ["Claim", "Ledger", "this_process"]

logger = logging.getLogger(__name__)

# A process start time is read from clocks that may drift by as much.
CLOCK_DRIFT_S = 2.0
# A sampled trial exists for a moment before its owner is written; give it this long.
UNOWNED_FOR = timedelta(minutes=1)
FAILURE = "failure"


class Claim(NamedTuple):
    """A cell this process may train, and its trial."""

    cell: Cell
    trial_id: int


class Ledger:
    """The trials of one stage of one study, in its storage."""

    def __init__(
        self, storage: BaseStorage, spec: StudySpec, *, stage: str, fingerprint: Mapping[str, Any]
    ) -> None:
        self._storage = storage
        self._spec = spec
        self._stage = stage
        self._fingerprint = dict(fingerprint)
        self._conditions = spec.conditions()
        self._studies: dict[str, int] = {}
        for name in study_names(storage):
            key = parse_study_name(name)
            if key is not None and key.name == spec.name:
                self._adopt(name, storage.get_study_id_from_name(name))

    def study_of(self, size: Mapping[str, float]) -> str:
        """The name of the Optuna study of one size; it is made if need be."""
        name = study_name(self._spec.name, size, stage=self._stage)
        if name not in self._studies:
            optuna.create_study(study_name=name, storage=self._storage, load_if_exists=True)
            self._adopt(name, self._storage.get_study_id_from_name(name))
        return name

    def taken(self) -> dict[Cell, bool]:
        """Cells that have a live trial → whether it is finished."""
        cells: dict[Cell, bool] = {}
        for _, size, trial in self._trials():
            if trial.state != TrialState.FAIL:
                cells.setdefault(_cell(size, trial), trial.state.is_finished())
        return cells

    def free_dead(self) -> None:
        """Fail the running trials of processes that are dead."""
        for study_id, _, trial in self._trials():
            if trial.state == TrialState.RUNNING and not _is_alive(trial):
                self._fail(self._id(study_id, trial), "its process died")

    def owners(self) -> tuple[str, ...]:
        """The processes that trials are running in, as `HOST:PID`."""
        running = (t for _, _, t in self._trials() if t.state == TrialState.RUNNING)
        names = (t.user_attrs.get(OWNER, {"host": "?", "pid": "?"}) for t in running)
        return tuple(sorted({f"{owner['host']}:{owner['pid']}" for owner in names}))

    @contextmanager
    def claimed(self, cells: Sequence[Cell]) -> Iterator[list[Claim]]:
        """Take cells of one size for this process; whatever ends the block early frees them.

        Yields:
            The cells it got; others may have been quicker.
        """
        with self.held() as claims:
            study = self.study_of(dict(cells[0].size))
            for cell in cells:
                trial_id = self._storage.create_new_trial(self._studies[study], self._new(cell))
                claims.append(Claim(cell, trial_id))
            yield self._keep_mine(study, claims)

    @contextmanager
    def held(self) -> Iterator[list[Claim]]:
        """A list to put claims in; whatever ends the block early frees them."""
        claims: list[Claim] = []
        try:
            yield claims
        except BaseException:  # Ctrl-C and exits too: the cells must be free for the next start
            for claim in claims:
                self._fail(claim.trial_id, "interrupted")
            raise

    def sign(self, trial_id: int, seed: int) -> None:
        """Write this process and the run's seed and recipe on a sampled trial."""
        for name, value in self._signature(seed).items():
            self._storage.set_trial_user_attr(trial_id, name, value)

    def tell(self, claim: Claim, result: RunResult) -> None:
        """Record what a cell gave."""
        with _unless_finished(claim.trial_id):
            self._storage.set_trial_user_attr(claim.trial_id, RESULT, _costs(result))
            self._storage.set_trial_user_attr(claim.trial_id, CURVE, result.curve)
            if result.gradients:
                self._storage.set_trial_user_attr(claim.trial_id, GRADIENTS, result.gradients)
            is_pruned = result.status == "pruned"
            state = TrialState.PRUNED if is_pruned else TrialState.COMPLETE
            self._storage.set_trial_state_values(claim.trial_id, state, [_told_value(result)])

    def _adopt(self, name: str, study_id: int) -> None:
        """Take a study in, after a look at its fingerprint."""
        stored = self._storage.get_study_user_attrs(study_id).get(FINGERPRINT)
        if stored is None:
            self._storage.set_study_user_attr(study_id, FINGERPRINT, self._fingerprint)
        else:
            require_same(stored, self._fingerprint, study=self._spec.name)
        self._studies[name] = study_id

    def _trials(self) -> Iterator[tuple[int, tuple[tuple[str, float], ...], FrozenTrial]]:
        """Study id, size and trial of every trial of this stage, by trial number."""
        for name, study_id in self._studies.items():
            key = parse_study_name(name)
            if key is not None and key.stage == self._stage:
                for trial in self._storage.get_all_trials(study_id, deepcopy=False):
                    yield study_id, key.size, trial

    def _new(self, cell: Cell) -> FrozenTrial:
        """A running trial of a cell, signed by this process."""
        tuned = dict(cell.tuned)
        return optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=tuned,
            distributions={name: self._distribution(name, v) for name, v in tuned.items()},
            user_attrs=self._signature(cell.seed),
        )

    def _signature(self, seed: int) -> dict[str, Any]:
        return {SEED: seed, CONDITIONS: self._conditions, OWNER: this_process()}

    def _distribution(self, name: str, value: float) -> FloatDistribution:
        """The tuned range, widened to hold a value beyond it."""
        tuned = self._spec.tune.get(name)
        low = min(value, tuned.low) if tuned else value
        high = max(value, tuned.high) if tuned else value
        return FloatDistribution(low, high, log=True)

    def _keep_mine(self, study: str, claims: list[Claim]) -> list[Claim]:
        """Give up the cells that another process was quicker to take."""
        study_id = self._studies[study]
        first: dict[Cell, int] = {}
        for trial in self._storage.get_all_trials(study_id, deepcopy=False):
            if trial.state != TrialState.FAIL:
                cell = _cell(claims[0].cell.size, trial)
                first.setdefault(cell, self._id(study_id, trial))
        for claim in claims:
            if first[claim.cell] != claim.trial_id:
                self._fail(claim.trial_id, "another trial has this cell")
        claims[:] = [claim for claim in claims if first[claim.cell] == claim.trial_id]
        return claims

    def _fail(self, trial_id: int, why: str) -> None:
        with _unless_finished(trial_id):
            self._storage.set_trial_user_attr(trial_id, FAILURE, why)
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _id(self, study_id: int, trial: FrozenTrial) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)


def this_process() -> dict[str, Any]:
    """Host, process id and start time: together they name a process for good."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "created": psutil.Process(pid).create_time(),
    }


def _is_alive(trial: FrozenTrial) -> bool:
    """Whether the process that a trial runs in may still be at work."""
    owner = trial.user_attrs.get(OWNER)
    if owner is None:
        started = trial.datetime_start
        return started is not None and datetime.now() - started < UNOWNED_FOR
    if owner["host"] != socket.gethostname():
        return True
    try:
        process = psutil.Process(owner["pid"])
        is_same = abs(process.create_time() - owner["created"]) < CLOCK_DRIFT_S
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


@contextmanager
def _unless_finished(trial_id: int) -> Iterator[None]:
    """Writing to a trial that somebody else has finished meanwhile is no error."""
    try:
        yield
    except optuna.exceptions.UpdateFinishedTrialError:
        logger.warning("trial %d was finished by another process; its result stands", trial_id)


def _cell(size: tuple[tuple[str, float], ...], trial: FrozenTrial) -> Cell:
    return Cell.of(dict(size), trial.params, trial.user_attrs.get(SEED, -1))


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
