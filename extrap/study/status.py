"""Status of a study: its driver writes it into the storage, and from there alone it is read.

Neither the study file nor a library of training or statistics is imported to read it; of an SQLite
storage not even Optuna.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from extrap.errors import StudyError, without_password
from extrap.records.codec import shape
from extrap.study.file_locks import DriverLock, FileLocks

Size = tuple[tuple[str, float], ...]
DRIVER = "driver"
"""Study attribute: the process that trains the study, since when, and the status of that."""
DEFAULT_STORAGE = "sqlite:///.extrap/{}.db"
"""Where the runs of a study are, by its name."""
SQLITE = "sqlite:///"
"""How the address of an SQLite file begins."""
STATUS_COUNTS = ("cells", "complete", "running", "waiting", "failed", "diverged", "duplicates")
"""What of the cells of a study or size is counted."""
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
    last_beat: str
    n_running: int
    n_done: int
    n_workers: int


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
    cells: int
    complete: int
    running: int
    waiting: int
    failed: int
    diverged: int
    duplicates: int

    @property
    def n_left(self) -> int:
        """Cells that want a worker, or have one; failed ones are tried again."""
        return self.cells - self.complete


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStatus:
    """Status of a study; encoded it is what `extrap study status --json` prints.

    Attributes:
        study: Name of the study.
        storage: Where, without a password.
        seen_at: When this was seen, ISO 8601 in UTC; `at` in JSON.
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
    seen_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
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
    names={"seen_at": "at"},
    add={
        **{name: methodcaller("count", name) for name in STATUS_COUNTS},
        "cost": lambda status: {"wall_s": status.wall_s, "flops": status.flops or None},
    },
)


def read_status(storage: str, name: str = "") -> StudyStatus:
    """The status that the last driver of a study wrote; the storage is only read.

    Args:
        storage: Its address.
        name: Of the study; may be empty where the storage holds one.

    Raises:
        ValueError: The storage holds several, and none of this name.
        StudyError: It cannot be read.
    """
    address, states = without_password(storage), _states(storage)
    if states is None:
        return StudyStatus(study=name, storage=address, notes=(NO_STORAGE,))
    by_study = {state["study"]: state for state in sorted(states, key=_age) if "study" in state}
    if name not in by_study and len(by_study) > 1:
        raise ValueError(
            f"a storage of several studies needs the name of one, got {name or 'none'} for "
            f"{address}; give the file of one of {', '.join(by_study)}."
        )
    if not by_study:
        return StudyStatus(study=name, storage=address, notes=(NO_STATUS,))
    state = by_study.get(name) or next(iter(by_study.values()))
    try:
        return _status_now(state, _lock(storage, state["sweeps"]).holder(), address)
    except (KeyError, TypeError) as error:
        raise StudyError(
            f"the status in {address} must be as this extrap writes it, got {error}; run the "
            "study again, or install the version that ran it."
        ) from error


def _age(state: Mapping[str, Any]) -> tuple[datetime, bool]:
    return datetime.fromisoformat(state["at"]), bool(state.get("left"))


def _status_now(
    state: Mapping[str, Any], holder: Mapping[str, Any] | None, address: str
) -> StudyStatus:
    """What a driver wrote, as it is now: what nobody trains any more waits."""
    written = state["status"]
    sizes = [SizeStatus(**size) for size in written["sizes"]]
    if holder is None or str(holder.get("pid")) != str(state["pid"]):
        sizes = [replace(s, running=0, waiting=s.waiting + s.running) for s in sizes]
    worker = Worker(
        worker=state["executor"],
        host=state["host"],
        pid=state["pid"],
        state="at work" if holder is not None else "left" if state.get("left") else "gone",
        last_beat=state["at"],
        n_running=sum(size.running for size in sizes),
        n_done=sum(size.complete for size in sizes),
        n_workers=state["workers"],
    )
    return StudyStatus(
        study=state["study"],
        storage=address,
        done=written["done"],
        sizes=tuple(sizes),
        workers=(worker,),
        eta_s=written["eta_s"],
        wall_s=written["wall_s"],
        flops=written["flops"],
        notes=tuple(written["notes"]),
    )


def _states(url: str) -> list[dict[str, Any]] | None:
    """What drivers wrote into a storage; None if there is none."""
    if (path := _sqlite_file(url)) is not None:
        if not path.exists():
            return None
        query = "SELECT value_json FROM study_user_attributes WHERE key = ?"
        try:
            # a connection for reading leaves every file as it is
            with closing(
                sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            ) as database:
                return [json.loads(row) for (row,) in database.execute(query, (DRIVER,))]
        except sqlite3.Error:
            pass  # cut off in a commit, or no storage: Optuna reads a copy, or says so
    from extrap.reading.storages import open_if_there, storage_faults

    with storage_faults(url):
        if (storage := open_if_there(url)) is None:
            return None
        attributes = [study.user_attrs for study in storage.get_all_studies()]
    return [of_study[DRIVER] for of_study in attributes if DRIVER in of_study]


def _lock(url: str, names: Sequence[str]) -> DriverLock:
    if (path := _sqlite_file(url)) is not None:
        return FileLocks(path, names, url)
    from extrap.study.lock import lock_of

    return lock_of(url, names)


def _sqlite_file(url: str) -> Path | None:
    """The file of a plain address of SQLite."""
    path = url.removeprefix(SQLITE)
    is_plain = url.startswith(SQLITE) and "?" not in path and path not in ("", ":memory:")
    return Path(path) if is_plain else None


def time_left(sizes: Sequence[tuple[SizeStatus, float]], n_workers: int) -> float | None:
    """Seconds of work left, shared by the workers; None if no run tells.

    A size without a result costs what the line through the others of its columns says, in the
    logarithms of size and cost; with one such size, as much.

    Args:
        sizes: The counts of every size, and the seconds of a run there; 0 if no run tells.
        n_workers: Packs that can train at once.
    """
    measured = [(status.size, seconds) for status, seconds in sizes if seconds > 0]
    total = 0.0
    for status, seconds in sizes:
        if status.n_left:
            run_s = seconds if seconds > 0 else _extrapolated(status.size, measured)
            if run_s is None:
                return None
            total += run_s * status.n_left
    return total / max(1, n_workers)


def _extrapolated(
    size: Mapping[str, float], measured: Sequence[tuple[Mapping[str, float], float]]
) -> float | None:
    points = [
        (math.log(math.prod(other.values())), math.log(seconds))
        for other, seconds in measured
        if other.keys() == size.keys()
    ]
    if not points:
        return None
    x, y = zip(*points, strict=True)
    line = np.polyfit(x, y, min(1, len(set(x)) - 1))
    return math.exp(min(float(np.polyval(line, math.log(math.prod(size.values())))), 700.0))
