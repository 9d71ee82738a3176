"""Optuna's studies → runs; those that extrap wrote say more.

| in any storage | is |
|---|---|
| trial parameters | tuned values, where all are positive numbers |
| scalar attributes of a trial, or of its study | columns |
| the value of a study that minimises | `loss`, or the metric's name |
| the value of a study that maximises | `value`, or the metric's name, to be maximised |
| several values | `values_0`, `values_1`, …, or the metrics' names |
| study `NAME/width=64` | the sweep at one size; several columns: `NAME/params=1000,tokens=5000` |
| study `NAME/check/width=512` | larger runs at one size |
| studies `mlp-width64`, `mlp-width128`; `tiny`, `base` with an attribute `width` | one sweep |

| in one that extrap wrote | is |
|---|---|
| study attribute `schema` | the version of these names and what they hold |
| study attribute `fingerprint` | what determines the results; its workload's options as columns |
| trial attributes `seed`, `conditions` | seed, recipe |
| trial attribute `role` | why a larger run was trained: `recommended`, `contrast` |
| trial attributes `result`, `curve` | status, costs and losses of a finished run |
| trial attribute `gradients` | moments of its gradients along the way, where they were measured |
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import Choice, DataError, StudyError, without_password
from extrap.reading.contents import Contents
from extrap.reading.names import NAMES_OF_PART, SEED_NAMES, known_name
from extrap.reading.settings import number_in, words_in_names
from extrap.reading.storages import open_to_read, storage_faults
from extrap.records import Cell, StudySpec

SCHEMA_KEY = "schema"
"""Study attribute: the version of the names and contents below."""
STORAGE_SCHEMA_VERSION = 2
"""The version that is written and read here."""
FINGERPRINT_KEY = "fingerprint"
"""Study attribute: what determines the results."""
SEED_KEY = "seed"
"""Trial attribute: the seed."""
CONDITIONS_KEY = "conditions"
"""Trial attribute: the recipe."""
ROLE_KEY = "role"
"""Trial attribute: why a larger run was trained."""
RESULT_KEY = "result"
"""Trial attribute: status and costs of a finished run."""
CURVE_KEY = "curve"
"""Trial attribute: the losses of a finished run by step."""
GRADIENTS_KEY = "gradients"
"""Trial attribute: moments of the gradients by step."""

NAMED_STUDY = re.compile(
    r"(?P<name>[^/]+)/(?P<check>check/)?(?P<size>[^/=,]+=[^/=,]+(,[^/=,]+=[^/=,]+)*)"
)
"""The name of a study of ours, see `study_name`."""
METRIC_NAMES = "study:metric_names"
"""The system attribute in which Optuna keeps the names of a study's values."""
STATUS = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
"""State of a trial that has finished → status of the run."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
"""How trials end that have a result."""
POINT = ["run", "step", "loss", "grad_sq_norm", "grad_cov_trace"]
"""Columns of curves; the moments of gradients where they were measured."""
IN_NAMES = frozenset((*NAMES_OF_PART["size"], *NAMES_OF_PART["data"], *SEED_NAMES))
"""What stands before numbers in names of studies."""
MOST_STUDIES_OFFERED = 6
"""Studies that an error offers."""


class StudyKey(NamedTuple):
    """What the name of a study says; of any other than ours no stage and no size."""

    name: str
    stage: str
    size: tuple[tuple[str, float], ...]


class StoredStudy(NamedTuple):
    """A study as a storage has it.

    Attributes:
        full_name: Its name.
        key: What that says.
        id: Optuna's number of it.
        attributes: Of the study, not of its trials.
        metrics: What its values are called → whether they are maximised.
        storage: Where its trials are.
        finished: Its finished trials by number, where they are in memory.
    """

    full_name: str
    key: StudyKey
    id: int
    attributes: Mapping[str, Any]
    metrics: Mapping[str, bool]
    storage: BaseStorage
    finished: Sequence[FrozenTrial] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether extrap wrote its trials."""
        return bool(self.key.size) and SCHEMA_KEY in self.attributes

    def fingerprint(self) -> dict[str, Any]:
        """What a study of ours was made with; empty if nobody wrote it down.

        Raises:
            StudyError: Another version wrote it, or what is there is no table.
        """
        version = self.attributes.get(SCHEMA_KEY, STORAGE_SCHEMA_VERSION)
        made_with = self.attributes.get(FINGERPRINT_KEY, {})
        if version != STORAGE_SCHEMA_VERSION or not isinstance(made_with, dict):
            raise StudyError(
                f"the study {self.full_name!r} must have schema {STORAGE_SCHEMA_VERSION} and a "
                f"table as fingerprint, got {version!r} and {type(made_with).__name__}: another "
                "extrap wrote it; install that version here, or choose another storage."
            )
        return made_with

    def trials(self) -> list[FrozenTrial]:
        """Its trials that are finished, by number."""
        if self.finished is not None:
            return list(self.finished)
        trials = self.storage.get_all_trials(self.id, deepcopy=False)
        return [trial for trial in trials if trial.state in STATUS]


