"""Studies in parts: cells for workers that can reach nothing, and their storages put together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import DataError
from extrap.reading.copies import open_if_there, open_to_read
from extrap.reading.exports import read_export
from extrap.reading.optuna import (
    CURVE,
    FINGERPRINT,
    IMPORTED_SEAL,
    RESULT,
    SEALED,
    StudyKey,
    kept_trials,
    parse_study_name,
    require_schema,
    study_names,
)
from extrap.reading.patience import PatientStorage
from extrap.reading.storages import open_storage, safe_url, storage_faults
from extrap.records import STAGES, Cell, StudySpec, Train
from extrap.tuning.adoption import (
    absent_files,
    fingerprint_of,
    of_training,
    require_adoptable,
)
from extrap.tuning.fingerprints import require_agreed, require_mergeable, require_same
from extrap.tuning.ledger import Ledger, cell_of

__all__ = ["Merged", "merge_export", "merge_storages", "shard_cells"]

logger = logging.getLogger(__name__)

COSTS = ("wall_s",)
"""Parts of a result that differ when the same run is made twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What putting storages together came to.

    Attributes:
        n_copied: Runs that were copied.
        n_same: Runs that were there already, with the same result.
        n_other: Runs that were there already with another result, which stands.
        n_busy: Runs whose cell a worker is training in the target right now; that one stands.
        n_seals: Times of seals that were copied: who sent them says so, nobody here saw it.
        absent: Files of the training command that are not on this machine: of them it was only
            looked at whether they are the same in all parts.
    """

    n_copied: int = 0
    n_same: int = 0
    n_other: int = 0
    n_busy: int = 0
    n_seals: int = 0
    absent: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.n_copied} runs copied", f"{self.n_same} already present"]
        if self.n_other:
            parts.append(f"{self.n_other} present with another result, which is kept")
        if self.n_busy:
            parts.append(f"{self.n_busy} in training there, which is kept")
        if self.n_seals:
            parts.append(f"{self.n_seals} seals with the times that the sender recorded")
        told = f"; not on this machine, but the same in all parts: {', '.join(self.absent)}"
        return ", ".join(parts) + (told if self.absent else "")

    def __add__(self, other: Merged) -> Merged:
        return Merged(
            n_copied=self.n_copied + other.n_copied,
            n_same=self.n_same + other.n_same,
            n_other=self.n_other + other.n_other,
            n_busy=self.n_busy + other.n_busy,
            n_seals=self.n_seals + other.n_seals,
            absent=tuple(dict.fromkeys((*self.absent, *other.absent))),
        )


def shard_cells(cells: Sequence[Cell], index: int, n: int) -> tuple[Cell, ...]:
    """The cells of one of `n` shards; every cell is in exactly one, whoever asks.

    Cells are dealt from the largest size down, to and fro, so that no shard gets more than one
    run more than another at any size, and none the larger half of everything.

    Args:
        cells: All cells.
        index: Which shard, from 1.
        n: How many there are.

    Raises:
        ValueError: There is no such shard.
    """
    if not 1 <= index <= n:
        raise ValueError(f"a shard i/n needs 1 ≤ i ≤ n, got {index}/{n}; write --shard 1/4.")
    order = sorted(cells, key=lambda cell: ([-value for _, value in cell.size], cell))
    chosen = set()
    for place, cell in enumerate(order):
        lap, seat = divmod(place, n)
        if (seat if lap % 2 == 0 else n - 1 - seat) == index - 1:
            chosen.add(cell)
    return tuple(cell for cell in cells if cell in chosen)


def merge_storages(
    spec: StudySpec,
    sources: Sequence[str],
    target: str,
    *,
    train: Train | None = None,
    accepts: bool = False,
) -> Merged:
    """Copy the finished runs and seals of a study from storages into another; once is enough.

    A cell that the target has already is left as it is there. Copying is claiming: workers may
    train in the target meanwhile, and no cell is in it twice.

    Args:
        spec: The study.
        sources: URLs of the storages to copy from; they are only read.
        target: URL of the storage to copy into.
        train: The study's own training function or command, if it has one: then all sources must
            have been trained by it as it is now; files of a command that are not here must be the
            same in all sources and the target. Nothing is copied before all were looked at.
        accepts: Whether what another training made counts as trained by it, as in a target that
            `adopt_training` was called for.

    Raises:
        DataError: A source is missing or holds no run of this study.
        StudyError: A storage cannot be used, or the study was made differently in two of them, or
            by another training.
        ValueError: The command does not go with the study.
    """
    made_with = {source: _made_with_in(spec, source) for source in sources}
    merged = Merged()
    if train is not None:
        made_with, absent = _by_training(spec, train, made_with, target, accepts=accepts)
        merged = Merged(absent=absent)
    for source in sources:  # opened one at a time, each may be a copy
        with storage_faults(source):
            opened = open_to_read(source)
            keys = _keys(spec, opened)
        with storage_faults(target):
            merged += _merge(spec, opened, keys, open_storage(target), made_with[source])
        del opened
    return merged


def merge_export(specs: Sequence[StudySpec], path: str | Path, target: str) -> Merged:
    """Copy the runs and seals of an export into a storage; once is enough.

    As `merge_storages`, from a file that `extrap.reading.exports.write_export` wrote.

    Args:
        specs: The studies whose runs are wanted; those of others are left.
        path: The file.
        target: URL of the storage to copy into.

    Raises:
        DataError: The file is none, or holds no run of these studies.
        StudyError: The storage cannot be used, or a study was made differently in the two.
    """
    exported = read_export(path)
    there = {name: parse_study_name(name) for name in exported.attributes}
    wanted = {
        spec.name: {
            n: key for n, key in there.items() if key is not None and key.name == spec.name
        }
        for spec in specs
    }
    if not any(wanted.values()):
        raise DataError(
            f"an import needs runs of {', '.join(sorted(wanted))}, {path} has none; check "
            "the file."
        )
    for spec in specs:
        _check_columns(spec, exported.storage, wanted[spec.name], path)
    merged = Merged()
    with storage_faults(target):
        opened = open_storage(target)
        for spec in specs:
            if wanted[spec.name]:
                keys = wanted[spec.name]
                made_with = _made_with(spec, exported.storage, keys)
                merged += _merge(spec, exported.storage, keys, opened, made_with)
    return merged


def _keys(spec: StudySpec, storage: BaseStorage) -> dict[str, StudyKey]:
    """The parts of a study in a storage."""
    keys = {name: parse_study_name(name) for name in study_names(storage)}
    return {n: key for n, key in keys.items() if key is not None and key.name == spec.name}


def _made_with_in(spec: StudySpec, source: str) -> dict[str, Any]:
    """The fingerprint of a study in a source, which is closed again."""
    with storage_faults(source):
        opened = open_to_read(source)
        keys = _keys(spec, opened)
        if not keys:
            raise DataError(
                f"a source of a merge needs runs of {spec.name!r}, {safe_url(source)} has "
                "none; check the address."
            )
        return _made_with(spec, opened, keys)


def _by_training(
    spec: StudySpec,
    train: Train,
    made_with: Mapping[str, dict[str, Any]],
    target: str,
    *,
    accepts: bool,
) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Source → fingerprint once all are of this training, and its files that are not here."""
    stored: dict[str, Any] = {k: v for made in made_with.values() for k, v in made.items()}
    now = fingerprint_of(spec, train, stored)
    absent = absent_files(train, stored)
    if absent:
        places = {safe_url(source): made for source, made in made_with.items()}
        require_agreed({**places, **_made_with_there(spec, target)}, absent)
    taken = dict(made_with)
    for source, made in made_with.items():
        old = of_training(made)
        if accepts and old != of_training(now):
            require_adoptable(train, stored)
            taken[source] = {k: v for k, v in made.items() if k not in old} | of_training(now)
        require_mergeable(taken[source], now, study=spec.name, source=safe_url(source))
    return taken, absent


