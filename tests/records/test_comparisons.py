from dataclasses import replace

import pytest

from extrap import StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup

PLAIN = StudySpec(
    name="plain",
    question="?",
    workload=Workload(name="mine.py:Net"),
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)},
)
NORM = replace(PLAIN, name="norm", workload=Workload(name="mine.py:Norm"))
GROUP = RecipeGroup(
    name="norms", question="Better?", arms={"none": PLAIN, "norm": NORM}, target={"width": 256}
)
STUDY = ComparisonStudy(name="c", question="?", groups=(GROUP,))
OTHER = replace(GROUP, name="again", arms={"none": replace(PLAIN, seeds=(0,)), "norm": NORM})


def test_first_recipe_is_the_plain_one_and_sizes_are_those_in_common():
    assert GROUP.plain is PLAIN
    fewer = replace(NORM, sizes={"width": (16, 32, 64, 128)})
    group = replace(GROUP, arms={"none": PLAIN, "norm": fewer})
    assert group.sizes() == ({"width": 16}, {"width": 32}, {"width": 64})
    assert replace(GROUP, target={"width": 8}).target == {"width": 8}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"none": PLAIN}, "got none;"),
        ({"none": PLAIN, "same": PLAIN}, "got plain, plain"),
        ({"none": PLAIN, "norm": replace(NORM, sizes={"depth": (1, 2, 3)})}, r"\['depth'\]"),
        ({"none": PLAIN, "norm": replace(NORM, level=0.9)}, r"level, got 0\.9"),
        ({"none": PLAIN, "norm": replace(NORM, sizes={"width": (8, 16, 128)})}, "got 2;"),
        ({"none": PLAIN, "norm": replace(NORM, seeds=(7, 8))}, "same seeds"),
    ],
)
def test_recipes_that_do_not_belong_together_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(GROUP, arms=changes)


def test_target_is_a_size_of_the_sweep():
    for target in ({"depth": 256}, {}, {"width": 7.9}, {"width": float("inf")}):
        with pytest.raises(ValueError, match=r"got (depth|none|7|inf)"):
            replace(GROUP, target=target)


def test_sweeps_that_groups_share_are_listed_once():
    other = replace(GROUP, name="again", arms={"none": PLAIN, "n2": replace(NORM, name="n2")})
    study = ComparisonStudy(name="c", question="?", groups=(GROUP, other))
    assert [spec.name for spec in study.arms()] == ["plain", "norm", "n2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": ()}, r"names, got \[\]"),
        ({"groups": (GROUP, GROUP)}, "'norms', 'norms'"),
        ({"price": 0.0}, r"price .* got 0\.0"),
        ({"flops_per_second": float("nan")}, "flops_per_second .* nan"),
        ({"groups": (GROUP, OTHER)}, "called 'plain'"),
    ],
)
def test_impossible_comparison_says_what_is_wrong(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)
