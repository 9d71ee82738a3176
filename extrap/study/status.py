"""Status of a study: which cells are done, who trains, what is left, what is known so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from extrap.errors import DataError, ExtrapError
from extrap.fitting import estimate_noise, estimate_optima
from extrap.reading import without_password
from extrap.reading.copies import open_if_there
from extrap.reading.optuna import (
    DRIVER,
    FAILURE,
    FREED,
    RESULT,
    kept_trials,
    parse_study_name,
    problem_of,
    read_tables,
    require_schema,
)
from extrap.reading.storages import storage_faults
from extrap.records import Cell, Runs, StudySpec
from extrap.study.cascades import CascadeKind
from extrap.study.driver import default_storage
from extrap.study.protocol import Kind, RunsByStage, Stage, no_runs, only
from extrap.study.trials import cell_of
from extrap.training.own.processes import is_gone, is_process

Size = tuple[tuple[str, float], ...]
COUNTS = ("cells", "complete", "running", "waiting", "failed", "diverged", "duplicates")
MORE = "more runs follow when these are complete"
FEW = 2
"""Sizes with a cost from which that of others is extended, in the logarithms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeStatus:
    """The cells of one size of one stage: `cells` = complete + running + waiting + failed.

    Attributes:
        study: Name of the study in the storage.
        stage: `"tune"` or `"check"`.
        size: Size column → value.
        cells: Cells wanted by now, and those that are there.
        complete: They have a result; diverged and pruned runs are results.
        running: Handed out by a process that is not known to be dead.
        waiting: For a worker.
        failed: Given up for a fault of their own; the next start tries again, or samples another.
        diverged: Of the complete ones, those whose run diverged.
        duplicates: Cells with more than one result; the lowest-numbered counts.
    """

    study: str
    stage: str
    size: Mapping[str, float]
    cells: int = 0
    complete: int = 0
    running: int = 0
    waiting: int = 0
    failed: int = 0
    diverged: int = 0
    duplicates: int = 0


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


@dataclass(slots=True)
class _CellState:
    """The results of a cell: how many there are, and whether the first one is a diverged run.

    A cell without any was given up.
    """

    n_results: int = 0
    is_diverged: bool = False


@dataclass(slots=True, kw_only=True)
class _Counts:
    """What a storage holds of some studies.

    Attributes:
        cells: (study, stage) → cell → its state.
        running: (study, stage, size) → cells in training.
        wall_s: (study, stage, size) → wall-clock seconds of each run that gave a result.
        flops: Of all runs that gave a result, FLOPs.
        workers: The driver; empty before there was one.
        n_broken: Finished trials that are not in extrap's format.
    """

    cells: dict[tuple[str, str], dict[Cell, _CellState]] = field(default_factory=dict)
    running: Counter[tuple[str, str, Size]] = field(default_factory=Counter)
    wall_s: dict[tuple[str, str, Size], list[float]] = field(default_factory=dict)
    flops: float = 0.0
    workers: tuple[Worker, ...] = ()
    n_broken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStatus:
    """Status of a study; `to_dict` is what `extrap study status --json` prints.

    Attributes:
        study: Name of the study file's study.
        storage: Where, without a password.
        at: When this was seen, ISO 8601 in UTC.
        done: Whether nothing runs, waits or has failed, and nothing more will be wanted.
        sizes: The counts of every size, in the order of training.
        workers: The process that runs the study, or ran it last.
        eta_s: Seconds until what is wanted by now is done, with as many workers as it has now, or
            one; None where no run tells what one costs.
        wall_s: Wall-clock seconds of all runs that gave a result; a pack's runs share its time.
        flops: Of the same runs.
        optima: The best tuned values of each size so far: `study`, `size`, `tuned` (name → value,
            standard error, interval; None where there is none), `loss`, `best_loss`,
            `bracketed`, `n_runs`, `n_diverged`.
        notes: What else there is to say, one sentence each.
    """

    study: str
    storage: str
    at: str
    done: bool
    sizes: tuple[SizeStatus, ...]
    workers: tuple[Worker, ...]
    eta_s: float | None
    wall_s: float
    flops: float
    optima: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    def count(self, name: str) -> int:
        """One of the counts over all sizes."""
        return sum(getattr(size, name) for size in self.sizes)

    def to_dict(self) -> dict[str, Any]:
        """The document of `--json`: whole numbers over all sizes, then everything by name."""
        return {
            "study": self.study,
            "storage": self.storage,
            "at": self.at,
            **{name: self.count(name) for name in COUNTS},
            "done": self.done,
            "eta_s": self.eta_s,
            "cost": {"wall_s": self.wall_s, "flops": self.flops},
            "sizes": [{**asdict(size), "size": dict(size.size)} for size in self.sizes],
            "workers": [asdict(worker) for worker in self.workers],
            "optima": [dict(optimum) for optimum in self.optima],
            "notes": list(self.notes),
        }