def _made_with_there(spec: StudySpec, target: str) -> dict[str, dict[str, Any]]:
    """The target's address and its fingerprint of a study, if it has one."""
    with storage_faults(target):
        opened = open_if_there(target)
        keys = {} if opened is None else _keys(spec, opened)
        return {safe_url(target): _made_with(spec, opened, keys)} if opened and keys else {}


def _check_columns(
    spec: StudySpec, storage: BaseStorage, keys: Mapping[str, StudyKey], path: str | Path
) -> None:
    """Raise unless sizes and tuned values are those of the study."""
    for name, key in keys.items():
        tuned = {
            frozenset(trial.params) for _, trial in _finished(storage, name, key, tuple(spec.tune))
        }
        if set(dict(key.size)) != set(spec.sizes) or tuned - {frozenset(spec.tune)}:
            raise DataError(
                "an import needs the columns of its study, "
                f"{', '.join([*spec.sizes, *spec.tune])}; {name!r} in {path} has others."
            )


def _made_with(
    spec: StudySpec, source: BaseStorage, keys: Mapping[str, StudyKey]
) -> dict[str, Any]:
    """The fingerprint that all parts of a study in a source have."""
    first, *others = [_fingerprint(source, name) for name in keys]
    for other in others:
        require_same(first, other, study=spec.name)
    return first