def study_name(name: str, size: Mapping[str, float], *, stage: str) -> str:
    """The name of the Optuna study that holds one size of one stage: `NAME/width=64`."""
    values = ",".join(f"{column}={value:.12g}" for column, value in size.items())
    return f"{name}/check/{values}" if stage == "check" else f"{name}/{values}"


def parse_study_name(full_name: str) -> StudyKey | None:
    """The inverse of `study_name`; None for any other name."""
    match = NAMED_STUDY.fullmatch(full_name)
    if match is None:
        return None
    pairs = (pair.split("=") for pair in match["size"].split(","))
    try:
        size = tuple((column, float(value)) for column, value in pairs)
    except ValueError:
        return None
    return StudyKey(match["name"], "check" if match["check"] else "tune", size)


def our_studies(storage: BaseStorage, names: Container[str]) -> list[StoredStudy]:
    """Every size and stage of the studies of ours of some names, in the order they were made.

    Raises:
        StudyError: Another version wrote one of them.
    """
    studies = [study for study in _studies(storage) if study.key.size and study.key.name in names]
    studies = [study for study in studies if list(study.metrics.values()) == [False]]
    for study in studies:
        study.fingerprint()
    return studies


def _studies(storage: BaseStorage) -> list[StoredStudy]:
    stored = []
    for study in storage.get_all_studies():
        maximised = [direction == StudyDirection.MAXIMIZE for direction in study.directions]
        called = study.system_attrs.get(METRIC_NAMES)
        if not (isinstance(called, list) and len(set(called)) == len(maximised)):
            called = [f"values_{i}" for i in range(len(maximised))]
            if len(maximised) == 1:
                called = ["value" if maximised[0] else "loss"]
        name, attributes = study.study_name, study.user_attrs
        metrics = dict(zip(map(str, called), maximised, strict=True))
        key = parse_study_name(name) or StudyKey(name, "", ())
        stored.append(StoredStudy(name, key, study._study_id, attributes, metrics, storage))
    return stored


def _with_sizes(studies: Iterable[StoredStudy]) -> list[StoredStudy]:
    """Studies, with the sizes in names that differ in their numbers alone, `mlp-width64`."""
    alike: dict[str, list[StoredStudy]] = {}
    for study in studies:
        base = study.full_name if study.key.size else re.sub(r"\d+(\.\d+)?", "#", study.full_name)
        alike.setdefault(base, []).append(study)
    sized = []
    for base, group in alike.items():
        size_words = words_in_names([study.full_name for study in group])
        size_words = [word for word in size_words if word in IN_NAMES]
        is_sized = bool(set(size_words) - set(SEED_NAMES))
        for study in group:
            numbers = [(word, number_in(study.full_name, word)) for word in size_words]
            size = tuple((word, number) for word, number in numbers if number is not None)
            key = StudyKey(base.replace("#", "").strip(" ,;/&_-.=:"), "", size)
            sized.append(study._replace(key=key) if is_sized else study)
    return sized