def study_status(study: Kind, storage: str | None = None) -> StudyStatus:
    """Status of a study in its storage, which is only read and never created.

    Args:
        study: The study.
        storage: Storage URL; by default the study's own.

    Raises:
        DataError: There is something else at that address.
        StudyError: The storage cannot be read, or a newer version wrote it.
    """
    where = storage or default_storage(study)
    if isinstance(study, CascadeKind):
        return _status_of_answers(study, where)
    with storage_faults(where):
        opened = open_if_there(where)
        tuned = {spec.name: tuple(spec.tune) for spec in study.specs()}
        counts = _Counts() if opened is None else _count_trials(opened, tuned)
        runs = RunsByStage(partial(_runs, counts, opened), Path("reports"))
        sizes, stages, to_come = _count_all(study, counts, runs)
        optima = [
            optimum
            for stage in stages
            if stage.has_optima and stage.stage == "tune"
            for optimum in _optima(stage.spec, runs.of(stage.spec))
        ]
    notes = [] if opened is not None and counts.cells else ["no run has started"]
    if counts.n_broken:
        notes.append(f"trials left out because they are not in extrap's format: {counts.n_broken}")
    if to_come:
        notes.append(to_come)
    return StudyStatus(
        study=study.name,
        storage=without_password(where),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        done=not any(map(_n_left, sizes)) and not to_come,
        sizes=sizes,
        workers=counts.workers,
        eta_s=_time_left(sizes, counts),
        wall_s=sum(map(sum, counts.wall_s.values())),
        flops=counts.flops,
        optima=tuple(optima),
        notes=tuple(notes),
    )


def _status_of_answers(study: CascadeKind, folder: str) -> StudyStatus:
    """Status of a study that saves answers in a folder."""
    sizes = tuple(
        SizeStatus(
            study=study.name,
            stage="tune",
            size=dict(model.size),
            cells=len(there),
            complete=sum(there),
            waiting=len(there) - sum(there),
        )
        for model, there in study.saved(folder)
    )
    is_done = not any(size.waiting for size in sizes)
    return StudyStatus(
        study=study.name,
        storage=folder,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        done=is_done,
        sizes=sizes,
        workers=(),
        eta_s=0.0 if is_done else None,
        wall_s=0.0,
        flops=0.0,
        optima=(),
        notes=("only saved answers are counted; training processes and costs are not recorded",),
    )


def _count_all(
    study: Kind, counts: _Counts, runs: RunsByStage
) -> tuple[tuple[SizeStatus, ...], list[Stage], str]:
    """The counts of all stages, those that are wanted by now, and why more may be later."""
    sizes: list[SizeStatus] = []
    found: list[Stage] = []
    groups, to_come = study.stages(runs), ""
    while True:
        try:
            stages = next(groups, None)
        except ExtrapError as error:
            if not found:
                raise
            to_come = f"the runs that follow cannot be determined: {error}"
            break
        if stages is None:
            break
        is_first = not found
        for stage in stages:
            there = counts.cells.get((stage.spec.name, stage.stage), {})
            wanted = () if stage.wants is None else stage.wants(runs.of(stage.spec, stage.stage))
            sizes += _count_stage(stage, wanted, there, counts.running)
            found.append(stage)
        if any(map(_n_left, sizes)):
            to_come = MORE if is_first and study.follows() else ""
            break
    return tuple([*sizes, *_count_later(study, counts, found)]), found, to_come


def _count_later(study: Kind, counts: _Counts, found: Sequence[Stage]) -> list[SizeStatus]:
    """The counts of what is there of stages that wait for others."""
    known = {(stage.spec.name, stage.stage) for stage in found}
    return [
        size
        for spec in study.specs()
        for stage in ("tune", "check")
        if (spec.name, stage) not in known
        for size in _count_stage(
            Stage(spec=spec, wants=only(()), stage=stage),
            (),
            counts.cells.get((spec.name, stage), {}),
            {},
        )
    ]


