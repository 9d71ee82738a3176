"""What the storage of a study holds, exported, imported and repaired."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from extrap.errors import StudyError
from extrap.reading.copies import open_to_read
from extrap.reading.exports import write_export
from extrap.reading.storages import open_storage, require_storage, storage_faults
from extrap.study.driver import default_storage
from extrap.study.protocol import Kind
from extrap.tuning import Merged
from extrap.tuning.repairs import Fault, repair_storage
from extrap.tuning.sharing import merge_export

__all__ = ["export_study", "import_study", "repair_study"]

logger = logging.getLogger(__name__)


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


def import_study(study: Kind, path: str | Path, *, storage: str | None = None) -> Merged:
    """Copy the runs of an export into the storage of a study; once is enough.

    Raises:
        DataError: The file is no export, or holds no run of the study.
        StudyError: The storage cannot be used, or the study was made differently in the two.
    """
    return merge_export(study.specs(), path, _storage(study, storage))


def repair_study(
    study: Kind,
    *,
    storage: str | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] = logger.info,
) -> tuple[Fault, ...]:
    """Find and correct what killed workers and broken writers left in a study's storage.

    Args:
        study: The study.
        storage: Storage URL; by default the study's own.
        dry_run: Whether to change nothing.
        say: Hears that workers are listened to.

    Raises:
        DataError: There is no storage.
        StudyError: It cannot be used.
    """
    where = _storage(study, storage)
    names = [spec.name for spec in study.specs()]
    with storage_faults(where):
        if dry_run:
            return repair_storage(lambda: open_to_read(where), names, dry_run=True, say=say)
        require_storage(where)
        opened = open_storage(where)
        return repair_storage(lambda: opened, names, say=say)


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
