"""Optuna storages → tables of runs; also the owner of the names this package uses in them.

| in a storage | is |
|---|---|
| study `NAME/width=64` | the sweep at one size; several columns: `NAME/params=1000,tokens=5000` |
| study `NAME/check/width=512` | larger runs at one size |
| study attribute `fingerprint` | what determines the results; its workload's options as columns |
| trial parameters | tuned values |
| study attribute `schema` | the version of these names and what they hold |
| study attributes `sealed:…` | when the forecast of this content hash was sealed |
| study attributes `imported-seal:…` | when such a time was copied here: nobody here saw it |
| study attribute `driver` | the process that trains the study, since when, and what it is at |
| study attribute `asked` | what a sampler chose, until it has a result |
| trial attributes `seed`, `conditions`, `owner` | seed, recipe, the process that wrote it |
| trial attributes `result`, `curve` | status, costs and losses of a finished run |
| trial attribute `failure` | why a run was given up |
| trial attribute `trained_by` | who trained a run that was copied here by its owner |
| trial attribute `gradients` | moments of its gradients along the way, where they were measured |

Any other study reads as a plain one: parameters and scalar attributes are columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any, NamedTuple

import optuna
import pandas as pd
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import Choice, DataError, StudyError, argument
from extrap.reading.bounds import shown
from extrap.reading.copies import open_to_read
from extrap.reading.foreign import (
    STATUS,
    are_one_sweep,
    name_sizes,
    read_foreign,
    studies_by_base,
)
from extrap.reading.found import Found
from extrap.reading.storages import open_storage, reading_faults, safe_url, storage_faults

FINGERPRINT = "fingerprint"
ORIGIN = "origin"
"""A name of a storage's own: what runs of a command leave is not taken up in another one."""
SEED = "seed"
CONDITIONS = "conditions"
OWNER = "owner"
FAILURE = "failure"
ASKED = "asked"
DRIVER = "driver"
SCHEMA = "schema"
SCHEMA_VERSION = 2
SEALED = "sealed:"
IMPORTED_SEAL = "imported-seal:"
TRAINED_BY = "trained_by"
RESULT = "result"
CURVE = "curve"
GRADIENTS = "gradients"

OUR_STUDY = re.compile(
    r"(?P<name>[^/]+)/(?P<check>check/)?(?P<size>[^/=,]+=[^/=,]+(,[^/=,]+=[^/=,]+)*)"
)
MOST_CHOICES = 6
"""Studies that an error offers."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
"""How trials end that have a result."""
MOMENTS = ("grad_sq_norm", "grad_cov_trace")


class StudyKey(NamedTuple):
    """What a study of ours is named after."""

    name: str
    stage: str
    size: tuple[tuple[str, float], ...]


class OurStudy(NamedTuple):
    """One size of one stage of a study of ours, as a storage has it.

    Attributes:
        full_name: As `study_name` makes it.
        key: What `full_name` says.
        id: Optuna's number of it.
        attributes: Of the study, not of its trials.
    """

    full_name: str
    key: StudyKey
    id: int
    attributes: Mapping[str, Any]


class Tables(NamedTuple):
    """What a storage holds.

    Attributes:
        runs: One row a run.
        curves: Columns `run` (row position), `step`, `loss`; where the noise of gradients was
            measured also `grad_sq_norm` and `grad_cov_trace`.
        notes: What reading had to decide, one sentence each.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    notes: tuple[str, ...]


def study_name(name: str, size: Mapping[str, float], *, stage: str) -> str:
    """The name of the Optuna study that holds one size of one stage: `NAME/width=64`."""
    values = ",".join(f"{column}={value:.12g}" for column, value in size.items())
    return f"{name}/check/{values}" if stage == "check" else f"{name}/{values}"


def parse_study_name(full_name: str) -> StudyKey | None:
    """The inverse of `study_name`; None for a study that is not ours."""
    match = OUR_STUDY.fullmatch(full_name)
    if match is None:
        return None
    pairs = (pair.split("=") for pair in match["size"].split(","))
    try:
        size = tuple((column, float(value)) for column, value in pairs)
    except ValueError:
        return None
    return StudyKey(match["name"], "check" if match["check"] else "tune", size)


def study_names(storage: BaseStorage) -> tuple[str, ...]:
    """Full names of all studies in a storage, in the order they were made."""
    return tuple(study.study_name for study in storage.get_all_studies())


