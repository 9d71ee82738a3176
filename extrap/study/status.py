"""Status of a study: which cells are done, who trains, what is left, what is known so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from optuna.storages import BaseStorage

from extrap.errors import DataError, ExtrapError
from extrap.fitting import estimate_noise, estimate_optima
from extrap.reading import without_password
from extrap.reading.copies import open_if_there
from extrap.reading.optuna import read_tables
from extrap.reading.storages import storage_faults
from extrap.records import Cell, Runs, StudySpec
from extrap.study.cascades import CascadeKind
from extrap.study.census import CellState, Census, Worker, take_census
from extrap.study.driver import default_storage
from extrap.study.protocol import Kind, RunsByStage, Stage, no_runs, only

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
        census = Census() if opened is None else take_census(opened, tuned)
        runs = RunsByStage(partial(_runs, census, opened), Path("reports"))
        sizes, stages, to_come = _count_all(study, census, runs)
        optima = [
            optimum
            for stage in stages
            if stage.has_optima and stage.stage == "tune"
            for optimum in _optima(stage.spec, runs.of(stage.spec))
        ]
    notes = [] if opened is not None and census.cells else ["no run has started"]
    if census.n_broken:
        notes.append(f"trials left out because they are not in extrap's format: {census.n_broken}")
    if to_come:
        notes.append(to_come)
    return StudyStatus(
        study=study.name,
        storage=without_password(where),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        done=not any(map(_n_left, sizes)) and not to_come,
        sizes=sizes,
        workers=census.workers,
        eta_s=_time_left(sizes, census),
        wall_s=sum(map(sum, census.wall_s.values())),
        flops=census.flops,
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
    study: Kind, census: Census, runs: RunsByStage
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
            there = census.cells.get((stage.spec.name, stage.stage), {})
            wanted = () if stage.wants is None else stage.wants(runs.of(stage.spec, stage.stage))
            sizes += _count_stage(stage, wanted, there, census.running)
            found.append(stage)
        if any(map(_n_left, sizes)):
            to_come = MORE if is_first and study.follows() else ""
            break
    return tuple([*sizes, *_count_later(study, census, found)]), found, to_come


def _count_later(study: Kind, census: Census, found: Sequence[Stage]) -> list[SizeStatus]:
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
            census.cells.get((spec.name, stage), {}),
            {},
        )
    ]


def _count_stage(
    stage: Stage,
    wanted: Sequence[Cell],
    there: Mapping[Cell, CellState],
    running: Mapping[tuple[str, str, Size], int],
) -> list[SizeStatus]:
    """The counts of every size of one stage."""
    is_sampled = stage.wants is None
    asked = set(wanted)
    planned = stage.spec.grid_cells() if is_sampled else ()
    states: dict[Size, list[CellState]] = {cell.size: [] for cell in (*wanted, *planned)}
    for cell, state in there.items():
        # nobody trains one that nobody asks for; for a failed one another is sampled
        if state.state == "complete" or cell in asked or is_sampled:
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
                complete=sum(state.state == "complete" for state in seen),
                running=n_running,
                waiting=n_open - n_running,
                failed=sum(state.state == "failed" for state in seen),
                diverged=sum(state.is_diverged for state in seen),
                duplicates=sum(state.n_results > 1 for state in seen),
            )
        )
    return found


def _without_replaced(seen: Sequence[CellState], n_planned: int) -> list[CellState]:
    """Sampled cells without those failed ones for which others are there."""
    failed = [state for state in seen if state.state == "failed"]
    others = [state for state in seen if state.state != "failed"]
    return others + failed[: max(0, n_planned - len(others))]


def _n_left(size: SizeStatus) -> int:
    """Cells that want a worker, or have one; failed ones are tried again."""
    return size.running + size.waiting + size.failed


def _runs(census: Census, opened: BaseStorage | None, spec: StudySpec, stage: str) -> Runs:
    """The runs of one stage so far, as `extrap.tune` hands them to a sampler."""
    states = census.cells.get((spec.name, stage), {}).values()
    if opened is None or not any(state.n_results for state in states):
        return no_runs(spec)
    try:
        frame, curves, _ = read_tables(opened, study=spec.name, stage=stage)
    except DataError:
        if not census.n_broken:
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


def _time_left(sizes: Sequence[SizeStatus], census: Census) -> float | None:
    """Seconds of work left, shared by the workers at work; None if no run tells.

    A size without a result costs what the others of its sweep's columns do, extended in the
    logarithms of size and cost; with one such size, as much.
    """
    left = [size for size in sizes if _n_left(size)]
    if not left:
        return 0.0
    known = {key: float(np.mean(own)) for key, own in census.wall_s.items() if sum(own) > 0}
    total = 0.0
    for size in left:
        own = known.get((size.study, size.stage, _key(size.size)))
        each = _extended(size.size, known) if own is None else own
        if each is None:
            return None
        total += each * _n_left(size)
    n_workers = sum(w.n_workers for w in census.workers if w.state == "at work")
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
