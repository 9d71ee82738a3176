"""Repair of a storage: what killed workers and broken writers left, found and mended.

| fault | is | is mended by |
|---|---|---|
| stale | a running trial of a process that is dead, left or silent | failing it |
| duplicate | a second result of a cell | setting it aside; the lowest-numbered counts |
| half-written | a result without its parts, or with odd ones | setting it aside |
| half-written | a running trial that nobody signed, for a minute | failing it |
| unreadable | an attribute of a trial that is no JSON | emptying it, which is half-written |
| unreadable | an attribute of a study that is no JSON | taking it for absent |
| unreadable | a range of a parameter that is none | the one of its study's other trials |
| beat | the last beat of a worker that is no more | saying that it left |

A failed trial, and one that is set aside, leave their cells to be trained again. Nothing is
deleted: what is unreadable is kept as text in an attribute `unreadable:…`. Databases are mended of
that in their tables; a journal is not, nor what is behind a proxy. A worker that was only slow
drops what it has, as always: a failed trial can never be told.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import optuna
import sqlalchemy
from optuna.distributions import FloatDistribution, distribution_to_json, json_to_distribution
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState

from extrap.reading.optuna import (
    DIED,
    FAILURE,
    FINGERPRINT,
    IGNORED,
    RESULT,
    SEED,
    UNREADABLE,
    WORKER,
    StudyKey,
    kept_trials,
    parse_study_name,
    problem_of,
    require_schema,
)
from extrap.records import Cell
from extrap.tuning.census import UNOWNED_FOR, is_over, owner_of, worker_state
from extrap.tuning.leases import GRACE_S
from extrap.tuning.ledger import cell_of

__all__ = ["Fault", "repair_storage"]

logger = logging.getLogger(__name__)

LONGEST_S = 600.0
"""Workers that may be silent for longer are left alone."""
MARGIN_S = 2.0
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
ATTRIBUTES = ("trial_user_attributes", "trial_system_attributes")
STUDY_ATTRIBUTES = ("study_user_attributes", "study_system_attributes")
EMPTY = "null"
LONGEST_KEY = 500
"""A name in Optuna's tables has 512 letters at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that was wrong.

    Attributes:
        kind: `"stale"`, `"duplicate"`, `"half-written"`, `"unreadable"` or `"beat"`.
        what: A trial or a worker.
        why: What is wrong with it.
    """

    kind: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.why}"


class _Beat(NamedTuple):
    """The last beat of a worker, and the attribute it is in."""

    study_id: int
    key: str
    said: Any


class _Study(NamedTuple):
    study_id: int
    name: str
    key: StudyKey
    attributes: Mapping[str, Any]


def repair_storage(
    open_it: Callable[[], BaseStorage],
    names: Sequence[str],
    *,
    dry_run: bool = False,
    say: Callable[[str], None] = logger.info,
) -> tuple[Fault, ...]:
    """Find what is wrong with some studies of ours, and correct it.

    Args:
        open_it: Opens the storage; on a dry run perhaps a copy of it, each time a new one.
        names: Names of the studies.
        dry_run: Whether to change nothing.
        say: Hears that workers are listened to, which takes as long as they may be silent.

    Returns:
        What was found. A second time there is nothing left to be found.

    Raises:
        StudyError: A newer version wrote one of the studies.
    """
    storage = open_it()
    faults = _mend_texts(storage, names, dry_run=dry_run)
    if faults and dry_run:
        return faults  # nothing else can be read before they are mended
    dead = _dead_workers(storage, open_it, names, say)
    found: list[Fault] = [*faults]
    for study in _studies(storage, names):
        for fault, mend in _faults_of(storage, study, dead):
            found.append(fault)
            if not dry_run:
                mend()
    for worker, (beat, why) in dead.items():
        if beat is not None and worker_state(beat.said) != "left":
            found.append(Fault(kind="beat", what=f"worker {worker}", why=why))
            if not dry_run:
                storage.set_study_user_attr(beat.study_id, beat.key, _as_left(beat.said))
    return tuple(found)


def _studies(storage: BaseStorage, names: Sequence[str]) -> list[_Study]:
    found = []
    for study in storage.get_all_studies():
        key = parse_study_name(study.study_name)
        if key is not None and key.name in names:
            require_schema(study.user_attrs, study=study.study_name)
            found.append(_Study(study._study_id, study.study_name, key, study.user_attrs))
    return found


def _faults_of(
    storage: BaseStorage, study: _Study, dead: Mapping[str, tuple[_Beat | None, str]]
) -> Iterator[tuple[Fault, Callable[[], None]]]:
    """The faults of the trials of one size, and what mends each."""
    seen: dict[Cell, int] = {}
    for trial in kept_trials(storage, study.study_id):
        what = f"trial {trial.number} of {study.name}"
        if trial.state in FINISHED:
            kind, why = "half-written", _lack_of(study, trial)
            if not why:
                cell = cell_of(study.key.size, trial, sorted(trial.params))
                kind, why = "duplicate", ""
                if cell in seen:
                    why = f"trial {seen[cell]} has the same cell"
                seen.setdefault(cell, trial.number)
            if why:
                yield (
                    Fault(kind=kind, what=what, why=why),
                    _setting_aside(storage, study, trial, why),
                )
        elif trial.state == TrialState.RUNNING:
            kind, why = _end_of(trial, dead)
            if why:
                yield Fault(kind=kind, what=what, why=why), _failing(storage, trial)


def _lack_of(study: _Study, trial: FrozenTrial) -> str:
    """What of a finished trial is not as a worker writes it; nothing if all is well."""
    if FINGERPRINT in study.attributes:
        for name in (RESULT, SEED):
            if name not in trial.user_attrs:
                return f"it has no {name}"
    return problem_of(trial)


def _end_of(trial: FrozenTrial, dead: Mapping[str, tuple[_Beat | None, str]]) -> tuple[str, str]:
    """Why nobody will finish a running trial, and the kind of that; nothing if somebody may."""
    owner, started = owner_of(trial), trial.datetime_start
    is_old = started is None or datetime.now() - started >= UNOWNED_FOR
    if owner is None:
        return "half-written", "no process has claimed it" if is_old else ""
    if is_over(trial):
        return "stale", DIED
    worker = str(owner.get("worker") or "")
    if worker in dead:
        return "stale", dead[worker][1]
    if is_old and not isinstance(trial.user_attrs.get(SEED), int):
        return "half-written", "it has no seed"
    return "", ""


def _setting_aside(
    storage: BaseStorage, study: _Study, trial: FrozenTrial, why: str
) -> Callable[[], None]:
    return lambda: storage.set_study_user_attr(study.study_id, f"{IGNORED}{trial.number}", why)


def _failing(storage: BaseStorage, trial: FrozenTrial) -> Callable[[], None]:
    def fail() -> None:
        try:
            storage.set_trial_user_attr(trial._trial_id, FAILURE, DIED)
            storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except optuna.exceptions.UpdateFinishedTrialError:
            logger.info("trial %d was finished in the meantime", trial.number)

    return fail


def _dead_workers(
    storage: BaseStorage,
    open_it: Callable[[], BaseStorage],
    names: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, tuple[_Beat | None, str]]:
    """Workers that will not go on → their last beat, if any, and why.

    Clocks need not agree: a worker that seems silent is listened to before it is taken for dead.
    """
    beats = _beats(storage, names)
    dead: dict[str, tuple[_Beat | None, str]] = {}
    doubtful: dict[str, float] = {}
    for worker, beat in beats.items():
        state = worker_state(beat.said)
        if state is None:
            dead[worker] = (beat, "its heartbeat is invalid")
        elif state in ("left", "gone"):
            dead[worker] = (beat, "its worker has left" if state == "left" else DIED)
        elif state == "silent" and beat.said["grace_s"] <= LONGEST_S:
            doubtful[worker] = float(beat.said["grace_s"])
    for study in _studies(storage, names):
        for trial in kept_trials(storage, study.study_id):
            owner = owner_of(trial) if trial.state == TrialState.RUNNING else None
            worker = str((owner or {}).get("worker") or "")
            if worker and worker not in beats and not is_over(trial):
                doubtful[worker] = GRACE_S
    if not doubtful:
        return dead
    seconds = max(doubtful.values()) + MARGIN_S
    say(f"waiting {seconds:.0f} s for {len(doubtful)} workers that seem silent")
    time.sleep(seconds)
    again = _beats(open_it(), names)
    for worker in doubtful:
        before, after = beats.get(worker), again.get(worker)
        if before is None and after is None:
            dead[worker] = (None, "its worker never sent a heartbeat")
        elif before is not None and after is not None and before.said == after.said:
            dead[worker] = (before, "its worker is silent")
    return dead


def _beats(storage: BaseStorage, names: Sequence[str]) -> dict[str, _Beat]:
    return {
        key.removeprefix(WORKER): _Beat(study.study_id, key, said)
        for study in _studies(storage, names)
        for key, said in study.attributes.items()
        if key.startswith(WORKER)
    }


def _as_left(said: object) -> dict[str, Any]:
    """A last beat that says that its worker left."""
    if isinstance(said, dict) and worker_state(said) is not None:
        return {**said, "left": True}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    nobody = {"host": "?", "pid": 1, "created": 0.0}
    return {"beat": 0, "at": now, "grace_s": GRACE_S, **nobody, "left": True}


def _mend_texts(storage: BaseStorage, names: Sequence[str], *, dry_run: bool) -> tuple[Fault, ...]:
    """Texts in a database that Optuna trips over whatever is asked of it.

    It has no way to change them, so this is done in its tables, before anything else is asked.
    Those of all studies are read to find one, so theirs are mended whosever they are.
    """
    inner: Any = getattr(storage, "_inner", storage)
    backend = getattr(inner, "_backend", inner)
    if not isinstance(backend, RDBStorage):
        return ()
    with backend.engine.begin() as connection:
        rows = connection.execute(sqlalchemy.text("SELECT study_id, study_name FROM studies"))
        studies = {row.study_id: str(row.study_name) for row in rows}
        keys = {study_id: parse_study_name(name) for study_id, name in studies.items()}
        ours = {i: studies[i] for i, key in keys.items() if key is not None and key.name in names}
        found = []
        for fault, mend in (
            *_broken_of_studies(connection, studies),
            *_broken_of_trials(connection, ours),
            *_broken_ranges(connection, ours),
        ):
            found.append(fault)
            if not dry_run:
                mend()
    return tuple(found)


Faults = Iterator[tuple[Fault, Callable[[], None]]]


def _broken_of_studies(connection: sqlalchemy.Connection, studies: Mapping[int, str]) -> Faults:
    for table in STUDY_ATTRIBUTES:
        rows = _ask(connection, f"SELECT {table[:-1]}_id, study_id, key, value_json FROM {table}")
        for row_id, study_id, key, text in rows:
            if _is_json(text):
                continue
            fault = Fault(
                kind="unreadable", what=f"{key} of {studies.get(study_id)}", why=("it is not JSON")
            )
            yield fault, partial(_mend_study, connection, table, row_id, study_id, key, text)


def _mend_study(
    connection: sqlalchemy.Connection,
    table: str,
    row_id: int,
    study_id: int,
    key: str,
    text: object,
) -> None:
    """Give an attribute another name; what sets a trial aside stays, with another reason."""
    if key.startswith(IGNORED):
        _set_text(connection, table, row_id, json.dumps("its reason is unreadable"))
        _keep(connection, table, "study_id", study_id, key, text)
        return
    _ask(connection, f"DELETE FROM {table} WHERE {table[:-1]}_id = :row_id", row_id=row_id)
    _keep(connection, table, "study_id", study_id, key, text)


def _broken_of_trials(connection: sqlalchemy.Connection, ours: Mapping[int, str]) -> Faults:
    for table in ATTRIBUTES:
        rows = _ask(
            connection,
            f"SELECT a.{table[:-1]}_id, a.trial_id, a.key, a.value_json, t.number, t.study_id "
            f"FROM {table} a JOIN trials t ON a.trial_id = t.trial_id",
        )
        for row_id, trial_id, key, text, number, study_id in rows:
            if study_id not in ours or _is_json(text):
                continue
            what = f"{key} of trial {number} of {ours[study_id]}"
            fault = Fault(kind="unreadable", what=what, why="it is not JSON")
            yield fault, partial(_mend_trial, connection, table, row_id, trial_id, key, text)


def _mend_trial(
    connection: sqlalchemy.Connection,
    table: str,
    row_id: int,
    trial_id: int,
    key: str,
    text: object,
) -> None:
    _set_text(connection, table, row_id, EMPTY)
    _keep(connection, table, "trial_id", trial_id, key, text)


def _broken_ranges(connection: sqlalchemy.Connection, ours: Mapping[int, str]) -> Faults:
    """Ranges of parameters; each trial has a copy of its own, so there mostly is another."""
    rows = _ask(
        connection,
        "SELECT p.param_id, p.trial_id, p.param_name, p.param_value, p.distribution_json, "
        "t.number, t.study_id FROM trial_params p JOIN trials t ON p.trial_id = t.trial_id",
    )
    whole: dict[tuple[int, str], str] = {}
    broken = []
    for row in rows:
        if _is_range(row.distribution_json):
            whole.setdefault((row.study_id, row.param_name), row.distribution_json)
        elif row.study_id in ours:
            broken.append(row)
    for row in broken:
        value = float(row.param_value)
        alone = distribution_to_json(FloatDistribution(value, value))
        text = whole.get((row.study_id, row.param_name), alone)
        what = f"the range of {row.param_name} of trial {row.number} of {ours[row.study_id]}"
        fault = Fault(kind="unreadable", what=what, why="it is not a range")
        yield fault, partial(_mend_range, connection, row, text)


def _mend_range(connection: sqlalchemy.Connection, row: Any, text: str) -> None:
    _ask(
        connection,
        "UPDATE trial_params SET distribution_json = :text WHERE param_id = :row_id",
        text=text,
        row_id=row.param_id,
    )
    name, old = f"the range of {row.param_name}", row.distribution_json
    _keep(connection, ATTRIBUTES[0], "trial_id", row.trial_id, name, old)


def _set_text(connection: sqlalchemy.Connection, table: str, row_id: int, text: str) -> None:
    change = f"UPDATE {table} SET value_json = :text WHERE {table[:-1]}_id = :row_id"
    _ask(connection, change, text=text, row_id=row_id)


def _keep(
    connection: sqlalchemy.Connection, table: str, owner: str, owner_id: int, key: str, old: object
) -> None:
    """Keep an unreadable text as a text, under a name of its own."""
    there = _ask(connection, f"SELECT key FROM {table} WHERE {owner} = :owner", owner=owner_id)
    taken = {row.key for row in there}
    name = first = f"{UNREADABLE}{key}"[:LONGEST_KEY]
    for n in itertools.count(2):
        if name not in taken:
            break
        name = f"{first}:{n}"
    _ask(
        connection,
        f"INSERT INTO {table} ({owner}, key, value_json) VALUES (:owner, :name, :text)",
        owner=owner_id,
        name=name,
        text=json.dumps(old if isinstance(old, str | None) else repr(old)),
    )


def _ask(connection: sqlalchemy.Connection, query: str, **values: Any) -> Sequence[sqlalchemy.Row]:
    result = connection.execute(sqlalchemy.text(query), values)
    return result.all() if result.returns_rows else ()


def _is_range(text: object) -> bool:
    try:
        json_to_distribution(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    return True


def _is_json(text: object) -> bool:
    try:
        json.loads(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return False
    return True
