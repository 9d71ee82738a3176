"""A census of a study: the state of its cells and its driver, as a storage has them now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.reading.optuna import (
    DRIVER,
    FAILURE,
    FREED,
    RESULT,
    StudyKey,
    kept_trials,
    parse_study_name,
    problem_of,
    require_schema,
)
from extrap.records import Cell
from extrap.study.trials import cell_of
from extrap.training.own.processes import is_gone, is_process

Size = tuple[tuple[str, float], ...]


class CellState(NamedTuple):
    """What has become of a cell.

    Attributes:
        state: `"complete"` or `"failed"`.
        is_diverged: Whether its run diverged.
        n_results: Trials that gave a result; more than one is one too many.
    """

    state: str
    is_diverged: bool = False
    n_results: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The process that runs a study, or ran it last.

    Attributes:
        worker: Where packs train.
        host: Its machine.
        pid: Its number there.
        state: `"at work"`; `"left"`, as it said; `"gone"`, as this machine knows; `"silent"` for
            longer than it said it might be, by the clocks.
        last_beat: When it was last heard of, ISO 8601 in UTC.
        n_running: Cells in training.
        n_done: Cells that have a result.
        n_workers: Packs it can have in training at once.
    """

    worker: str
    host: str
    pid: int
    state: str
    last_beat: str | None
    n_running: int = 0
    n_done: int = 0
    n_workers: int = 1


@dataclass(slots=True, kw_only=True)
class Census:
    """What a storage holds of some studies.

    Attributes:
        cells: (study, stage) → cell → state; lowest-numbered trials count.
        running: (study, stage, size) → cells in training.
        wall_s: (study, stage, size) → wall-clock seconds of each run that gave a result.
        flops: Of all runs that gave a result, FLOPs.
        workers: Who trains; empty before anybody did.
        n_broken: Finished trials that are not as extrap writes them.
    """

    cells: dict[tuple[str, str], dict[Cell, CellState]] = field(default_factory=dict)
    running: dict[tuple[str, str, Size], int] = field(default_factory=dict)
    wall_s: dict[tuple[str, str, Size], list[float]] = field(default_factory=dict)
    flops: float = 0.0
    workers: tuple[Worker, ...] = ()
    n_broken: int = 0


def take_census(storage: BaseStorage, tuned: Mapping[str, Sequence[str]]) -> Census:
    """Look at every trial of some studies, and at their driver; nothing is written.

    Args:
        storage: Where they are.
        tuned: Name of each study → names of its tuned values, in its order.

    Raises:
        StudyError: A newer version wrote one of them.
    """
    census, said = Census(), list[Mapping[str, Any]]()
    for study in storage.get_all_studies():
        key = parse_study_name(study.study_name)
        if key is None or key.name not in tuned:
            continue
        require_schema(study.user_attrs, study=study.study_name)
        found = study.user_attrs.get(DRIVER)
        if isinstance(found, dict) and _is_beat(found):
            said.append(found)
        _count(census, key, kept_trials(storage, study._study_id), tuned[key.name])
    if said:
        _hear(
            census, max(said, key=lambda e: (datetime.fromisoformat(e["at"]), bool(e.get("left"))))
        )
    return census


def _count(
    census: Census, key: StudyKey, trials: Iterable[FrozenTrial], tuned: Sequence[str]
) -> None:
    """Sort the trials of one size in, lowest number first."""
    cells = census.cells.setdefault((key.name, key.stage), {})
    for trial in trials:
        if not trial.state.is_finished():
            continue
        if problem_of(trial):
            census.n_broken += trial.state != TrialState.FAIL
            continue
        cell, result = cell_of(key.size, trial, tuned), trial.user_attrs.get(RESULT, {})
        known = cells.get(cell)
        if trial.state == TrialState.FAIL:
            if known is None and trial.user_attrs.get(FAILURE, FREED[0]) not in FREED:
                cells[cell] = CellState("failed")
            continue
        census.wall_s.setdefault((key.name, key.stage, key.size), []).append(
            _finite(result.get("wall_s"))
        )
        census.flops += _finite(result.get("flops"))
        if known is not None and known.n_results:
            cells[cell] = known._replace(n_results=known.n_results + 1)
        else:
            cells[cell] = CellState("complete", result.get("status") == "diverged", 1)


def _hear(census: Census, said: Mapping[str, Any]) -> None:
    """Take in what the driver said last."""
    if said.get("left"):
        state = "left"
    elif is_gone(said):
        state = "gone"
    else:
        silent_s = (datetime.now(UTC) - datetime.fromisoformat(said["at"])).total_seconds()
        state = "silent" if silent_s > said["grace_s"] else "at work"
    running = said.get("running", []) if state in ("at work", "silent") else []
    for study, stage, size, n in running:
        census.running[study, stage, Cell.of(size, {}, 0).size] = int(n)
    n_done = sum(s.n_results > 0 for cells in census.cells.values() for s in cells.values())
    census.workers = (
        Worker(
            worker=str(said.get("executor", "")),
            host=said["host"],
            pid=said["pid"],
            state=state,
            last_beat=said["at"],
            n_running=sum(census.running.values()),
            n_done=n_done,
            n_workers=int(said.get("workers", 1)),
        ),
    )


def _is_beat(said: Mapping[str, Any]) -> bool:
    try:
        return (
            is_process(said)
            and datetime.fromisoformat(said["at"]).tzinfo is not None
            and float(said["grace_s"]) > 0
        )
    except (KeyError, TypeError, ValueError):
        return False


def _finite(value: object) -> float:
    is_cost = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if is_cost else 0.0  # type: ignore[arg-type]
