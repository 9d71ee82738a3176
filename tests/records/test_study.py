import math
from dataclasses import MISSING, fields, replace

import pytest

from extrap.records import (
    AllocationStudy,
    BatchStudy,
    Cell,
    ComparisonStudy,
    StudySpec,
    Target,
    TunedRange,
    Workload,
)

KINDS = (
    *(AllocationStudy, BatchStudy, ComparisonStudy),
    StudySpec,
)
SPEC = StudySpec(
    name="s",
    question="?",
    workload=Workload(name="w"),
    sizes={"width": (16, 8)},
    tune={"lr": TunedRange(low=0.1, high=1.6, n=3)},
    seeds=(0, 1),
)


@pytest.mark.parametrize("sampler", ["grid", "law", "tpe", "gp"])
def test_a_study_may_name_each_sampler_and_lie_at_its_bounds(sampler):
    targets = (Target(size={"width": 8}),)
    made = replace(SPEC, sampler=sampler, growth=0, seeds=(3,), target_seeds=(3,), targets=targets)
    assert (made.sampler, made.growth, made.targets) == (sampler, 0, targets)
    for wrong in ({"targets": (Target(size={"width": 7.5}),)}, {"target_seeds": (1, 1)}):
        with pytest.raises(ValueError, match=r"7|target_seeds"):
            replace(made, **wrong)


def test_a_grid_is_geometric_and_goes_on_beyond_its_ends():
    rates = SPEC.tune["lr"]
    assert rates.values() == (0.1, 0.4, 1.6)
    assert (rates.value(-1), rates.value(3)) == (0.025, 6.4)
    assert [rates.index(v) for v in (0.1, 0.2, 6.4)] == pytest.approx([0, 0.5, 3], abs=1e-12)
    cells = SPEC.grid_cells()
    assert [(dict(c.size)["width"], dict(c.tuned)["lr"], c.seed) for c in cells] == [
        (width, lr, seed) for width in (8, 16) for lr in (0.1, 0.4, 1.6) for seed in (0, 1)
    ]
    assert Cell.of({"w": 1 / 3}, {}, 1.0) == Cell((("w", 0.333333333333),), (), 1)
    for wrong in ({"low": 0.0}, {"low": 1.6}, {"high": math.inf}, {"n": 1}):
        with pytest.raises(ValueError, match=r"low|high|n must"):
            replace(rates, **wrong)
    assert replace(rates, n=2).values() == (0.1, 1.6)


def test_numbers_among_the_given_options_are_conditions():
    options = {"depth": 12, "dropout": 0.1, "tied": True, "corpus": "texts", "width": 3}
    spec = replace(SPEC, workload=Workload(name="w", options=options))
    added = spec.conditions().items() - SPEC.conditions().items()
    assert added == {("depth", 12), ("dropout", 0.1), ("tied", True)}
    spec = replace(SPEC, workload=Workload(name="w", options={"steps": 3}))
    assert spec.conditions()["steps"] == spec.recipe.steps  # the recipe is no option
    own = StudySpec(name="o", question="?", sizes=SPEC.sizes, tune=SPEC.tune)
    assert own.conditions() == {"workload": "own"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", "...", "../a", "a b", "a\n"])
def test_a_name_that_is_none_of_a_file_is_refused(kind, name):
    given = {field.name: None for field in fields(kind) if field.default is MISSING}
    with pytest.raises(ValueError, match="'my-study'"):
        kind(**{**given, "name": name})
