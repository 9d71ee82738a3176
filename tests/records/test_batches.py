from dataclasses import replace

import pytest

from extrap.records import BatchStudy, BatchTask, Recipe, StudySpec, TunedRange, Workload

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


def task(**changes):
    return BatchTask(**{"study": STUDY, "steps": STEPS, "targets": (0.5,), **changes})


def test_rates_move_with_the_batch():
    made = task(reference_batch=16)
    assert [made.rate(16, i) for i in range(-1, 4)] == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert made.rate(64, 0) == 0.02
    assert task(reference_batch=16, rate_exponent=1.0).rate(4, 0) == 0.0025
    assert task().reference == 16  # the middle one
    assert task(steps={**STEPS, 256: 20}).reference == 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study": replace(STUDY, tune={})}, "got none"),
        ({"study": replace(STUDY, sizes={"width": (4,), "tokens": (9,)})}, "got width, tokens"),
        ({"steps": {0: 4, 1: 4, 2: 4}}, "key of steps .* got 0"),
        ({"steps": {1: 4, 2: 4}}, "at least 3, got 1, 2"),
        ({"targets": (float("inf"),)}, r"targets\.0 .* got inf"),
    ],
)
def test_impossible_tasks_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        task(**changes)
    task(steps={1: 1, 2: 1, 3: 1}, noise_batch=3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": ()}, r"got \(\)"),
        ({"tasks": (task(), task())}, "got made, made"),
        ({"level": 1.0}, "level .* got 1"),
        ({"level": 0.0}, "level .* got 0"),
        ({"overhead": 0.0}, "overhead .* got 0"),
    ],
)
def test_impossible_studies_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        BatchStudy(**{"name": "a", "question": "?", "tasks": (task(),), **changes})
