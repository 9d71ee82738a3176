"""A study's stored runs: exported, imported, accepted after a change of the training code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial

from extrap.errors import DataError
from extrap.files import whole_file
from extrap.reading.optuna import (
    CURVE,
    ENDED,
    FINGERPRINT,
    RESULT,
    StoredStudy,
    cells_in,
    our_studies,
    problem_of,
)
from extrap.reading.storages import (
    file_of,
    open_if_there,
    open_to_read,
    parse_url,
    storage_faults,
)
from extrap.records import STAGES, Cell, StudySpec, Train
from extrap.study.database import Retries, open_storage
from extrap.study.driver import default_storage
from extrap.study.fingerprints import fingerprint, is_of_own_training, require_same
from extrap.study.lock import DriverLock, lock_of
from extrap.study.protocol import Kind
from extrap.study.trainers import trainer_of
from extrap.study.trials import DRIVER, IMPORTED_SEAL, ORIGIN, SEALED, Trials

Finished = dict[tuple[str, Cell], FrozenTrial]
"""(stage, cell) → trial."""
COSTS = ("wall_s",)
"""Parts of a result that differ when the same run is made twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import came to: runs, and times of seals."""

    n_copied: int = 0
    n_same: int = 0  # they were there already, with the same result
    n_other: int = 0  # they were there already with another result, which stands
    n_seals: int = 0  # who sent them says so, nobody here saw it

    def __str__(self) -> str:
        parts = [f"{self.n_copied} runs copied", f"{self.n_same} already present"]
        if self.n_other:
            parts.append(f"{self.n_other} present with a different result, which is kept")
        if self.n_seals:
            parts.append(f"{self.n_seals} seals with the times that the sender recorded")
        return ", ".join(parts)


def export_study(study: Kind, path: str | Path, *, storage: str | None = None) -> int:
    """Write the finished trials of all studies of a file to an SQLite file; how many there were.

    The file, which ends in `.db`, is an Optuna storage: `optuna.copy_study` of every size,
    fingerprint and seals too. The storage is only read.
    """
    where, names = storage or default_storage(study), [spec.name for spec in study.specs()]
    if Path(path).suffix != ".db":
        raise DataError(f"an export is an SQLite file that ends in .db, got {path}; name it so.")
    place = file_of(parse_url(where))
    if place is not None and place.resolve() == Path(path).resolve():
        raise DataError(f"an export must be another file than the storage, got {path}; name one.")
    with storage_faults(where):
        source = open_to_read(where)
        own = our_studies(source, names)
        n_trials = sum(not problem_of(t) for part in own for t in part.trials())
        if not n_trials:
            raise DataError(
                f"an export holds finished runs, there is none of {', '.join(sorted(names))} yet; "
                "check the address, or tune first."
            )
        with whole_file(path) as draft, storage_faults(f"sqlite:///{path}", ValueError):
            target = RDBStorage(f"sqlite:///{draft.absolute()}")
            for part in own:
                optuna.copy_study(
                    from_study_name=part.full_name, from_storage=source, to_storage=target
                )
                study_id = target.get_study_id_from_name(part.full_name)
                target.set_study_user_attr(study_id, DRIVER, {})  # which names a host
                target.set_study_user_attr(study_id, ORIGIN, uuid4().hex)
            target.remove_session()
            target.engine.dispose()
    return n_trials


def import_study(study: Kind, path: str | Path, *, storage: str | None = None) -> Imported:
    """Copy the runs and seals of an export into the storage of a study; once is enough.

    A cell that is there already stays as it is. A `StudyError` says that the study was made
    differently in the two.
    """
    where, specs = storage or default_storage(study), study.specs()
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}; check the path.")
    sent, names = f"sqlite:///{path}", sorted(spec.name for spec in specs)
    with storage_faults(sent):
        source = open_to_read(sent)
        parts = {spec.name: our_studies(source, (spec.name,)) for spec in specs}
        found = {spec.name: _finished(source, spec) for spec in specs}
    if not any(parts.values()):
        raise DataError(
            f"an import needs runs of {', '.join(names)}, got none in {path}; check that "
            "it was exported from this study."
        )
    for spec in specs:
        _check_columns(spec, found[spec.name], path)
    n = Counter[str]()
    with _held(where, names) as (target, lock):
        for spec in specs:
            if own := parts[spec.name]:
                n.update(_copy(spec, own, found[spec.name], target, where, lock))
    return Imported(**n)


def adopt_training(spec: StudySpec, storage: str, train: Train) -> tuple[str, ...]:
    """Write into the storage of a study that it is trained by this function or command.

    Whatever was trained before then counts as trained by it; nothing is trained again. Where there
    is no storage, nothing happens. Returns what changed, one sentence each.
    """
    spec = spec.without_recipe()
    now = fingerprint(spec, trainer_of(spec, train).fingerprint)
    changes: dict[str, None] = {}
    with storage_faults(storage):
        if open_if_there(storage) is None:
            return ()
    with _held(storage, [spec.name]) as (opened, _):
        for study in our_studies(opened, (spec.name,)):
            stored = study.fingerprint()
            own = sorted(filter(is_of_own_training, {*stored, *now}))
            differ = [part for part in own if stored.get(part) != now.get(part)]
            if stored and differ:
                kept = {k: v for k, v in stored.items() if k not in own}
                accepted = {k: now[k] for k in own if k in now}
                opened.set_study_user_attr(study.id, FINGERPRINT, {**kept, **accepted})
                for part in differ:
                    was, is_now = stored.get(part, "nothing"), now.get(part, "nothing")
                    changes[f"{part} was {was}, is {is_now}"] = None
    return tuple(changes)


@contextmanager
def _held(url: str, names: Sequence[str]) -> Iterator[tuple[BaseStorage, DriverLock]]:
    """A storage in which no other process runs some sweeps meanwhile."""
    lock = lock_of(url, names)
    with storage_faults(url):
        lock.acquire()
        try:
            yield open_storage(url), lock
        finally:
            lock.release()


def _finished(storage: BaseStorage, spec: StudySpec) -> Finished:
    """Cells of a sweep that have a result, and the lowest-numbered trial of each."""
    found: Finished = {}
    for study in our_studies(storage, (spec.name,)):
        trials = storage.get_all_trials(study.id, deepcopy=False)
        for cell, trial in cells_in(trials, study.key.size, spec):
            if cell is not None and trial.state in ENDED:
                found.setdefault((study.key.stage, cell), trial)
    return found


def _check_columns(spec: StudySpec, found: Finished, path: str | Path) -> None:
    """Raise unless sizes and tuned values are those of the study."""
    for _, cell in found:
        sizes, tuned = dict(cell.size), dict(cell.tuned)
        if set(sizes) != set(spec.sizes) or set(tuned) != set(spec.tune):
            raise DataError(
                "an import needs the columns of its study, "
                f"{', '.join([*spec.sizes, *spec.tune])}; got {', '.join([*sizes, *tuned])} in "
                f"{path}; export it from the same study."
            )


def _copy(
    spec: StudySpec,
    parts: Sequence[StoredStudy],
    found: Finished,
    target: BaseStorage,
    url: str,
    lock: DriverLock,
) -> dict[str, int]:
    """Copy the runs and seals of one sweep; the counts of `Imported`."""
    made_with, *others = (part.fingerprint() for part in parts)
    for other in others:
        require_same(made_with, other, study=spec.name)
    there, n_copied, retries = _finished(target, spec), 0, Retries(target, url)
    for stage in STAGES:
        make = partial(
            Trials, target, spec, stage=stage, fingerprint=made_with, require_lock=lock.check
        )
        trials = retries.until_answered(make)
        own = [(cell, trial) for (of, cell), trial in found.items() if of == stage]
        n_copied += retries.until_answered(partial(trials.copy, own))
    same = [_result(there[key]) == _result(found[key]) for key in found if key in there]
    return {
        "n_copied": n_copied,
        "n_same": sum(same),
        "n_other": len(same) - sum(same),
        "n_seals": _copy_seals(spec, parts, target),
    }


def _copy_seals(spec: StudySpec, parts: Sequence[StoredStudy], target: BaseStorage) -> int:
    """Copy the times at which forecasts were sealed, marked as copied; how many were new."""
    own = our_studies(target, (spec.name,))
    if not own:  # nothing was finished there
        return 0
    first = min(study.id for study in own)
    there = {name for study in own for name in study.attributes}
    times: dict[str, list[str]] = {}
    for name, time in (item for part in parts for item in part.attributes.items()):
        if name.startswith(SEALED) and name not in there:
            times.setdefault(name, []).append(time)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for name, known in times.items():
        target.set_study_user_attr(first, IMPORTED_SEAL + name.removeprefix(SEALED), now)
        target.set_study_user_attr(first, name, min(known, key=datetime.fromisoformat))
    return len(times)


def _result(trial: FrozenTrial) -> tuple[Any, ...]:
    """What a run gave, without what it cost."""
    result = {k: v for k, v in trial.user_attrs.get(RESULT, {}).items() if k not in COSTS}
    return trial.values, result, trial.user_attrs.get(CURVE)
