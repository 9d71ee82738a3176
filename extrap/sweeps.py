"""Study files of every kind as sweeps in a storage, which is exported, imported and repaired."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from extrap.errors import StudyError
from extrap.pipeline import Sweep, default_storage, sweeps_of
from extrap.reading.copies import open_to_read
from extrap.reading.exports import write_export
from extrap.reading.storages import open_storage, require_storage, storage_faults
from extrap.records import StudySpec
from extrap.study_files import (
    allocation_of,
    batches_of,
    comparison_of,
    kind_of,
    knobs_of,
    levers_of,
    load_baseline,
    load_study,
    override_both,
)
from extrap.tuning import Merged
from extrap.tuning.repairs import Fault, repair_storage
from extrap.tuning.sharing import merge_export

__all__ = ["StudyFile", "export_study", "import_study", "open_study_file", "repair_study"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFile:
    """What a study file comes to in a storage: sweeps, and where they are by default."""

    name: str
    kind: str
    storage: str
    sweeps: tuple[Sweep, ...]

    def specs(self) -> tuple[StudySpec, ...]:
        """The specs of all studies in the storage, each once."""
        return tuple({sweep.spec.name: sweep.spec for sweep in self.sweeps}.values())


def open_study_file(path: str | Path, *, assignments: Sequence[str] = ()) -> StudyFile:
    """The sweeps of a study file of any kind that has a storage.

    Args:
        path: The file.
        assignments: `KEY=VALUE`, as of `extrap study run --set`.

    Raises:
        ValueError: There is no such file, or an assignment fits no field.
        StudyError: It is a cascade, which has a folder instead of a storage.
    """
    kind = kind_of(path)
    if kind == "STUDY":
        spec, baseline = override_both(load_study(path), load_baseline(path), assignments)
        return _file(spec.name, kind, default_storage(spec), sweeps_of(spec, baseline))
    if kind == "KNOBS":
        from extrap.knob_sweeps import sweeps_of_knobs

        knobs = knobs_of(path, assignments=assignments)
        return _file(knobs.name, kind, default_storage(knobs.study), sweeps_of_knobs(knobs))
    if kind == "LEVERS":
        from extrap.lever_sweeps import sweeps_of_levers

        levers = levers_of(path, assignments=assignments)
        return _file(levers.name, kind, default_storage(levers), sweeps_of_levers(levers))
    if kind == "BATCHES":
        from extrap.batch_sweeps import sweeps_of_batches

        batches = batches_of(path, assignments=assignments)
        return _file(batches.name, kind, default_storage(batches), sweeps_of_batches(batches))
    if kind == "COMPARISON":
        from extrap.comparison_sweeps import sweeps_of_comparison

        study = comparison_of(path, assignments=assignments)
        return _file(study.name, kind, default_storage(study), sweeps_of_comparison(study))
    if kind == "ALLOCATION":
        from extrap.allocation_sweeps import sweeps_of_allocation

        split = allocation_of(path, assignments=assignments)
        where = default_storage(split.study_named)
        return _file(split.name, kind, where, sweeps_of_allocation(split))
    raise StudyError(
        f"this command needs a study with a storage, got {path} with {kind}, which saves "
        "its answers in a folder; see extrap study status."
    )


def _file(name: str, kind: str, storage: str, sweeps: Iterable[Sweep]) -> StudyFile:
    return StudyFile(name=name, kind=kind, storage=storage, sweeps=tuple(sweeps))


def export_study(study: StudyFile, path: str | Path, *, storage: str | None = None) -> int:
    """Write the finished trials of all studies of a file to Parquet; how many there were.

    Args:
        study: What the file comes to.
        path: The file to write, ending in `.parquet`.
        storage: Storage URL, which is only read; by default the study's own.

    Raises:
        DataError: There is no storage, or no finished trial in it.
        StudyError: The storage cannot be read.
    """
    where = storage or study.storage
    with storage_faults(where):
        return write_export(open_to_read(where), [spec.name for spec in study.specs()], path)


def import_study(study: StudyFile, path: str | Path, *, storage: str | None = None) -> Merged:
    """Copy the runs of an export into the storage of a study; once is enough.

    Raises:
        DataError: The file is no export, or holds no run of the study.
        StudyError: The storage cannot be used, or the study was made differently in the two.
    """
    return merge_export(study.specs(), path, storage or study.storage)


def repair_study(
    study: StudyFile,
    *,
    storage: str | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] = logger.info,
) -> tuple[Fault, ...]:
    """Find and correct what killed workers and broken writers left in a study's storage.

    Args:
        study: What the file comes to.
        storage: Storage URL; by default the study's own.
        dry_run: Whether to change nothing.
        say: Hears that workers are listened to.

    Raises:
        DataError: There is no storage.
        StudyError: It cannot be used.
    """
    where = storage or study.storage
    names = [spec.name for spec in study.specs()]
    with storage_faults(where):
        if dry_run:
            return repair_storage(lambda: open_to_read(where), names, dry_run=True, say=say)
        require_storage(where)
        opened = open_storage(where)
        return repair_storage(lambda: opened, names, say=say)