def _count_stage(
    stage: Stage,
    wanted: Sequence[Cell],
    there: Mapping[Cell, _CellState],
    running: Mapping[tuple[str, str, Size], int],
) -> list[SizeStatus]:
    """The counts of every size of one stage."""
    is_sampled = stage.wants is None
    asked = set(wanted)
    planned = stage.spec.grid_cells() if is_sampled else ()
    states: dict[Size, list[_CellState]] = {cell.size: [] for cell in (*wanted, *planned)}
    for cell, state in there.items():
        # nobody trains one that nobody asks for; for a failed one another is sampled
        if state.n_results or cell in asked or is_sampled:
            states.setdefault(cell.size, []).append(state)
    found = []
    for size, seen in sorted(states.items(), key=lambda item: [value for _, value in item[0]]):
        if is_sampled:
            n_planned = sum(cell.size == size for cell in planned)
            seen = _without_replaced(seen, n_planned)
            n_cells = max(n_planned, len(seen))
        else:
            n_cells = sum(cell.size == size and cell not in there for cell in asked) + len(seen)
        n_open = n_cells - len(seen)
        n_running = min(n_open, running.get((stage.spec.name, stage.stage, size), 0))
        found.append(
            SizeStatus(
                study=stage.spec.name,
                stage=stage.stage,
                size=dict(size),
                cells=n_cells,
                complete=sum(state.n_results > 0 for state in seen),
                running=n_running,
                waiting=n_open - n_running,
                failed=sum(not state.n_results for state in seen),
                diverged=sum(state.is_diverged for state in seen),
                duplicates=sum(state.n_results > 1 for state in seen),
            )
        )
    return found


def _without_replaced(seen: Sequence[_CellState], n_planned: int) -> list[_CellState]:
    """Sampled cells without those failed ones for which others are there."""
    failed = [state for state in seen if not state.n_results]
    others = [state for state in seen if state.n_results]
    return others + failed[: max(0, n_planned - len(others))]


def _n_left(size: SizeStatus) -> int:
    """Cells that want a worker, or have one; failed ones are tried again."""
    return size.running + size.waiting + size.failed


def _runs(counts: _Counts, opened: BaseStorage | None, spec: StudySpec, stage: str) -> Runs:
    """The runs of one stage so far, as `extrap.tune` hands them to a sampler."""
    states = counts.cells.get((spec.name, stage), {}).values()
    if opened is None or not any(state.n_results for state in states):
        return no_runs(spec)
    try:
        frame, curves, _ = read_tables(opened, study=spec.name, stage=stage)
    except DataError:
        if not counts.n_broken:
            raise
        return no_runs(spec)  # until they are set aside
    return Runs.from_frame(
        frame,
        sizes=tuple(spec.sizes),
        tuned=tuple(spec.tune),
        conditions=tuple(spec.conditions()),
        curves=curves,
        source=spec.name,
    )


