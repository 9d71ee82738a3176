"""Optuna studies that are not of ours: any directions, sizes in attributes or in their names.

| in a storage | is |
|---|---|
| trial parameters | tuned values, where all are positive numbers |
| scalar attributes of a trial, or of its study | columns |
| the one value of a study that minimises | `loss`, or the metric's name |
| the one value of a study that maximises | `value`, or the metric's name, to be maximised |
| several values | `values_0`, `values_1`, …, or the metrics' names |
| studies `sweep-64`, `sweep-128`; `tiny`, `base` with an attribute `width` | one sweep |
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from extrap.errors import argument
from extrap.reading.found import Found
from extrap.reading.names import WORDS, known_name
from extrap.reading.settings import number_in, sizes_in_names, without_number

METRIC_NAMES = "study:metric_names"
"""The system attribute in which Optuna keeps the names of a study's values."""
STATUS = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
POINTS = ["run", "step", "value"]


def studies_by_base(names: Sequence[str], sizes: Sequence[str]) -> dict[str, list[str]]:
    """Studies by what their names share where they differ in their size alone.

    Args:
        names: The studies.
        sizes: Size columns that were asked for.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        base = name
        if sizes and all(number_in(name, size) is not None for size in sizes):
            for size in sizes:
                base = without_number(base, size)
        else:
            base = re.sub(r"\d+(\.\d+)?", "#", name)
        found.setdefault(base, []).append(name)
    return {
        label: own
        for base, group in found.items()
        for label, own in (
            ((base.replace("#", "").strip(" ,;/&_-.=:") or base, group),)
            if "#" not in base or (len(group) > 1 and sizes_in_names(group))
            else ((name, [name]) for name in group)
        )
    }


def are_one_sweep(storage: BaseStorage, names: Sequence[str]) -> bool:
    """Whether studies tuned the same values, each at a size of its own, which it names."""
    studies = [_Study(storage, name) for name in names]
    if len({(tuple(s.metrics.items()), tuple(sorted(s.tuned()))) for s in studies}) > 1:
        return False
    if sizes_in_names(names):
        return True
    attributes = [study.attributes() for study in studies]
    sizes = [key for key in attributes[0] if known_name(key) in WORDS["size"]]
    return any(
        None not in (values := [each.get(key) for each in attributes])
        and len(set(values)) == len(values)
        for key in sizes
    )


def name_sizes(storage: BaseStorage, names: Sequence[str]) -> bool:
    """Whether any of these studies has a parameter or an attribute that is called as sizes are."""
    studies = [_Study(storage, name) for name in names]
    known = {known_name(key) for s in studies for key in (*s.attributes(), *s.tuned())}
    return not known.isdisjoint((*WORDS["size"], *WORDS["data"]))


def read_foreign(
    storage: BaseStorage,
    names: Sequence[str],
    *,
    stage: str,
    source: str,
    sizes: Sequence[str] = (),
) -> Found:
    """The trials of one study, or of several that are one sweep; nothing is written.

    Args:
        storage: An open storage.
        names: The studies.
        stage: The stage the runs are given.
        source: What to call the storage.
        sizes: Size columns that were asked for; one alone is the number that names differ in.
    """
    rows: list[dict[str, Any]] = []
    trials: list[FrozenTrial] = []
    metrics: dict[str, bool] = {}
    named = sizes_in_names(names, *(sizes if len(sizes) == 1 else ())) if names[1:] else {}
    for i, name in enumerate(names):
        own = _Study(storage, name)
        metrics.update(own.metrics)
        place = {"study": name} if names[1:] else {}
        in_name = {column: values[i] for column, values in named.items()}
        for trial in own.trials():
            rows.append({**in_name, **own.row(trial, stage), **place})
            trials.append(trial)
    points = _points(trials).assign(metric=next(iter(metrics))) if len(metrics) == 1 else None
    tuned, tuned_notes = _tuned(trials)
    dropped = sorted({k for t in trials for k, v in t.user_attrs.items() if not _is_scalar(v)})
    notes = [f"attributes that are not single values were left out: {', '.join(dropped)}."]
    notes = notes if dropped else []
    origins = {column: f"{values[0]:g} in {names[0]}" for column, values in named.items()}
    origin_words = "".join(f", {column} is {origin}" for column, origin in origins.items())
    notes += [f"{len(names)} studies are read as one sweep{origin_words}"] if names[1:] else []
    return Found(
        table=pd.DataFrame(rows),
        where=source,
        points=points,
        notes=(*notes, *tuned_notes),
        tuned=tuned,
        losses=tuple(metrics) if len(metrics) == 1 else (),
        metrics=tuple(metrics),
        maximised=tuple(name for name, is_maximised in metrics.items() if is_maximised),
        names="study" if names[1:] else None,
        origins=origins,
    )


class _Study:
    """A study of somebody's: what its values are called, and its trials as rows."""

    def __init__(self, storage: BaseStorage, name: str) -> None:
        self._storage = storage
        self._id = storage.get_study_id_from_name(name)
        attributes = storage.get_study_user_attrs(self._id)
        self._attributes = {k: v for k, v in attributes.items() if _is_scalar(v)}
        directions = storage.get_study_directions(self._id)
        called = storage.get_study_system_attrs(self._id).get(METRIC_NAMES)
        if not (isinstance(called, list) and len(set(called)) == len(directions)):
            called = [f"values_{i}" for i in range(len(directions))]
            if len(directions) == 1:
                called = ["value" if directions[0] == StudyDirection.MAXIMIZE else "loss"]
        self.metrics = {
            str(metric): direction == StudyDirection.MAXIMIZE
            for metric, direction in zip(called, directions, strict=True)
        }

    def attributes(self) -> dict[str, Any]:
        """Single values of the study and of its first trial."""
        first = next((trial.user_attrs for trial in self.trials()), {})
        return self._attributes | {k: v for k, v in first.items() if _is_scalar(v)}

    def tuned(self) -> set[str]:
        """The parameters of its trials."""
        return {name for trial in self.trials() for name in trial.params}

    def trials(self) -> list[FrozenTrial]:
        found = self._storage.get_all_trials(self._id, deepcopy=False)
        return [trial for trial in found if trial.state in STATUS]

    def row(self, trial: FrozenTrial, stage: str) -> dict[str, Any]:
        is_complete = trial.state == TrialState.COMPLETE
        values = trial.values if is_complete and trial.values else [math.nan] * len(self.metrics)
        finite = [value if math.isfinite(value) else math.nan for value in values]
        is_lost = is_complete and len(finite) == 1 and math.isnan(finite[0])
        return {
            **self._attributes,
            **{k: v for k, v in trial.user_attrs.items() if _is_scalar(v)},
            **trial.params,
            **dict(zip(self.metrics, finite, strict=True)),
            "status": "diverged" if is_lost else STATUS[trial.state],
            "stage": stage,
        }


def _points(trials: Sequence[FrozenTrial]) -> pd.DataFrame:
    reported = [
        (run, step, loss)
        for run, trial in enumerate(trials)
        for step, loss in trial.intermediate_values.items()
    ]
    return pd.DataFrame(reported, columns=POINTS)


def _tuned(trials: Iterable[FrozenTrial]) -> tuple[tuple[str, ...], list[str]]:
    """Parameters that every trial has as a positive number, and a note on the others."""
    ended = [trial.params for trial in trials if trial.params]
    names = dict.fromkeys(name for params in ended for name in params)
    tuned = tuple(name for name in names if all(_is_positive(p, name) for p in ended))
    others = [
        name for name in names if name not in tuned and known_name(name) not in WORDS["seed"]
    ]
    note = (
        f"{', '.join(others)}: not every trial has a positive number, so not tuned; name a recipe "
        f"column with {argument('conditions', ...)}"
    )
    return tuned, [note] if others else []


def _is_positive(params: Mapping[str, Any], name: str) -> bool:
    value = params.get(name)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
