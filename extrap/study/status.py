"""Status of a study: its driver writes it into the storage, and from there alone it is read.

Neither the study file nor a library of training or statistics is imported to read it; of an SQLite
storage not even Optuna.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from extrap.errors import StudyError, without_password
from extrap.records import Cell
from extrap.records.codec import shape
from extrap.study.file_locks import DriverLock, FileLocks

Size = tuple[tuple[str, float], ...]
Key = tuple[str, str, Size]
"""Sweep, stage, size."""
DRIVER = "driver"
"""Study attribute: the process that trains the study, since when, and the status of that."""
DEFAULT_STORAGE = "sqlite:///.extrap/{}.db"
"""Where the runs of a study are, by its name."""
SQLITE = "sqlite:///"
COUNTS = ("cells", "complete", "running", "waiting", "failed", "diverged", "duplicates")
MORE = "more runs follow when these are complete"
NO_STORAGE = "no run has started: the storage does not exist yet, the first run makes it"
NO_STATUS = "no run has started, or another version of extrap ran it; the next run writes a status"


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
        study: Name of the study.
        storage: Where, without a password.
        at: When this was seen, ISO 8601 in UTC.
        done: Whether nothing runs, waits or has failed, and nothing more will be wanted.
        sizes: The counts of every size, in the order of training.
        workers: The process that runs the study, or ran it last.
        eta_s: Seconds until what is wanted by now is done, with as many workers as it has now, or
            one; None where no run tells what one costs.
        wall_s: Wall-clock seconds of all runs that gave a result; a pack's runs share its time.
        flops: Of the same runs; 0 where they are not known.
        notes: What else there is to say, one sentence each.
    """

    study: str
    storage: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    done: bool = False
    sizes: tuple[SizeStatus, ...] = ()
    workers: tuple[Worker, ...] = ()
    eta_s: float | None = None
    wall_s: float = 0.0
    flops: float = 0.0
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


class Result(NamedTuple):
    """A finished trial: its cell, whether its run diverged, and what it cost."""

    cell: Cell
    is_diverged: bool
    wall_s: float
    flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCells:
    """The cells of a stage, as its driver knows them.

    Attributes:
        study: Name of the sweep.
        stage: `"tune"` or `"check"`.
        wanted: Cells wanted by now; where Optuna chooses, as many of each size.
        is_sampled: Whether Optuna chooses.
        results: Of its trials.
        failed: Cells that were given up.
        running: Size → cells that are handed out.
    """

    study: str
    stage: str
    wanted: Iterable[Cell]
    is_sampled: bool
    results: Sequence[Result]
    failed: Iterable[Cell]
    running: Mapping[Size, int]

    def sizes(self) -> list[SizeStatus]:
        """The counts of every size."""
        results: dict[Cell, Result] = {}
        for result in self.results:
            results.setdefault(result.cell, result)
        there, asked = {*results, *self.failed}, dict.fromkeys(self.wanted)
        complete, planned = _count(results), _count(asked)
        missing = _count(cell for cell in asked if cell not in there)
        failed = _count(c for c in there if c not in results and (self.is_sampled or c in asked))
        diverged = _count(cell for cell, result in results.items() if result.is_diverged)
        entries = _count(result.cell for result in self.results)
        found = []
        for size in sorted({**planned, **complete, **failed}, key=lambda s: [v for _, v in s]):
            n_open, n_failed = missing[size], failed[size]
            if self.is_sampled:  # any cells will do, and another is sampled for a failed one
                n_open = max(0, planned[size] - complete[size])
                n_failed = min(n_failed, n_open)
                n_open -= n_failed
            n_running = min(n_open, self.running.get(size, 0))
            found.append(
                SizeStatus(
                    study=self.study,
                    stage=self.stage,
                    size=dict(size),
                    cells=complete[size] + n_failed + n_open,
                    complete=complete[size],
                    running=n_running,
                    waiting=n_open - n_running,
                    failed=n_failed,
                    diverged=diverged[size],
                    duplicates=entries[size] - complete[size],
                )
            )
        return found


def written_status(
    stages: Sequence[StageCells], *, n_workers: int, follows: bool, notes: Sequence[str]
) -> dict[str, Any]:
    """What a driver writes of a study; `read_status` reads it.

    Args:
        stages: All stages so far.
        n_workers: Packs that can train at once.
        follows: Whether more is wanted when these are done.
        notes: What else there is to say.
    """
    sizes = [size for stage in stages for size in stage.sizes()]
    results = [result for stage in stages for result in stage.results]
    return {
        "done": not follows and not any(map(_n_left, sizes)),
        "sizes": [asdict(size) for size in sizes],
        "eta_s": _time_left(sizes, stages, n_workers),
        "wall_s": sum(result.wall_s for result in results),
        "flops": sum(result.flops for result in results),
        "notes": [*notes, *([MORE] if follows else [])],
    }


