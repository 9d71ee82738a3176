"""What the storage of a study holds, exported and imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial

from extrap.errors import DataError, StudyError
from extrap.reading.copies import open_to_read
from extrap.reading.exports import read_export, write_export
from extrap.reading.optuna import (
    CURVE,
    FINGERPRINT,
    IMPORTED_SEAL,
    OWNER,
    RESULT,
    SEALED,
    TRAINED_BY,
    StudyKey,
    parse_study_name,
)
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import STAGES, Cell, StudySpec
from extrap.study.driver import default_storage
from extrap.study.locks import DriverLock, lock_of
from extrap.study.protocol import Kind
from extrap.study.trials import Trials
from extrap.training.own.processes import this_process

COSTS = ("wall_s",)
"""Parts of a result that differ when the same run is made twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import came to.

    Attributes:
        n_copied: Runs that were copied.
        n_same: Runs that were there already, with the same result.
        n_other: Runs that were there already with another result, which stands.
        n_seals: Times of seals that were copied: who sent them says so, nobody here saw it.
    """

    n_copied: int = 0
    n_same: int = 0
    n_other: int = 0
    n_seals: int = 0

    def __str__(self) -> str:
        parts = [f"{self.n_copied} runs copied", f"{self.n_same} already present"]
        if self.n_other:
            parts.append(f"{self.n_other} present with a different result, which is kept")
        if self.n_seals:
            parts.append(f"{self.n_seals} seals with the times that the sender recorded")
        return ", ".join(parts)

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            n_copied=self.n_copied + other.n_copied,
            n_same=self.n_same + other.n_same,
            n_other=self.n_other + other.n_other,
            n_seals=self.n_seals + other.n_seals,
        )


def export_study(study: Kind, path: str | Path, *, storage: str | None = None) -> int:
    """Write the finished trials of all studies of a file to Parquet; how many there were.

    Args:
        study: The study.
        path: The file to write, ending in `.parquet`.
        storage: Storage URL, which is only read; by default the study's own.

    Raises:
        DataError: There is no storage, or no finished trial in it.
        StudyError: The storage cannot be read.
    """
    where = _storage(study, storage)
    with storage_faults(where):
        return write_export(open_to_read(where), [spec.name for spec in study.specs()], path)


def import_study(study: Kind, path: str | Path, *, storage: str | None = None) -> Imported:
    """Copy the runs and seals of an export into the storage of a study; once is enough.

    A cell that is there already stays as it is.

    Args:
        study: The study.
        path: The file.
        storage: Storage URL; by default the study's own.

    Raises:
        DataError: The file is no export, or holds no run of the study.
        StudyError: The storage cannot be used, another process runs the study, or it was made
            differently in the two.
    """
    where, specs, exported = _storage(study, storage), study.specs(), read_export(path)
    keys = [key for name in exported.attributes if (key := parse_study_name(name)) is not None]
    names = {key.name for key in keys}
    if not any(spec.name in names for spec in specs):
        wanted = ", ".join(sorted(spec.name for spec in specs))
        raise DataError(
            f"an import needs runs of {wanted}, got none in {path}; check that it was exported "
            "from this study."
        )
    imported, lock = Imported(), lock_of(where, [spec.name for spec in specs])
    sources = [_source(s, exported.storage, keys, path) for s in specs if s.name in names]
    with storage_faults(where):
        lock.acquire()
        try:
            target = open_storage(where)
            for source in sources:
                imported += _copy(source, target, where, lock)
        finally:
            lock.release()
    return imported


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A sweep of an export.

    Attributes:
        spec: The sweep.
        storage: Where the export was read to.
        made_with: Its fingerprint.
        finished: Stage and size → its finished cells and their trials.
    """

    spec: StudySpec
    storage: BaseStorage
    made_with: Mapping[str, Any]
    finished: Mapping[StudyKey, Mapping[Cell, FrozenTrial]]


