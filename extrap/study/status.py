"""Status of a study: which cells are done, who trains, what is left, what is known so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from optuna.trial import TrialState

from extrap.errors import ExtrapError, without_password
from extrap.fitting.optimum import estimate_optima
from extrap.fitting.seed_noise import estimate_noise
from extrap.reading.optuna import RESULT, StoredStudy, cells_in, our_studies
from extrap.reading.storages import open_if_there, storage_faults
from extrap.records import STAGES, Cell, Runs, StudySpec
from extrap.records.codec import encode, shape
from extrap.study.driver import default_storage
from extrap.study.lock import lock_of
from extrap.study.protocol import Kind, RunsByStage, Stage, no_runs
from extrap.study.trials import DRIVER, FAILURE, read_runs

Size = tuple[tuple[str, float], ...]
SizeKey = tuple[str, str, Size]
"""Study, stage, size."""
COUNTS = ("cells", "complete", "running", "waiting", "failed", "diverged", "duplicates")
MORE = "more runs follow when these are complete"
OPTIMUM = ("loss", "best_loss", "bracketed", "n_runs", "n_diverged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The process that runs a study, or ran it last.

    Attributes:
        worker: Where packs train.
        host: Its machine.
        pid: Its number there.
        state: `"at work"`, which the lock of the study says; `"left"`, as it wrote; `"gone"`.
        last_beat: When it last wrote its state, ISO 8601 in UTC.
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
    """Status of a study; encoded it is what `extrap study status --json` prints.

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
        flops: Of the same runs; 0 where they are not known.
        optima: The best tuned values of each size so far: `study`, `size`, `tuned` (name → value,
            standard error, interval; None where there is none), `loss`, `best_loss`,
            `bracketed`, `n_runs`, `n_diverged`.
        notes: What else there is to say, one sentence each.
    """

    study: str
    storage: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    done: bool
    sizes: tuple[SizeStatus, ...]
    workers: tuple[Worker, ...] = ()
    eta_s: float | None
    wall_s: float = 0.0
    flops: float = 0.0
    optima: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, name: str) -> int:
        """One of the counts over all sizes."""
        return sum(getattr(size, name) for size in self.sizes)


shape(
    StudyStatus,
    omit=("wall_s", "flops"),
    add={
        **{name: methodcaller("count", name) for name in COUNTS},
        "cost": lambda status: {"wall_s": status.wall_s, "flops": status.flops or None},
    },
)


class _Result(NamedTuple):
    """A finished trial: its cell, whether that was given up, and what the run cost."""

    study: str
    stage: str
    cell: Cell
    is_failed: bool
    wall_s: float
    flops: float


@dataclass(slots=True, kw_only=True)
class _Stored:
    """What a storage holds of a study; running cells by size."""

    results: list[_Result] = field(default_factory=list)
    n_broken: int = 0
    workers: tuple[Worker, ...] = ()
    running: dict[SizeKey, int] = field(default_factory=dict)


def study_status(study: Kind, storage: str | None = None) -> StudyStatus:
    """Status of a study in its storage, which is only read and never created."""
    where, stored = storage or default_storage(study), _Stored()
    with storage_faults(where):
        opened = open_if_there(where)
        specs = {spec.name: spec for spec in study.specs()}
        if opened is not None:
            stored = _read(our_studies(opened, specs), specs, lock_of(where, list(specs)).holder())
        runs = RunsByStage(
            lambda s, stage: no_runs(s) if opened is None else read_runs(opened, s, stage),
            Path("reports"),
        )
        sizes, stages, to_come = _count_all(study, stored, runs)
        optima = [
            optimum
            for stage in stages
            if stage.n_most
            for optimum in _optima(stage.spec, runs.of(stage.spec))
        ]
    notes = [] if stored.results else ["no run has started"]
    if stored.n_broken:
        notes.append(f"trials left out because they are not in extrap's format: {stored.n_broken}")
    if to_come:
        notes.append(to_come)
    return StudyStatus(
        study=study.name,
        storage=without_password(where),
        done=not any(map(_n_left, sizes)) and not to_come,
        sizes=sizes,
        workers=stored.workers,
        eta_s=_time_left(sizes, stored),
        wall_s=sum(result.wall_s for result in stored.results),
        flops=sum(result.flops for result in stored.results),
        optima=tuple(optima),
        notes=tuple(notes),
    )


def _read(
    studies: Sequence[StoredStudy],
    specs: Mapping[str, StudySpec],
    holder: Mapping[str, Any] | None,
) -> _Stored:
    """Everything that the sizes of some sweeps hold; `holder` has their lock."""
    stored = _Stored()
    for study in studies:
        name, stage, size = study.key
        for cell, trial in cells_in(study.trials(), size, specs[name]):
            is_failed, result = trial.state == TrialState.FAIL, trial.user_attrs.get(RESULT, {})
            if cell is None:
                stored.n_broken += not is_failed
            elif not is_failed or FAILURE in trial.user_attrs:
                costs = (float(result.get(cost) or 0) for cost in ("wall_s", "flops"))
                stored.results.append(_Result(name, stage, cell, is_failed, *costs))
    states = [study.attributes[DRIVER] for study in studies if study.attributes.get(DRIVER)]
    if states:
        _read_driver(stored, states, holder)
    return stored


def _read_driver(
    stored: _Stored, states: Sequence[Mapping[str, Any]], holder: Mapping[str, Any] | None
) -> None:
    """Take in what the last driver wrote; what it trains only if it still has the lock."""
    last = max(states, key=lambda s: (datetime.fromisoformat(s["at"]), bool(s.get("left"))))
    if holder is not None and str(holder.get("pid")) == str(last["pid"]):
        for study, stage, size, n in last.get("running", []):
            stored.running[study, stage, Cell.of(size, {}, 0).size] = int(n)
    left = "left" if last.get("left") else "gone"
    done = {result[:3] for result in stored.results if not result.is_failed}
    worker = Worker(
        worker=str(last.get("executor", "")),
        host=last["host"],
        pid=last["pid"],
        state=left if holder is None else "at work",
        last_beat=last["at"],
        n_running=sum(stored.running.values()),
        n_done=len(done),
        n_workers=int(last.get("workers", 1)),
    )
    stored.workers = (worker,)


def _count_all(
    study: Kind, stored: _Stored, runs: RunsByStage
) -> tuple[tuple[SizeStatus, ...], list[Stage], str]:
    """The counts of all stages, those that are wanted by now, and why more may be later."""
    sizes: list[SizeStatus] = []
    found: list[Stage] = []
    groups, n_groups, to_come = study.stages(runs), 0, ""
    while not any(map(_n_left, sizes)):
        try:
            stages = next(groups, None)
        except ExtrapError as error:
            if not found:
                raise
            to_come = f"the runs that follow cannot be determined: {error}"
            break
        if stages is None:
            break
        n_groups += 1
        for stage in stages:
            spec = stage.spec
            wanted = None if stage.wants is None else stage.wants(runs.of(spec, stage.role))
            sizes += _count_stage(spec, stage.role, wanted, stored, runs)
            found.append(stage)
    if n_groups == 1 and study.follows() and any(map(_n_left, sizes)):
        to_come = MORE
    known = {(stage.spec.name, stage.role) for stage in found}
    for spec in study.specs():
        for name in STAGES:
            if (spec.name, name) not in known:  # it waits for others
                sizes += _count_stage(spec, name, (), stored, runs)
    return tuple(sizes), found, to_come


def _count_stage(
    spec: StudySpec,
    stage: str,
    wanted: Collection[Cell] | None,
    stored: _Stored,
    runs: RunsByStage,
) -> list[SizeStatus]:
    """The counts of every size of one stage; nothing is wanted of a sampler by its cells."""
    is_sampled, asked = wanted is None, set(wanted or ())
    own = [result for result in stored.results if result[:2] == (spec.name, stage)]
    there = {result.cell for result in own}
    done = Counter(result.cell for result in own if not result.is_failed)

    def count(cells: Iterable[Cell]) -> Counter[Size]:
        return Counter(cell.size for cell in cells)

    planned = count(spec.grid_cells() if is_sampled else asked)
    missing = count(asked - there)
    complete = count(done)
    # nobody trains a failed cell that nobody asks for
    failed = count(cell for cell in there if cell not in done and (is_sampled or cell in asked))
    frame = runs.of(spec, stage).to_frame()  # which judges a huge loss too
    lost = frame.loc[frame["status"].eq("diverged"), list(spec.sizes)]
    diverged = Counter(tuple(zip(spec.sizes, row, strict=True)) for row in lost.to_numpy(float))
    duplicates = count(cell for cell, n in done.items() if n > 1)
    found = []
    for size in sorted({**planned, **complete, **failed}, key=lambda s: [v for _, v in s]):
        n_open, n_failed = missing[size], failed[size]
        if is_sampled:  # any cells will do, and another is sampled for a failed one
            n_open = max(0, planned[size] - complete[size])
            n_failed = min(n_failed, n_open)
            n_open -= n_failed
        n_running = min(n_open, stored.running.get((spec.name, stage, size), 0))
        found.append(
            SizeStatus(
                study=spec.name,
                stage=stage,
                size=dict(size),
                cells=complete[size] + n_failed + n_open,
                complete=complete[size],
                running=n_running,
                waiting=n_open - n_running,
                failed=n_failed,
                diverged=diverged[size],
                duplicates=duplicates[size],
            )
        )
    return found


def _n_left(size: SizeStatus) -> int:
    """Cells that want a worker, or have one; failed ones are tried again."""
    return size.running + size.waiting + size.failed


def _optima(spec: StudySpec, runs: Runs) -> list[dict[str, Any]]:
    """The optimum of each size so far; none where the runs cannot tell."""
    if not len(runs) or not runs.tuned:
        return []
    try:
        found = estimate_optima(runs, noise=estimate_noise(runs), level=spec.level)
    except (ExtrapError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return []  # too few runs, or too odd ones: there is no optimum yet
    return [
        encode(
            {
                "study": spec.name,
                "size": optimum.size,
                "tuned": {
                    name: {"value": e.value, "se": e.se, "ci": e.ci}
                    for name, e in optimum.tuned.items()
                },
                **{name: getattr(optimum, name) for name in OPTIMUM},
            }
        )
        for optimum in found
    ]


def _time_left(sizes: Sequence[SizeStatus], stored: _Stored) -> float | None:
    """Seconds of work left, shared by the workers at work; None if no run tells.

    A size without a result costs what the others of its sweep's columns do, extended in the
    logarithms of size and cost; with one such size, as much.
    """
    left = [size for size in sizes if _n_left(size)]
    costs: dict[SizeKey, list[float]] = {}
    for result in stored.results:
        if not result.is_failed:
            key = result.study, result.stage, result.cell.size
            costs.setdefault(key, []).append(result.wall_s)
    known = {key: float(np.mean(own)) for key, own in costs.items() if sum(own) > 0}
    total = 0.0
    for size in left:
        own = known.get((size.study, size.stage, tuple(size.size.items())))
        each = _extended(size.size, known) if own is None else own
        if each is None:
            return None
        total += each * _n_left(size)
    n_workers = sum(w.n_workers for w in stored.workers if w.state == "at work")
    return total / max(1, n_workers)


def _extended(size: Mapping[str, float], known: Mapping[SizeKey, float]) -> float | None:
    alike = [
        (math.log(math.prod(value for _, value in own)), math.log(cost))
        for (_, _, own), cost in known.items()
        if {column for column, _ in own} == set(size)
    ]
    if not alike:
        return None
    x, y = zip(*alike, strict=True)
    line = np.polyfit(x, y, min(1, len(set(x)) - 1))
    at = math.log(math.prod(size.values()))
    return math.exp(min(float(np.polyval(line, at)), 700.0))