def our_studies(storage: BaseStorage, names: Container[str]) -> list[OurStudy]:
    """Every size and stage of some studies of ours, in the order they were made.

    Args:
        storage: Where they are.
        names: Names of studies of ours, without size and stage.

    Raises:
        StudyError: A newer version wrote one of them.
    """
    found = [study for study in _ours(storage) if study.key.name in names]
    for study in found:
        require_schema(study.attributes, study=study.full_name)
    return found


def _ours(storage: BaseStorage) -> list[OurStudy]:
    """All studies that are named as ours and have one value that is minimised."""
    return [
        OurStudy(study.study_name, key, study._study_id, study.user_attrs)
        for study in storage.get_all_studies()
        if study.directions == [StudyDirection.MINIMIZE]
        and (key := parse_study_name(study.study_name)) is not None
    ]


def find_study(
    url: str, *, study: str | None = None, stage: str = "tune", sizes: Sequence[str] = ()
) -> Found:
    """Read the runs of a study, and what it says of its columns; nothing is written or created.

    Args:
        url: The storage, as in `open_storage`.
        study: Name of the study, ours (`"metz"` reads every size) or anyone's; of studies that
            hold a size each, what their names share. May be left out if there is only one.
        stage: Of our studies, only the runs of this stage, `"tune"` or `"check"`; the runs of
            other studies are given it.
        sizes: Size columns that were asked for, which names of studies may hold.

    Raises:
        DataError: There is no such file or study, or there are several and none was named.
        StudyError: The storage cannot be opened, or a newer version wrote the study.
    """
    with storage_faults(url), reading_faults(url):
        storage = open_to_read(url)
        return _find(storage, safe_url(url), study=study, stage=stage, sizes=sizes)


def find_studies(
    studies: Sequence[Study],
    source: str,
    *,
    study: str | None = None,
    stage: str = "tune",
    sizes: Sequence[str] = (),
) -> Found:
    """Read the trials of study objects, each in a storage of its own or in memory.

    Args:
        studies: The studies; they are copied, and not changed.
        source: What to call them.
        study: As in `find_study`, like the rest.
        stage: As there; to be judged are all where none is named `NAME/check/SIZE=VALUE`.
        sizes: As there.

    Raises:
        DataError: Two have one name, or they are no sweep; or as `find_study`.
    """
    storage = InMemoryStorage()
    names = [each.study_name for each in studies]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(
            f"the studies of a list have names of their own, {twice[0]!r} is there twice; give "
            "each once, or name them after their size, as in mine/width=64."
        )
    keys = [parse_study_name(name) for name in names]
    if stage == "check" and not any(key and key.stage == stage for key in keys):
        names = [
            study_name(key.name, dict(key.size), stage=stage) if key else name
            for key, name in zip(keys, names, strict=True)
        ]
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would log each copy
    try:
        for each, name in zip(studies, names, strict=True):
            optuna.copy_study(
                from_study_name=each.study_name,
                from_storage=each._storage,
                to_storage=storage,
                to_study_name=name,
            )
    finally:
        optuna.logging.set_verbosity(verbosity)
    return _find(storage, source, study=study, stage=stage, sizes=sizes, are_one=True)


def _find(
    storage: BaseStorage,
    source: str,
    *,
    study: str | None,
    stage: str,
    sizes: Sequence[str],
    are_one: bool = False,
) -> Found:
    """What `find_study` finds in an open storage; `are_one`: they are said to be one sweep."""
    names, ours = study_names(storage), {own.full_name: own for own in _ours(storage)}
    theirs = studies_by_base([name for name in names if name not in ours], sizes)
    bases = list(dict.fromkeys([own.key.name for own in ours.values()] + list(theirs)))
    read_theirs = partial(read_foreign, storage, stage=stage, source=source)
    if study is None and bases[1:] and not ours:
        has_size = bool(sizes) or name_sizes(storage, names)
        if (are_one and has_size) or are_one_sweep(storage, names):
            return read_theirs(names, sizes=sizes)
        if len(bases) == len(names) and not has_size:
            raise DataError(
                f"the sizes of a sweep stand in its studies or their names, {source} holds "
                f"{_listed(bases[:MOST_CHOICES])}; name studies NAME/SIZE=VALUE, as in "
                'mine/width=64, or give each its size, study.set_user_attr("width", 64), '
                f"with {argument('size', ...)} where it has a name of yours; a study that has "
                f"several sizes is named with {argument('study', ...)}."
            )
    chosen = study if study is not None else _only(bases, source)
    if chosen in theirs:
        return read_theirs(theirs[chosen], sizes=sizes)
    if chosen in names and chosen not in ours:
        return read_theirs([chosen])
    found = [own for own in ours.values() if chosen in (own.key.name, own.full_name)]
    if not found:
        raise DataError(f"{source} has no study {chosen!r}; it has {_listed(bases)}.")
    for own in found:
        require_schema(own.attributes, study=own.full_name)
    tables = _read(storage, found, ours[chosen].key.stage if chosen in ours else stage)
    return Found(
        table=tables.runs,
        where=source,
        points=tables.curves.rename(columns={"loss": "value"}).assign(metric="loss"),
        notes=tables.notes,
        sizes=tuple(dict.fromkeys(column for own in found for column, _ in own.key.size)),
        tuned=_tuned_of(storage, found),
    )


