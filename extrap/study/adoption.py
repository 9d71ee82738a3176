"""A changed training function or command, taken for the one that a study was begun with."""

from __future__ import annotations

from contextlib import ExitStack

from extrap.reading.copies import open_if_there
from extrap.reading.optuna import FINGERPRINT, parse_study_name, study_names
from extrap.reading.storages import open_storage, storage_faults
from extrap.records import StudySpec, Train
from extrap.study.fingerprints import fingerprint, is_of_own_training
from extrap.study.locks import lock_of
from extrap.study.trainers import own_trainer


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
        StudyError: The storage cannot be used, or another process runs the study.
        ValueError: The command does not go with the study, or its program is not here.
    """
    now = fingerprint(spec, own_trainer(train, spec).fingerprint)
    changes: dict[str, None] = {}
    with ExitStack() as stack:
        stack.enter_context(storage_faults(storage))
        if open_if_there(storage) is None:
            return ()
        lock = lock_of(storage, [spec.name])
        lock.acquire()
        stack.callback(lock.release)
        opened = open_storage(storage)
        for name in study_names(opened):
            key = parse_study_name(name)
            study_id = opened.get_study_id_from_name(name)
            stored = opened.get_study_user_attrs(study_id).get(FINGERPRINT)
            if key is None or key.name != spec.name or not isinstance(stored, dict):
                continue
            own = sorted(filter(is_of_own_training, {*stored, *now}))
            if differ := [part for part in own if stored.get(part) != now.get(part)]:
                kept = {k: v for k, v in stored.items() if k not in own}
                accepted = {k: now[k] for k in own if k in now}
                opened.set_study_user_attr(study_id, FINGERPRINT, {**kept, **accepted})
                changes |= dict.fromkeys(
                    f"{part} was {stored.get(part, 'nothing')}, is {now.get(part, 'nothing')}"
                    for part in differ
                )
    return tuple(changes)