def find_study(url: str, *, study: str | None = None, stage: str = "tune") -> Contents:
    """Read the runs of a study, and what it says of its columns; nothing is written or created.

    Args:
        url: The storage, as in `open_to_read`.
        study: Name of the study; of studies that hold a size each, what their names share.
        stage: Of studies whose names say their stage, only those of this one, `"tune"` or
            `"check"`; the runs of other studies are given it.

    Raises:
        DataError: There is no such file or study, or there are several and none was named.
        StudyError: The storage cannot be opened, or another version wrote the study.
    """
    with storage_faults(url, Exception):
        stored, source = _with_sizes(_studies(open_to_read(url))), without_password(url)
        chosen = _chosen(stored, source, study)
        if study == chosen[0].full_name:
            stage = chosen[0].key.stage or stage
        return _read(chosen, source, stage)


def find_studies(
    studies: Sequence[Study], source: str, *, study: str | None = None, stage: str = "tune"
) -> Contents:
    """Read the trials of study objects, which are one sweep; each may be in a storage of its own.

    As in `find_study`, but all are of the stage where none is named `NAME/check/SIZE=VALUE`.

    Raises:
        DataError: There is no such study.
    """
    stored = _with_sizes(
        one
        for handle in studies
        for one in _studies(handle._storage)
        if one.id == handle._study_id
    )
    if not any(one.key.stage == stage for one in stored):
        stored = [one._replace(key=one.key._replace(stage=stage)) for one in stored]
    chosen = stored if study is None else _chosen(stored, source, study)
    return _read(chosen, source, stage)


def _chosen(studies: Sequence[StoredStudy], source: str, name: str | None) -> list[StoredStudy]:
    """The studies of a name, or of all that are there if they are one sweep."""
    groups: dict[str, list[StoredStudy]] = {}
    for study in studies:
        groups.setdefault(study.key.name, []).append(study)
    if not groups:
        raise DataError(f"{source} holds no study; check the address, or tune first.")
    if name is None and (len(groups) == 1 or _are_one_sweep(studies)):
        return list(studies)
    if name is None:
        raise DataError(
            f"{source} holds several studies, {', '.join(list(groups)[:MOST_STUDIES_OFFERED])}; "
            "name one of them, or make them one sweep by names NAME/SIZE=VALUE, as in "
            'mine/width=64, or by study.set_user_attr("width", 64) in each:',
            [Choice({"study": group}) for group in list(groups)[:MOST_STUDIES_OFFERED]],
        )
    chosen = groups.get(name) or [study for study in studies if study.full_name == name]
    if not chosen:
        raise DataError(f"{source} has no study {name!r}; it has {', '.join(groups)}.")
    return chosen


def _are_one_sweep(studies: Sequence[StoredStudy]) -> bool:
    """Whether studies tuned the same values, each at a size of its own, which is an attribute."""
    attributes, forms = [], set()
    for study in studies:
        trials = study.trials()
        first = trials[0].user_attrs if trials else {}
        attributes.append(_scalars(first) | _scalars(study.attributes))
        forms.add((*study.metrics.items(), *sorted({n for trial in trials for n in trial.params})))
    sizes = [name for name in attributes[0] if known_name(name) in NAMES_OF_PART["size"]]
    values = ([scalars.get(name) for scalars in attributes] for name in sizes)
    return len(forms) == 1 and any(
        None not in column and len(set(column)) == len(column) for column in values
    )


def read_stored(studies: Sequence[StoredStudy], *, study: str, stage: str) -> Contents:
    """The runs of one stage of a study of ours, from `our_studies`."""
    return _read(studies, study, stage)