def _tuned_of(storage: BaseStorage, studies: Sequence[OurStudy]) -> tuple[str, ...]:
    """Names of the tuned values of our studies, of old ones those of their trials."""
    found = dict.fromkeys(name for study in studies for name in _order_of_tuned(study))
    if not found:
        trials = (t for s in studies for t in storage.get_all_trials(s.id, deepcopy=False))
        found = dict.fromkeys(name for trial in trials for name in trial.params)
    return tuple(found)


def read_fingerprint(url: str, *, study: str) -> dict[str, Any]:
    """What one of our studies was made with: dotted name → value; empty for any other study.

    Raises:
        StudyError: The storage cannot be opened.
    """
    with storage_faults(url), reading_faults(url):
        found = our_studies(open_to_read(url), (study,))
        return fingerprint_of(found[0]) if found else {}


def fingerprint_of(study: OurStudy) -> dict[str, Any]:
    """What a study was made with; empty if nobody wrote it down.

    Raises:
        DataError: It is no table.
    """
    made_with = study.attributes.get(FINGERPRINT, {})
    if not isinstance(made_with, dict):
        raise DataError(
            f"the fingerprint of a study is a table of names, got {type(made_with).__name__} in "
            f"{study.full_name!r}; restore the storage from a backup."
        )
    return made_with


def require_schema(stored: Mapping[str, Any], *, study: str) -> None:
    """Raise where a study was written with another schema.

    Args:
        stored: The attributes of the study.
        study: Its name, for the message.

    Raises:
        StudyError: It was; both versions are named.
    """
    if (version := stored.get(SCHEMA, SCHEMA_VERSION)) != SCHEMA_VERSION:
        raise StudyError(
            f"the study {study!r} must have schema {SCHEMA_VERSION}, got {version!r}: another "
            "extrap wrote it; install that version here, or choose another storage."
        )


def problem_of(trial: FrozenTrial) -> str:
    """What of a finished trial of ours is not as it is written; nothing if all is well."""
    if not all(_is_number(value) and value > 0 for value in trial.params.values()):
        return f"its parameters are no positive numbers: {shown(trial.params)}"
    for name, (is_sound, what) in SOUND.items():
        if name in trial.user_attrs and not is_sound(trial.user_attrs[name]):
            return f"its {name} is no {what}: {shown(trial.user_attrs[name])}"
    if trial.state in ENDED and len(trial.values or ()) != 1:
        return f"it has not one value but {shown(trial.values)}"
    return ""


def _is_table(part: object) -> bool:
    return (
        isinstance(part, dict)
        and all(map(_is_scalar, part.values()))
        and isinstance(part.get("status", ""), str)
    )


def _are_points(points: object, n: int) -> bool:
    """Whether these are lists of `n` numbers; a study has a million, so types are looked at."""
    return (
        isinstance(points, list | tuple)
        and set(map(type, points)) <= {list, tuple}
        and set(map(len, points)) <= {n}
        and {type(value) for point in points for value in point} <= {int, float}
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


SOUND: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    SEED: (lambda seed: seed is None or type(seed) is int, "whole number"),
    RESULT: (_is_table, "table of single values"),
    CONDITIONS: (_is_table, "table of single values"),
    CURVE: (partial(_are_points, n=2), "list of points of 2 numbers"),
    GRADIENTS: (partial(_are_points, n=3), "list of points of 3 numbers"),
}
"""Attribute of a trial → whether a value of it is as it is written, and what that is."""


