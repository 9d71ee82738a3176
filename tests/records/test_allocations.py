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


def test_budget_is_split_into_whole_batches():
    assert STUDY.tokens(6e5, 100, tokens_per_example=1) == 1000
    assert STUDY.tokens(6e5, 99, tokens_per_example=1) == 1008
    assert STUDY.tokens(6e5, 100, tokens_per_example=16) == 8 * 16 * 8
    assert STUDY.tokens(1.0, 100, tokens_per_example=1) == 8
    assert (STUDY.target, STUDY.column, STUDY.study_named.name) == (1.6e6, "width", "a")
    cells = STUDY.cells(4, 1000)
    assert [(dict(cell.tuned)["lr"], cell.seed) for cell in cells] == [
        *((0.01, 0), (0.01, 1), (0.02, 0), (0.02, 1), (0.04, 0), (0.04, 1))
    ]
    assert {cell.size for cell in cells} == {(("width", 4.0), ("tokens", 1000.0))}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study": replace(SPEC, sizes={"width": (4,), "tokens": (9,)})}, "got width, tokens"),
        ({"study": replace(SPEC, sizes={"tokens": (9,)})}, "got tokens"),
        ({"study": replace(SPEC, tune={})}, "got none"),
        ({"budgets": (1e5, 4e5, 2e5)}, "400000.0, 200000.0"),
        ({"budgets": (1e5, 1e5, 2e5)}, "100000.0, 100000.0"),
        ({"check_seeds": (1,)}, r"\(1,\)"),
        ({"check_seeds": (1, 2, 2)}, r"\(1, 2, 2\)"),
    ],
)
def test_impossible_study_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)
    replace(STUDY, budgets=(0.5, 1.0, 2.0), times=1.01, factors=(1.0,), check_seeds=(1, 2))