def _merge(
    spec: StudySpec,
    source: BaseStorage,
    keys: Mapping[str, StudyKey],
    target: PatientStorage,
    made_with: Mapping[str, Any],
) -> Merged:
    merged = Merged()
    for stage in STAGES:
        with closing(Ledger(target, spec, stage=stage, fingerprint=made_with)) as ledger:
            for name, key in keys.items():
                if key.stage == stage:
                    found = _finished(source, name, key, tuple(spec.tune))
                    merged += _merge_size(ledger, dict(key.size), found)
    return merged + Merged(n_seals=_copy_seals(spec, source, keys, target))


def _copy_seals(
    spec: StudySpec, source: BaseStorage, keys: Mapping[str, StudyKey], target: PatientStorage
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


def _fingerprint(storage: BaseStorage, name: str) -> dict[str, Any]:
    attributes = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
    require_schema(attributes, study=name)
    return dict(attributes.get(FINGERPRINT, {}))


def _finished(
    storage: BaseStorage, name: str, key: StudyKey, tuned: Sequence[str]
) -> Iterator[tuple[Cell, FrozenTrial]]:
    """Finished cells and their lowest-numbered trials."""
    seen = set()
    for trial in kept_trials(storage, storage.get_study_id_from_name(name)):
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            cell = cell_of(key.size, trial, tuned)
            if cell not in seen:
                seen.add(cell)
                yield cell, trial


def _merge_size(
    ledger: Ledger, size: Mapping[str, float], found: Iterator[tuple[Cell, FrozenTrial]]
) -> Merged:
    trials = dict(found)
    if not trials:
        return Merged()
    there = ledger.results(size)
    n_same = sum(
        cell in there and _result(there[cell]) == _result(trials[cell]) for cell in trials
    )
    n_other = sum(cell in there for cell in trials) - n_same
    missing = {cell: trial for cell, trial in trials.items() if cell not in there}
    n_copied = ledger.copy(missing) if missing else 0
    return Merged(
        n_copied=n_copied,
        n_same=n_same,
        n_other=n_other,
        n_busy=len(missing) - n_copied,
    )


def _result(trial: FrozenTrial) -> tuple[Any, ...]:
    """What a run gave, without what it cost."""
    result = {k: v for k, v in trial.user_attrs.get(RESULT, {}).items() if k not in COSTS}
    return trial.values, result, trial.user_attrs.get(CURVE)