def _optima(spec: StudySpec, runs: Runs) -> list[dict[str, Any]]:
    """The optimum of each size so far; none where the runs cannot tell."""
    if not len(runs) or not runs.tuned:
        return []
    try:
        found = estimate_optima(runs, noise=estimate_noise(runs), level=spec.level)
    except (ExtrapError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return []  # too few runs, or too odd ones: there is no optimum yet
    return [
        {
            "study": spec.name,
            "size": dict(each.size),
            "tuned": {
                name: {
                    "value": _finite(estimate.value),
                    "se": _finite(estimate.se),
                    "ci": [*map(_finite, estimate.ci)],
                }
                for name, estimate in each.tuned.items()
            },
            "loss": _finite(each.loss),
            "best_loss": _finite(each.best_loss),
            "bracketed": bool(each.bracketed),
            "n_runs": each.n_runs,
            "n_diverged": each.n_diverged,
        }
        for each in found
    ]


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _time_left(sizes: Sequence[SizeStatus], counts: _Counts) -> float | None:
    """Seconds of work left, shared by the workers at work; None if no run tells.

    A size without a result costs what the others of its sweep's columns do, extended in the
    logarithms of size and cost; with one such size, as much.
    """
    left = [size for size in sizes if _n_left(size)]
    if not left:
        return 0.0
    known = {key: float(np.mean(own)) for key, own in counts.wall_s.items() if sum(own) > 0}
    total = 0.0
    for size in left:
        own = known.get((size.study, size.stage, _key(size.size)))
        each = _extended(size.size, known) if own is None else own
        if each is None:
            return None
        total += each * _n_left(size)
    n_workers = sum(w.n_workers for w in counts.workers if w.state == "at work")
    return total / max(1, n_workers)


def _extended(
    size: Mapping[str, float], known: Mapping[tuple[str, str, Size], float]
) -> float | None:
    alike = [
        (math.log(math.prod(dict(own).values())), math.log(cost))
        for (_, _, own), cost in known.items()
        if set(dict(own)) == set(size)
    ]
    if not alike:
        return None
    at = math.log(math.prod(size.values()))
    if len({x for x, _ in alike}) < FEW:
        return math.exp(float(np.mean([y for _, y in alike])))
    slope, intercept = np.polyfit([x for x, _ in alike], [y for _, y in alike], 1)
    return float(math.exp(min(slope * at + intercept, 700.0)))


def _key(size: Mapping[str, float]) -> Size:
    return tuple(size.items())


def _count_trials(storage: BaseStorage, tuned: Mapping[str, Sequence[str]]) -> _Counts:
    """Count the trials of some studies, and read the state of their driver.

    Args:
        storage: Where they are; nothing is written.
        tuned: Name of each study → names of its tuned values, in its order.

    Raises:
        StudyError: A newer version wrote one of them.
    """
    counts, drivers = _Counts(), list[Mapping[str, Any]]()
    for study in storage.get_all_studies():
        key = parse_study_name(study.study_name)
        if key is None or key.name not in tuned:
            continue
        require_schema(study.user_attrs, study=study.study_name)
        if _is_beat(driver := study.user_attrs.get(DRIVER)):
            drivers.append(driver)
        cells = counts.cells.setdefault((key.name, key.stage), {})
        for trial in kept_trials(storage, study._study_id):
            is_failed, attributes = trial.state == TrialState.FAIL, trial.user_attrs
            if not trial.state.is_finished():
                continue
            if problem_of(trial):
                counts.n_broken += not is_failed
                continue
            cell = cell_of(key.size, trial, tuned[key.name])
            if is_failed:
                if attributes.get(FAILURE, FREED[0]) not in FREED:
                    cells.setdefault(cell, _CellState())
                continue
            result, state = attributes.get(RESULT, {}), cells.setdefault(cell, _CellState())
            if not state.n_results:
                state.is_diverged = result.get("status") == "diverged"
            state.n_results += 1
            own = counts.wall_s.setdefault((key.name, key.stage, key.size), [])
            own.append(_cost(result.get("wall_s")))
            counts.flops += _cost(result.get("flops"))
    if drivers:
        last = max(drivers, key=lambda e: (datetime.fromisoformat(e["at"]), bool(e.get("left"))))
        _read_driver(counts, last)
    return counts


def _read_driver(counts: _Counts, driver: Mapping[str, Any]) -> None:
    """Take in the state that the driver wrote last."""
    silent_s = (datetime.now(UTC) - datetime.fromisoformat(driver["at"])).total_seconds()
    state = "silent" if silent_s > driver["grace_s"] else "at work"
    if driver.get("left") or is_gone(driver):
        state = "left" if driver.get("left") else "gone"
    else:
        for study, stage, size, n in driver.get("running", []):
            counts.running[study, stage, Cell.of(size, {}, 0).size] += int(n)
    states = [state for cells in counts.cells.values() for state in cells.values()]
    counts.workers = (
        Worker(
            worker=str(driver.get("executor", "")),
            host=driver["host"],
            pid=driver["pid"],
            state=state,
            last_beat=driver["at"],
            n_running=sum(counts.running.values()),
            n_done=sum(state.n_results > 0 for state in states),
            n_workers=int(driver.get("workers", 1)),
        ),
    )


def _is_beat(found: object) -> TypeGuard[Mapping[str, Any]]:
    try:
        return (
            is_process(found)
            and datetime.fromisoformat(found["at"]).tzinfo is not None
            and float(found["grace_s"]) > 0
        )
    except (KeyError, TypeError, ValueError):
        return False


def _cost(value: object) -> float:
    is_known = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if is_known else 0.0  # type: ignore[arg-type]