def _read(studies: Sequence[StoredStudy], source: str, stage: str) -> Contents:
    """The trials of one study, or of several that are one sweep.

    Rows of ours are in the order of size, tuned values, seed, whichever process trained them
    when: a cell belongs to its lowest-numbered trial.
    """
    studies = [study for study in studies if study.key.stage in ("", stage)]
    names = [study.full_name for study in studies]
    runs: dict[tuple[Any, ...], tuple[dict[str, Any], list[Sequence[float]]]] = {}
    tuned, params, notes = list[str](), list[Mapping[str, Any]](), list[str]()
    for i, study in enumerate(studies):
        columns, order = _columns(study), _order_of_tuned(study)
        tuned += order
        for trial in study.trials():
            cell: tuple[Any, ...] = (i, trial.number)
            trial_params = {name: trial.params[name] for name in order if name in trial.params}
            trial_params |= trial.params
            if study.is_ours:
                if trial.state == TrialState.FAIL:  # of an attempt, which is repeated
                    continue
                if problem := problem_of(trial):
                    notes.append(f"Trial {trial.number} of {names[i]!r} was left out: {problem}.")
                    continue
                cell = (-1, study.key.size, *trial_params.values(), trial.user_attrs.get(SEED_KEY))
            if cell not in runs:
                runs[cell] = (
                    _row(study, trial, columns, trial_params, stage),
                    _points(study, trial),
                )
                params.append(trial_params)
    sorted_runs = [runs[cell] for cell in sorted(runs)]
    points = [(run, *point) for run, (_, curve) in enumerate(sorted_runs) for point in curve]
    metrics = {name: is_up for study in studies for name, is_up in study.metrics.items()}
    by_name = dict.fromkeys(name for trial_params in params for name in trial_params)
    odd = {
        name
        for trial_params in params
        for name, value in trial_params.items()
        if not _is_positive(value)
    }
    curves = None
    if len(metrics) == 1:
        n = max(map(len, points), default=3)  # some points may be without moments
        padded = [
            point if len(point) == n else (*point, *[math.nan] * (n - len(point)))
            for point in points
        ]
        curves = pd.DataFrame(padded, columns=POINT[:n])
        curves = curves.rename(columns={"loss": "value"}).assign(metric=next(iter(metrics)))
    if names[1:] and not any(study.is_ours for study in studies):
        notes.append(f"{len(names)} studies are read as one sweep")
    return Contents(
        table=pd.DataFrame([row for row, _ in sorted_runs]),
        where=source,
        points=curves,
        notes=tuple(notes),
        sizes=tuple(
            dict.fromkeys(c for s in studies for c, _ in s.key.size if c not in SEED_NAMES)
        ),
        tuned=tuple(dict.fromkeys(tuned or (name for name in by_name if name not in odd))),
        losses=tuple(metrics) if len(metrics) == 1 else (),
        metrics=tuple(metrics),
        maximised=tuple(name for name, is_maximised in metrics.items() if is_maximised),
    )


def _columns(study: StoredStudy) -> dict[str, Any]:
    """What is the same in all trials of a study: of ours options of the workload, and the size."""
    if study.is_ours:
        parts = ((key.partition("."), value) for key, value in study.fingerprint().items())
        columns = {
            option: value
            for (part, _, option), value in parts
            if part in ("workload", "data") and isinstance(value, int | float)
        }
    else:
        columns = _scalars(study.attributes)
    return columns | {column: int(v) if v.is_integer() else v for column, v in study.key.size}