def seal_time(url: str, *, study: str, content_hash: str, now: str | None = None) -> str:
    """When what a study foresees was first sealed in its storage; now, if it never was.

    Args:
        url: The storage.
        study: Name of the study.
        content_hash: Content of the forecast.
        now: The time to write down if it is not there yet. Without, nothing is written, and the
            time is empty.

    Raises:
        StudyError: The storage cannot be used.
        DataError: It holds no such study.
    """
    key = SEALED + content_hash
    with storage_faults(url):
        storage = open_to_read(url) if now is None else open_storage(url)
        found = our_studies(storage, (study,))
        for each in found:
            if key in each.attributes:
                return str(each.attributes[key])
        if not found:
            raise DataError(f"{safe_url(url)} has no study {study!r}; tune first.")
        if now is not None:
            storage.set_study_user_attr(min(each.id for each in found), key, now)
    return now or ""


def read_tables(storage: BaseStorage, *, study: str, stage: str) -> Tables:
    """The runs of one stage of a study of ours, from a storage that is open already.

    Raises:
        StudyError: A newer version wrote the study.
    """
    return _read(storage, our_studies(storage, (study,)), stage)


def _only(bases: Sequence[str], source: str) -> str:
    if not bases:
        raise DataError(f"{source} holds no study; check the address, or tune first.")
    if len(bases) > 1:
        raise DataError(
            f"{source} holds several studies, {_listed(bases)}; name one of them:",
            [Choice({"study": base}) for base in bases[:MOST_CHOICES]],
        )
    return bases[0]


def _read(storage: BaseStorage, studies: Iterable[OurStudy], stage: str) -> Tables:
    """Rows in the order of size, tuned values, seed, whichever process trained them when."""
    cells: dict[tuple[Any, ...], tuple[dict[str, Any], list[Sequence[float]]]] = {}
    n_failed, broken = 0, list[str]()
    for study in (each for each in studies if each.key.stage == stage):
        options, order = _options(study), _order_of_tuned(study)
        for trial in storage.get_all_trials(study.id, deepcopy=False):
            if trial.state == TrialState.FAIL:
                n_failed += 1
            if trial.state not in ENDED:
                continue
            if problem := problem_of(trial):
                broken.append(
                    f"Trial {trial.number} of {study.full_name!r} was left out: {problem}."
                )
                continue
            params = {name: trial.params[name] for name in order if name in trial.params}
            params |= trial.params
            cell = (study.key.size, *params.values(), trial.user_attrs.get(SEED))
            if cell not in cells:  # a cell belongs to its lowest-numbered trial
                cells[cell] = ({**options, **_row(study.key, trial, params)}, _points(trial))
    ordered = [cells[cell] for cell in sorted(cells)]
    notes = (*broken, *[f"{n_failed} interrupted attempts were left out."] * bool(n_failed))
    points = [(run, *point) for run, (_, curve) in enumerate(ordered) for point in curve]
    columns = ["run", "step", "loss", *MOMENTS]
    return Tables(
        pd.DataFrame([row for row, _ in ordered]),
        pd.DataFrame(points, columns=columns[: max(map(len, points), default=3)]),
        notes,
    )


def _points(trial: FrozenTrial) -> list[Sequence[float]]:
    """Step and loss of every point of a curve, and the moments of gradients measured there."""
    moments = {step: rest for step, *rest in trial.user_attrs.get(GRADIENTS, [])}
    points = trial.user_attrs.get(CURVE, [])
    return [(step, loss, *moments.get(step, ())) for step, loss in points]


def _options(study: OurStudy) -> dict[str, int | float]:
    """The workload's options that are numbers, those left at their defaults included."""
    parts = ((key.partition("."), value) for key, value in fingerprint_of(study).items())
    return {
        option: value
        for (part, _, option), value in parts
        if part in ("workload", "data") and isinstance(value, int | float)
    }


def _order_of_tuned(study: OurStudy) -> tuple[str, ...]:
    """Names of the tuned values as the study has them; Optuna's proxy shuffles those of trials."""
    parts = (key.split(".") for key in fingerprint_of(study))
    return tuple(dict.fromkeys(part[1] for part in parts if part[0] == "tune" and part[1:]))


def _row(key: StudyKey, trial: FrozenTrial, params: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(trial.user_attrs.get(RESULT, {}))
    status = result.pop("status", STATUS[trial.state])
    began = trial.datetime_start  # local time, which Optuna does not say
    return {
        **{column: int(v) if v.is_integer() else v for column, v in key.size},
        **params,
        SEED: trial.user_attrs.get(SEED),
        "loss": result.pop("loss", trial.value) if status == "complete" else float("nan"),
        "status": status,
        "stage": key.stage,
        "started_at": began and began.astimezone(UTC).isoformat(timespec="seconds"),
        **result,
        **trial.user_attrs.get(CONDITIONS, {}),
    }


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
