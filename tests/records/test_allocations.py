"""Allocation studies refuse what cannot be, and name their cells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import AllocationStudy, Recipe, StudySpec, TunedRange, Workload

SPEC = StudySpec(
    name="own",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(batch_size=8),
    sizes={"width": (4, 8)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=3)},
    seeds=(0, 1),
)
STUDY = AllocationStudy(name="a", question="?", study=SPEC, budgets=(1e5, 2e5, 4e5), times=4)


def test_budget_is_split_into_whole_batches() -> None:
    assert STUDY.tokens(6e5, 100, tokens_per_example=1) == 1000
    assert STUDY.tokens(6e5, 99, tokens_per_example=1) == 1008
    assert STUDY.tokens(6e5, 100, tokens_per_example=16) == 8 * 16 * 8
    assert STUDY.tokens(1.0, 100, tokens_per_example=1) == 8
    assert STUDY.target == 1.6e6
    cells = STUDY.cells(4, 1000)
    assert len(cells) == 6
    assert {dict(cell.size)["tokens"] for cell in cells} == {1000}
    assert STUDY.study_named.name == "a"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study": replace(SPEC, sizes={"width": (4,), "tokens": (9,)})}, "one size column"),
        ({"study": replace(SPEC, sizes={"tokens": (9,)})}, "one size column"),
        ({"study": replace(SPEC, tune={})}, "tunes lr alone, got nothing"),
        ({"budgets": (1e5, 2e5)}, "three or more"),
        ({"budgets": (1e5, 4e5, 2e5)}, "ascending"),
        ({"times": 1.0}, "times is above 1"),
        ({"factors": (0.5, 2.0)}, "with 1 among them"),
        ({"check_seeds": (1,)}, "distinct and at least 2"),
    ],
)
def test_impossible_study_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)