def _row(
    study: StoredStudy,
    trial: FrozenTrial,
    columns: Mapping[str, Any],
    params: dict[str, Any],
    stage: str,
) -> dict[str, Any]:
    """Settings of a run and what came of it."""
    user_attrs, is_complete = trial.user_attrs, trial.state == TrialState.COMPLETE
    values = trial.values if is_complete and trial.values else [math.nan] * len(study.metrics)
    finite = [value if math.isfinite(value) else math.nan for value in values]
    is_lost = is_complete and len(finite) == 1 and math.isnan(finite[0])
    began = trial.datetime_start  # local time, which Optuna does not say
    attributes = _scalars(user_attrs)
    if study.is_ours:
        attributes = {
            SEED_KEY: user_attrs.get(SEED_KEY),
            **({ROLE_KEY: user_attrs[ROLE_KEY]} if ROLE_KEY in user_attrs else {}),
        }
    row = {
        **columns,
        **(params | attributes | params),  # of one name a parameter counts
        **dict(zip(study.metrics, finite, strict=True)),
        "status": "diverged" if is_lost else STATUS[trial.state],
        "stage": stage,
        "started_at": began and began.astimezone(UTC).isoformat(timespec="seconds"),
    }
    if study.is_ours:
        row |= user_attrs.get(RESULT_KEY, {}) | user_attrs.get(CONDITIONS_KEY, {})
    return row if row["status"] == "complete" else row | dict.fromkeys(study.metrics, math.nan)


def _points(study: StoredStudy, trial: FrozenTrial) -> list[Sequence[float]]:
    """Step and loss of every point of a curve, and the moments of gradients measured there."""
    if not study.is_ours:
        return list(trial.intermediate_values.items())
    curve, gradients = (trial.user_attrs.get(key, []) for key in (CURVE_KEY, GRADIENTS_KEY))
    if not gradients:  # a study has a million points
        return curve
    moments = {step: values for step, *values in gradients}
    return [(step, loss, *moments.get(step, ())) for step, loss in curve]


def _order_of_tuned(study: StoredStudy) -> list[str]:
    """Names of the tuned values as a study of ours has them; Optuna shuffles those of trials."""
    parts = [key.split(".") for key in study.fingerprint()] if study.is_ours else []
    return list(dict.fromkeys(part[1] for part in parts if part[0] == "tune" and part[1:]))


def cells_in(
    trials: Iterable[FrozenTrial], size: tuple[tuple[str, float], ...], spec: StudySpec
) -> Iterator[tuple[Cell | None, FrozenTrial]]:
    """Finished trials of ours with their cells; None for one that is not as extrap writes it.

    The lowest-numbered trial of a cell that is complete or pruned holds its result.
    """
    for trial in trials:
        if trial.state.is_finished():
            yield None if problem_of(trial) else cell_of(trial, size, spec), trial


def cell_of(trial: FrozenTrial, size: tuple[tuple[str, float], ...], spec: StudySpec) -> Cell:
    """The cell that a trial of ours belongs to."""
    names = dict.fromkeys([name for name in spec.tune if name in trial.params])
    values = {name: trial.params[name] for name in {**names, **trial.params}}
    return Cell.of(dict(size), values, trial.user_attrs.get(SEED_KEY, -1))


def problem_of(trial: FrozenTrial) -> str:
    """What of a finished trial of ours is not as extrap writes it; nothing if all is well."""
    user_attrs = trial.user_attrs
    sound = {
        "parameters": all(map(_is_positive, trial.params.values())),
        SEED_KEY: user_attrs.get(SEED_KEY) is None or type(user_attrs[SEED_KEY]) is int,
        ROLE_KEY: isinstance(user_attrs.get(ROLE_KEY, ""), str),
        RESULT_KEY: _is_table(user_attrs.get(RESULT_KEY, {})),
        CONDITIONS_KEY: _is_table(user_attrs.get(CONDITIONS_KEY, {})),
        CURVE_KEY: _are_points(user_attrs.get(CURVE_KEY, []), 2),
        GRADIENTS_KEY: _are_points(user_attrs.get(GRADIENTS_KEY, []), 3),
        "values": trial.state not in ENDED or len(trial.values or ()) == 1,
    }
    wrong = [name for name, is_sound in sound.items() if not is_sound]
    return f"{wrong[0]} not as extrap writes it" if wrong else ""


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
        and set(map(type, chain.from_iterable(points))) <= {int, float}
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _scalars(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if _is_scalar(value)}


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
