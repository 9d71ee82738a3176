from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extrap.records import BatchStudy, BatchTask, Cell, Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="made",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(n_evals=10),
    sizes={"width": (4, 8)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=3)},
    seeds=(0, 1),
)
STEPS = {4: 400, 16: 100, 64: 50}


def task(**changes: Any) -> BatchTask:
    return BatchTask(**{"study": STUDY, "steps": STEPS, "targets": (0.5,), **changes})


def test_rates_move_with_the_batch() -> None:
    made = task(reference_batch=16)
    assert [made.rate(16, i) for i in range(-1, 4)] == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert made.rate(64, 0) == 0.02
    assert task(reference_batch=16, rate_exponent=1.0).rate(4, 0) == 0.0025


def test_reference_is_the_middle_batch_by_default() -> None:
    assert task().reference == 16


def test_every_run_has_its_batch_and_length() -> None:
    cells = task().cells({"width": 4}, {64: [1], 4: [0]}, seeds=[7])
    assert cells == (
        Cell.of({"width": 4}, {"lr": 0.04, "batch_size": 64, "steps": 50}, 7),
        Cell.of({"width": 4}, {"lr": 0.005, "batch_size": 4, "steps": 400}, 7),
    )
    recipe = task().spec().recipe.with_values({}, dict(cells[0].tuned), tokens_per_example=1)
    assert (recipe.batch_size, recipe.steps) == (64, 50)
    assert not {"lr", "batch_size", "steps"} & set(task().spec().conditions())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study": replace(STUDY, tune={})}, "tunes lr"),
        ({"study": replace(STUDY, sizes={"width": (4,), "tokens": (9,)})}, "tokens"),
        ({"steps": {0: 4, 1: 4, 2: 4}}, "1 or more"),
        ({"steps": {1: 4, 2: 4}}, "at least 3"),
        ({"held_out": (4,)}, "at least 3"),
        ({"targets": ()}, "positive losses"),
        ({"targets": (0.0,)}, "positive losses"),
        ({"noise_batch": 5}, r"\[5\] without steps"),
        ({"at": {"depth": 4}}, "size columns"),
    ],
)
def test_impossible_tasks_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        task(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": ()}, "names differ"),
        ({"tasks": (task(), task())}, "names differ"),
        ({"level": 95.0}, "level"),
        ({"overhead": 0.0}, "overhead"),
    ],
)
def test_impossible_studies_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BatchStudy(**{"name": "a", "question": "?", "tasks": (task(),), **changes})