def read_status(storage: str, name: str = "") -> StudyStatus:
    """The status that the last driver of a study wrote; the storage is only read.

    Args:
        storage: Its address.
        name: Of the study; may be empty where the storage holds one.

    Raises:
        ValueError: The storage holds several, and none of this name.
        StudyError: It cannot be read.
    """
    where, states = without_password(storage), _states(storage)
    if states is None:
        return StudyStatus(study=name, storage=where, notes=(NO_STORAGE,))
    last = {state["study"]: state for state in sorted(states, key=_order) if "study" in state}
    if name not in last and len(last) > 1:
        raise ValueError(
            f"a storage of several studies needs the name of one, got {name or 'none'} for {where}"
            f"; give the file of one of {', '.join(last)}."
        )
    if not last:
        return StudyStatus(study=name, storage=where, notes=(NO_STATUS,))
    name = name if name in last else next(iter(last))
    try:
        return _seen(last[name], storage, name)
    except (KeyError, TypeError) as error:
        raise StudyError(
            f"the status in {where} must be as this extrap writes it, got {error}; run the study "
            "again, or install the version that ran it."
        ) from error


def _seen(state: Mapping[str, Any], storage: str, name: str) -> StudyStatus:
    """A status as it is now: what nobody trains any more waits."""
    written = state["status"]
    holder = _lock(storage, state["sweeps"]).holder()
    is_held = holder is not None
    is_own = holder is not None and str(holder.get("pid")) == str(state["pid"])
    sizes = [SizeStatus(**size) for size in written["sizes"]]
    if not is_own:
        sizes = [replace(s, running=0, waiting=s.waiting + s.running) for s in sizes]
    worker = Worker(
        worker=str(state.get("executor", "")),
        host=state["host"],
        pid=state["pid"],
        state="at work" if is_held else "left" if state.get("left") else "gone",
        last_beat=state["at"],
        n_running=sum(size.running for size in sizes),
        n_done=sum(size.complete for size in sizes),
        n_workers=int(state.get("workers", 1)),
    )
    return StudyStatus(
        study=name,
        storage=without_password(storage),
        done=written["done"],
        sizes=tuple(sizes),
        workers=(worker,),
        eta_s=written["eta_s"],
        wall_s=written["wall_s"],
        flops=written["flops"],
        notes=tuple(written["notes"]),
    )


def _order(state: Mapping[str, Any]) -> tuple[datetime, bool]:
    return datetime.fromisoformat(state["at"]), bool(state.get("left"))


def _sqlite_file(url: str) -> Path | None:
    """The file of a plain address of SQLite."""
    place = url.removeprefix(SQLITE)
    is_plain = url.startswith(SQLITE) and "?" not in place and place not in ("", ":memory:")
    return Path(place) if is_plain else None


def _states(url: str) -> list[dict[str, Any]] | None:
    """What drivers wrote into a storage; None if there is none."""
    if (path := _sqlite_file(url)) is not None:
        if not path.exists():
            return None
        query = "SELECT value_json FROM study_user_attributes WHERE key = ?"
        try:
            # a connection for reading leaves every file as it is
            with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as opened:
                return [json.loads(row) for (row,) in opened.execute(query, (DRIVER,))]
        except sqlite3.Error:
            pass  # cut off in a commit, or no storage: Optuna reads a copy, or says so
    from extrap.reading.storages import open_if_there, storage_faults

    with storage_faults(url):
        storage = open_if_there(url)
        studies = [] if storage is None else storage.get_all_studies()
    found = [study.user_attrs[DRIVER] for study in studies if DRIVER in study.user_attrs]
    return None if storage is None else found


def _lock(url: str, names: Sequence[str]) -> DriverLock:
    if (path := _sqlite_file(url)) is not None:
        return FileLocks(path, names, url)
    from extrap.study.lock import lock_of

    return lock_of(url, names)


def _count(cells: Iterable[Cell]) -> Counter[Size]:
    return Counter(cell.size for cell in cells)


def _n_left(size: SizeStatus) -> int:
    """Cells that want a worker, or have one; failed ones are tried again."""
    return size.running + size.waiting + size.failed


def _time_left(
    sizes: Sequence[SizeStatus], stages: Sequence[StageCells], n_workers: int
) -> float | None:
    """Seconds of work left, shared by the workers; None if no run tells.

    A size without a result costs what the others of its sweep's columns do, extended in the
    logarithms of size and cost; with one such size, as much.
    """
    costs: dict[Key, list[float]] = {}
    for stage in stages:
        for result in stage.results:
            key = stage.study, stage.stage, result.cell.size
            costs.setdefault(key, []).append(result.wall_s)
    known = {key: float(np.mean(own)) for key, own in costs.items() if sum(own) > 0}
    total = 0.0
    for size in filter(_n_left, sizes):
        own = known.get((size.study, size.stage, tuple(size.size.items())))
        each = _extended(size.size, known) if own is None else own
        if each is None:
            return None
        total += each * _n_left(size)
    return total / max(1, n_workers)


def _extended(
    size: Mapping[str, float], known: Mapping[tuple[str, str, Size], float]
) -> float | None:
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
