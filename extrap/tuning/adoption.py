"""A changed training function or command, taken for the one that a study was begun with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extrap.reading.copies import open_if_there
from extrap.reading.optuna import FINGERPRINT, parse_study_name, study_names
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import StudySpec, Train
from extrap.training.preemption import Preemption
from extrap.tuning.fingerprints import fingerprint, is_of_own_training
from extrap.tuning.trainers import own_trainer

__all__ = ["adopt_training", "fingerprint_of", "of_training"]


def adopt_training(spec: StudySpec, storage: str, train: Train) -> tuple[str, ...]:
    """Write into the storage of a study that it is trained by this function or command.

    Whatever was trained before then counts as trained by it; nothing is trained again.

    Args:
        spec: The study.
        storage: URL of its storage; where there is none, nothing happens.
        train: The function or command.

    Returns:
        What changed, one sentence each.

    Raises:
        StudyError: The storage cannot be used.
        ValueError: The command does not go with the study.
    """
    now = of_training(fingerprint_of(spec, train))
    changes: dict[str, None] = {}
    with storage_faults(storage):
        if open_if_there(storage) is None:
            return ()
        opened = open_storage(storage)
        for name in study_names(opened):
            key = parse_study_name(name)
            if key is None or key.name != spec.name:
                continue
            study_id = opened.get_study_id_from_name(name)
            stored = opened.get_study_user_attrs(study_id).get(FINGERPRINT)
            if not isinstance(stored, dict):
                continue
            old = of_training(stored)
            if old != now:
                kept = {k: v for k, v in stored.items() if k not in old}
                opened.set_study_user_attr(study_id, FINGERPRINT, {**kept, **now})
                changes |= dict.fromkeys(_changes(old, now))
    return tuple(changes)


def fingerprint_of(spec: StudySpec, train: Train) -> dict[str, Any]:
    """The fingerprint of a study that is trained by this function or command.

    Raises:
        ValueError: The command does not go with the study.
    """
    return fingerprint(spec, own_trainer(train, spec, Preemption(folder=None)).fingerprint)


def of_training(made_with: Mapping[str, Any]) -> dict[str, Any]:
    """What of a fingerprint is of the function or command that trains."""
    return {k: v for k, v in made_with.items() if is_of_own_training(k)}


def _changes(old: dict[str, str], now: dict[str, str]) -> list[str]:
    return [
        f"{name} was {old.get(name, 'nothing')}, is {now.get(name, 'nothing')}"
        for name in sorted({*old, *now})
        if old.get(name) != now.get(name)
    ]
