"""A census of a study: the state of its cells and its workers, as a storage has them now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.reading.optuna import (
    FAILURE,
    FREED,
    RESULT,
    WORKER,
    StudyKey,
    ignored_trials,
    parse_study_name,
    problem_of,
    require_schema,
)
from extrap.records import Cell
from extrap.tuning.ledger import UNOWNED_S, cell_of, owner_of
from extrap.tuning.processes import is_gone, is_process

__all__ = [
    "UNOWNED_FOR",
    "CellState",
    "Census",
    "Worker",
    "is_over",
    "owner_of",
    "take_census",
    "worker_state",
]

UNOWNED_FOR = timedelta(seconds=UNOWNED_S)
"""A trial without a heartbeat for this long belongs to no worker."""

STATES = ("complete", "running", "failed", "freed")
"""Of a cell, the first that holds for one of its trials; a freed one waits to be trained."""


class CellState(NamedTuple):
    """What has become of a cell.

    Attributes:
        state: One of `STATES`.
        is_diverged: Whether its run diverged.
        n_results: Trials that gave a result; more than one is one too many.
    """

    state: str
    is_diverged: bool = False
    n_results: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that trains, or trained, cells of a study.

    Attributes:
        worker: Its name in the storage; empty for one of a version before there were beats.
        host: Its machine.
        pid: Its number there.
        state: `"at work"`; `"left"`, as it said; `"gone"`, as this machine knows; `"silent"` for
            longer than it said it might be, by the clocks; `"unknown"` without a beat.
        last_beat: When it was last heard of, ISO 8601 in UTC; None without a beat.
        n_running: Cells in its hands.
        n_done: Cells it gave a result of.
    """

    worker: str
    host: str
    pid: int
    state: str
    last_beat: str | None
    n_running: int = 0
    n_done: int = 0


@dataclass(slots=True, kw_only=True)
class Census:
    """What a storage holds of some studies.

    Attributes:
        cells: (study, stage) → cell → state; lowest-numbered trials count.
        wall_s: (study, stage, size) → wall-clock seconds of each run that gave a result.
        flops: Of all runs that gave a result, FLOPs.
        workers: Those seen, in the order in which they were first heard of.
        n_broken: Finished trials that are not as a worker writes them.
    """

    cells: dict[tuple[str, str], dict[Cell, CellState]] = field(default_factory=dict)
    wall_s: dict[tuple[str, str, tuple[tuple[str, float], ...]], list[float]] = field(
        default_factory=dict
    )
    flops: float = 0.0
    workers: tuple[Worker, ...] = ()
    n_broken: int = 0


def take_census(storage: BaseStorage, tuned: Mapping[str, Sequence[str]]) -> Census:
    """Look at every trial and beat of some studies; nothing is written.

    Args:
        storage: Where they are.
        tuned: Name of each study → names of its tuned values, in its order.

    Raises:
        StudyError: A newer version wrote one of them.
    """
    census = Census()
    workers: dict[str, Worker] = {}
    for study in storage.get_all_studies():
        key = parse_study_name(study.study_name)
        if key is None or key.name not in tuned:
            continue
        require_schema(study.user_attrs, study=study.study_name)
        for name, said in study.user_attrs.items():
            if name.startswith(WORKER) and (heard := _heard(name, said)) is not None:
                workers[heard.worker] = heard
        ignored = ignored_trials(study.user_attrs)
        trials = storage.get_all_trials(study._study_id, deepcopy=False)
        kept = [trial for trial in trials if trial.number not in ignored]
        _count(census, workers, key, kept, tuned[key.name])
    census.workers = tuple(workers.values())
    return census


def _count(
    census: Census,
    workers: dict[str, Worker],
    key: StudyKey,
    trials: Iterable[FrozenTrial],
    tuned: Sequence[str],
) -> None:
    """Sort the trials of one size in, lowest number first."""
    cells = census.cells.setdefault((key.name, key.stage), {})
    for trial in trials:
        if problem_of(trial):
            census.n_broken += trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
            continue
        if trial.state == TrialState.WAITING:
            continue
        cell, state = cell_of(key.size, trial, tuned), _state(trial)
        known = cells.get(cell)
        result = trial.user_attrs.get(RESULT, {})
        if state == "complete":
            own = CellState(state, result.get("status") == "diverged", 1)
            wall_s, flops = _finite(result.get("wall_s")), _finite(result.get("flops"))
            census.wall_s.setdefault((key.name, key.stage, key.size), []).append(wall_s)
            census.flops += flops
        else:
            own = CellState(state)
        if known is not None and known.n_results and own.n_results:
            cells[cell] = known._replace(n_results=known.n_results + 1)
        elif known is None or STATES.index(own.state) < STATES.index(known.state):
            cells[cell] = own
        _attribute(workers, trial, state)


def _state(trial: FrozenTrial) -> str:
    if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
        return "complete"
    if trial.state == TrialState.FAIL:
        return "freed" if trial.user_attrs.get(FAILURE, FREED[0]) in FREED else "failed"
    return "freed" if is_over(trial) else "running"


def is_over(trial: FrozenTrial) -> bool:
    """Whether a running trial is known to be of nobody: its process is dead, or it has none."""
    owner = owner_of(trial)
    if owner is None:
        started = trial.datetime_start
        return started is None or datetime.now() - started >= UNOWNED_FOR
    return bool(is_gone(owner))


def _attribute(workers: dict[str, Worker], trial: FrozenTrial, state: str) -> None:
    """Count a trial for the worker that signed it."""
    owner = owner_of(trial)
    if owner is None or state not in ("complete", "running"):
        return
    name = str(owner.get("worker") or "")
    place = name or f"{owner['host']}:{owner['pid']}"
    known = workers.get(place)
    if known is None:
        gone = is_gone(owner)
        at = {True: "gone", False: "at work", None: "unknown"}[gone]
        known = Worker(worker=name, host=owner["host"], pid=owner["pid"], state=at, last_beat=None)
    workers[place] = replace(
        known,
        n_running=known.n_running + (state == "running"),
        n_done=known.n_done + (state == "complete"),
    )


def _heard(name: str, said: object) -> Worker | None:
    state = worker_state(said)
    if state is None or not isinstance(said, dict):
        return None
    return Worker(
        worker=name.removeprefix(WORKER),
        host=said["host"],
        pid=said["pid"],
        state=state,
        last_beat=str(said["at"]),
    )


def worker_state(said: object) -> str | None:
    """The state of a worker by its last beat, as in `Worker`; None for a beat that is none."""
    if not is_process(said):
        return None
    try:
        at = datetime.fromisoformat(said["at"])
        silent_s = (datetime.now(UTC) - at).total_seconds()
        is_silent = silent_s > float(said["grace_s"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if said.get("left"):
        return "left"
    if is_gone(said):
        return "gone"
    return "silent" if is_silent else "at work"


def _finite(value: object) -> float:
    is_cost = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if is_cost else 0.0  # type: ignore[arg-type]
