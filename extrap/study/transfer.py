"""What the storage of a study holds, exported and imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

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
    kept_trials,
    parse_study_name,
    require_schema,
)
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import STAGES, Cell, StudySpec
from extrap.study.driver import default_storage
from extrap.study.fingerprints import require_same
from extrap.study.locks import DriverLock, lock_of
from extrap.study.protocol import Kind
from extrap.study.trials import Trials, cell_of
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
    where, specs = _storage(study, storage), study.specs()
    exported = read_export(path)
    keys = {name: parse_study_name(name) for name in exported.attributes}
    wanted = {
        spec.name: {n: k for n, k in keys.items() if k is not None and k.name == spec.name}
        for spec in specs
    }
    if not any(wanted.values()):
        raise DataError(
            f"an import needs runs of {', '.join(sorted(wanted))}, got none in {path}; check that "
            "it was exported from this study."
        )
    for spec in specs:
        _check_columns(spec, exported.storage, wanted[spec.name], path)
    lock, imported = lock_of(where, [spec.name for spec in specs]), Imported()
    with storage_faults(where):
        lock.acquire()
        try:
            target = open_storage(where)
            for spec in specs:
                if wanted[spec.name]:
                    parts = wanted[spec.name]
                    imported += _copy(spec, exported.storage, parts, target, where, lock)
        finally:
            lock.release()
    return imported


def _copy(
    spec: StudySpec,
    source: BaseStorage,
    keys: Mapping[str, StudyKey],
    target: BaseStorage,
    url: str,
    lock: DriverLock,
) -> Imported:
    """Copy the runs and seals of one sweep."""
    made_with, *others = [_fingerprint(source, name) for name in keys]
    for other in others:
        require_same(made_with, other, study=spec.name)
    n_copied = n_same = n_other = 0
    for stage in STAGES:
        trials = Trials(
            target, url, spec, stage=stage, fingerprint=made_with, require_lock=lock.check
        )
        for name, key in keys.items():
            if key.stage != stage:
                continue
            found, there = _finished(source, name, key, spec), dict[Cell, FrozenTrial]()
            for trial in trials.trials_of(dict(key.size)) if found else ():
                if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                    there.setdefault(cell_of(key.size, trial, tuple(spec.tune)), trial)
            same = [c for c in found if c in there and _result(there[c]) == _result(found[c])]
            n_same += len(same)
            n_other += sum(cell in there for cell in found) - len(same)
            n_copied += trials.copy((c, _copied(t)) for c, t in found.items() if c not in there)
    return Imported(
        n_copied=n_copied,
        n_same=n_same,
        n_other=n_other,
        n_seals=_copy_seals(spec, source, keys, target),
    )


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


def _copy_seals(
    spec: StudySpec, source: BaseStorage, keys: Mapping[str, StudyKey], target: BaseStorage
) -> int:
    """Copy the times at which forecasts were sealed, marked as copied; how many were new."""
    times: dict[str, str] = {}
    for name in keys:
        attributes = source.get_study_user_attrs(source.get_study_id_from_name(name))
        for key, sealed in attributes.items():
            if key.startswith(SEALED) and _is_time(sealed):
                content = key.removeprefix(SEALED)
                times[content] = min(
                    times.get(content, sealed), sealed, key=datetime.fromisoformat
                )
    ids = [
        study._study_id
        for study in target.get_all_studies()
        if (own := parse_study_name(study.study_name)) is not None and own.name == spec.name
    ]
    if not ids:  # nothing was finished there
        return 0
    there = {key for i in ids for key in target.get_study_user_attrs(i)}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    missing = {content: time for content, time in times.items() if SEALED + content not in there}
    for content, sealed in missing.items():
        target.set_study_user_attr(min(ids), IMPORTED_SEAL + content, now)
        target.set_study_user_attr(min(ids), SEALED + content, sealed)
    return len(missing)


def _is_time(sealed: object) -> bool:
    try:
        return isinstance(sealed, str) and datetime.fromisoformat(sealed).tzinfo is not None
    except ValueError:
        return False


def _check_columns(
    spec: StudySpec, storage: BaseStorage, keys: Mapping[str, StudyKey], path: str | Path
) -> None:
    """Raise unless sizes and tuned values are those of the study."""
    for name, key in keys.items():
        tuned = {frozenset(trial.params) for trial in _finished(storage, name, key, spec).values()}
        if set(dict(key.size)) != set(spec.sizes) or tuned - {frozenset(spec.tune)}:
            raise DataError(
                "an import needs the columns of its study, "
                f"{', '.join([*spec.sizes, *spec.tune])}; got others in {name!r} of {path}; "
                "export it from the same study."
            )


def _fingerprint(storage: BaseStorage, name: str) -> dict[str, Any]:
    attributes = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
    require_schema(attributes, study=name)
    return dict(attributes.get(FINGERPRINT, {}))


def _finished(
    storage: BaseStorage, name: str, key: StudyKey, spec: StudySpec
) -> dict[Cell, FrozenTrial]:
    """Finished cells and their lowest-numbered trials."""
    found: dict[Cell, FrozenTrial] = {}
    for trial in kept_trials(storage, storage.get_study_id_from_name(name)):
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            found.setdefault(cell_of(key.size, trial, tuple(spec.tune)), trial)
    return found


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
