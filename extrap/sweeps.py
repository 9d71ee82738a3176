"""Study files of every kind as the sweeps that they come to in a storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from extrap.errors import StudyError
from extrap.pipeline import Sweep, default_storage, sweeps_of
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

__all__ = ["StudyFile", "open_study_file"]


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
        f"this is for studies that have a storage, got {path} with {kind}, which saves its "
        "answers in a folder; see extrap study status."
    )


def _file(name: str, kind: str, storage: str, sweeps: Iterable[Sweep]) -> StudyFile:
    return StudyFile(name=name, kind=kind, storage=storage, sweeps=tuple(sweeps))
