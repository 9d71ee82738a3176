"""A changed training function or command, taken for the one that a study was begun with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extrap.errors import StudyError
from extrap.reading.copies import open_if_there
from extrap.reading.optuna import FINGERPRINT, parse_study_name, study_names
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import Command, StudySpec, Train
from extrap.study.fingerprints import fingerprint, is_of_own_training, sources_of
from extrap.study.trainers import own_fingerprint
from extrap.training.own.commands import describe, lacks_script

__all__ = ["adopt_training"]


def adopt_training(spec: StudySpec, storage: str, train: Train) -> tuple[str, ...]:
    """Write into the storage of a study that it is trained by this function or command.

    Whatever was trained before then counts as trained by it; nothing is trained again.

    Args:
        spec: The study.
        storage: URL of its storage; where there is none, nothing happens.
        train: The function or command.

    Returns:
        What changed, one sentence each; files of a command that are not here change nothing.

    Raises:
        StudyError: The storage cannot be used, or the script of the command is not here and
            nothing is known of it.
        ValueError: The command does not go with the study.
    """
    _fingerprint_of(spec, train)  # raises whatever the storage holds
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
            old, now = _of_training(stored), _of_training(_fingerprint_of(spec, train, stored))
            if old != now:
                _require_adoptable(train, stored)
                kept = {k: v for k, v in stored.items() if k not in old}
                opened.set_study_user_attr(study_id, FINGERPRINT, {**kept, **now})
                changes |= dict.fromkeys(_changes(old, now))
    return tuple(changes)


def _fingerprint_of(
    spec: StudySpec, train: Train, stored: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fingerprint of a study that is trained by this function or command.

    Args:
        spec: The study.
        train: The function or command, whose program and files need not be on this machine.
        stored: A fingerprint that is believed of files of the command that are not.

    Raises:
        ValueError: The command does not go with the study.
    """
    if not isinstance(train, Command):
        return fingerprint(spec, own_fingerprint(train))
    train.check_names(sizes=spec.sizes, path=spec.path, tuned=spec.tune)
    return fingerprint(spec, describe(train, sources_of(stored or {})).told)


def _require_adoptable(train: Train, stored: Mapping[str, Any]) -> None:
    """Raise where a command's script is neither here nor known: its workers would refuse it.

    Raises:
        StudyError: It is so.
    """
    if isinstance(train, Command) and lacks_script(train, sources_of(stored)):
        raise StudyError(
            "a changed training can be accepted only where its script exists, this "
            f"machine has no {' '.join(train.args[:2])!r}; accept it on a machine that "
            "trains."
        )


def _of_training(made_with: Mapping[str, Any]) -> dict[str, Any]:
    """What of a fingerprint is of the function or command that trains."""
    return {k: v for k, v in made_with.items() if is_of_own_training(k)}


def _changes(old: dict[str, str], now: dict[str, str]) -> list[str]:
    return [
        f"{name} was {old.get(name, 'nothing')}, is {now.get(name, 'nothing')}"
        for name in sorted({*old, *now})
        if old.get(name) != now.get(name)
    ]