def _source(
    spec: StudySpec, storage: BaseStorage, keys: Iterable[StudyKey], path: str | Path
) -> _Source:
    """A sweep of an export.

    Raises:
        DataError: It has other columns than the study.
        StudyError: Parts of it were made differently, or by a newer version.
    """
    made_with = dict(_attributes(storage, spec.name)[0].get(FINGERPRINT, {}))
    trials = {
        stage: Trials(storage, str(path), spec, stage=stage, fingerprint=made_with)
        for stage in STAGES
    }
    finished = {k: trials[k.stage].finished(dict(k.size)) for k in keys if k.name == spec.name}
    for key, found in finished.items():
        tuned = {frozenset(trial.params) for trial in found.values()}
        if set(dict(key.size)) != set(spec.sizes) or tuned - {frozenset(spec.tune)}:
            raise DataError(
                "an import needs the columns of its study, "
                f"{', '.join([*spec.sizes, *spec.tune])}; got others in {key.name!r} of {path}; "
                "export it from the same study."
            )
    return _Source(spec=spec, storage=storage, made_with=made_with, finished=finished)


def _attributes(storage: BaseStorage, name: str) -> list[Mapping[str, Any]]:
    """Attributes of all studies of a sweep."""
    keys = ((study, parse_study_name(study.study_name)) for study in storage.get_all_studies())
    return [study.user_attrs for study, key in keys if key is not None and key.name == name]


def _copy(source: _Source, target: BaseStorage, url: str, lock: DriverLock) -> Imported:
    """Copy the runs and seals of one sweep."""
    spec, n_copied, n_same, n_other = source.spec, 0, 0, 0
    made_with, check = source.made_with, lock.check
    for stage in STAGES:
        trials = Trials(target, url, spec, stage=stage, fingerprint=made_with, require_lock=check)
        for key, found in source.finished.items():
            if key.stage != stage or not found:
                continue
            there = trials.finished(dict(key.size))
            same = [c for c in found if c in there and _result(there[c]) == _result(found[c])]
            n_same += len(same)
            n_other += sum(cell in there for cell in found) - len(same)
            n_copied += trials.copy((c, _copied(t)) for c, t in found.items() if c not in there)
    n_seals = _copy_seals(source, target)
    return Imported(n_copied=n_copied, n_same=n_same, n_other=n_other, n_seals=n_seals)


def _copied(trial: FrozenTrial) -> FrozenTrial:
    """A trial of another storage, signed by this process."""
    trainer = trial.user_attrs.get(OWNER)
    copy = create_trial(
        state=trial.state,
        params=trial.params,
        distributions=trial.distributions,
        values=trial.values,
        user_attrs={**trial.user_attrs, OWNER: this_process(), TRAINED_BY: trainer},
        intermediate_values=trial.intermediate_values,
    )
    copy.datetime_start, copy.datetime_complete = trial.datetime_start, trial.datetime_complete
    return copy


def _copy_seals(source: _Source, target: BaseStorage) -> int:
    """Copy the times at which forecasts were sealed, marked as copied; how many were new."""
    times: dict[str, str] = {}
    for attributes in _attributes(source.storage, source.spec.name):
        for key, sealed in attributes.items():
            if key.startswith(SEALED) and _is_time(sealed):
                known = times.get(key, sealed)
                times[key] = min(known, sealed, key=datetime.fromisoformat)
    ids = [
        study._study_id
        for study in target.get_all_studies()
        if (own := parse_study_name(study.study_name)) and own.name == source.spec.name
    ]
    if not ids:  # nothing was finished there
        return 0
    there = {key for i in ids for key in target.get_study_user_attrs(i)}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    missing = {key: sealed for key, sealed in times.items() if key not in there}
    for key, sealed in missing.items():
        target.set_study_user_attr(min(ids), IMPORTED_SEAL + key.removeprefix(SEALED), now)
        target.set_study_user_attr(min(ids), key, sealed)
    return len(missing)


def _is_time(sealed: object) -> bool:
    try:
        return isinstance(sealed, str) and datetime.fromisoformat(sealed).tzinfo is not None
    except ValueError:
        return False


def _result(trial: FrozenTrial) -> tuple[Any, ...]:
    """What a run gave, without what it cost."""
    result = {k: v for k, v in trial.user_attrs.get(RESULT, {}).items() if k not in COSTS}
    return trial.values, result, trial.user_attrs.get(CURVE)


def _storage(study: Kind, storage: str | None) -> str:
    """The storage of a study that has one.

    Raises:
        StudyError: It has a folder instead.
    """
    if study.keeps_answers:
        raise StudyError(
            f"this command needs a study with a storage, got {study.name!r} with {study.symbol}, "
            "which saves its answers in a folder; see extrap study status."
        )
    return storage or default_storage(study)
