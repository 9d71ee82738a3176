from dataclasses import replace

import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup, ablations, override

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
        ({"none": PLAIN}, "arms must hold at least 2, got none;"),
        ({"none": PLAIN, "same": PLAIN}, "got plain, plain"),
        ({"none": PLAIN, "norm": replace(NORM, sizes={"depth": (1, 2, 3)})}, "got depth"),
        ({"none": PLAIN, "norm": replace(NORM, level=0.9)}, r"0\.95, got width, 0\.9"),
        ({"none": PLAIN, "norm": replace(NORM, sizes={"width": (128,)})}, "common, got 0; use"),
        ({"none": PLAIN, "norm": replace(NORM, seeds=(7, 8))}, "same seeds"),
    ],
)
def test_recipes_that_do_not_belong_together_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(GROUP, arms=changes)


def test_target_is_a_size_of_the_sweep():
    for target in ({"depth": 256}, {"width": 7.9}, {"width": float("inf")}):
        with pytest.raises(ValueError, match=r"got (depth|7|inf)"):
            replace(GROUP, target=target)


def test_group_may_have_one_size_which_is_its_target():
    arms = {"none": PLAIN, "norm": replace(NORM, sizes={"width": (32, 16, 99)})}
    group = RecipeGroup(name="g", question="?", arms=arms)
    assert group.sizes() == ({"width": 16}, {"width": 32})
    assert group.target_size == {"width": 32}
    fewer = replace(group, arms={"none": PLAIN, "norm": replace(NORM, sizes={"width": (8,)})})
    assert fewer.target_size == {"width": 8}  # a target that was left out follows the sizes
    assert replace(fewer, target={"width": 512}).target == {"width": 512}
    with pytest.raises(ValueError, match=r"3 or more .* got 2;"):
        replace(group, check_target=True)


RECIPE = Recipe(steps=640, batch_size=4)
SMALL = replace(PLAIN, name="small", recipe=RECIPE, sizes={"width": (64,)})
GROWN = replace(RECIPE, schedule="steps", drops=(0.5,), decay_by="batch", drop_factor=4)


def test_ablations_change_the_recipe_of_one_sweep_or_are_whole_sweeps():
    large = replace(SMALL, name="big", recipe=Recipe(steps=20, batch_size=128))
    treated = {"Batch grown, × 4": GROWN, "large": large}
    group = ablations(SMALL, treated, plain_name="as it was")
    assert list(group.arms) == ["as it was", "Batch grown, × 4", "large"]
    assert group.plain is SMALL
    assert group.arms["large"] is large
    assert group.arms["Batch grown, × 4"] == replace(
        SMALL, name="small-batch-grown-4", recipe=GROWN
    )
    assert (group.name, group.target_size) == ("ablations", {"width": 64})
    study = ComparisonStudy(name="c", question="?", groups=(group,))
    (wider,) = override(study, ["sizes.width=512"]).groups
    assert wider.target_size == {"width": 512}


def test_arms_of_ablations_see_equally_many_examples():
    one_short = replace(RECIPE, steps=639)
    assert len(ablations(SMALL, {"shorter": one_short}).arms) == 2
    few = replace(RECIPE, steps=600)
    with pytest.raises(ValueError, match=r"2560, .* 2400"):
        ablations(SMALL, {"few": few})
    by_size = replace(SMALL, sizes={"tokens": (4096,)})  # it sets the length, not the recipe
    assert len(ablations(by_size, {"few": few}).arms) == 2


@pytest.mark.parametrize(
    ("treated", "options", "words"),
    [
        ({}, {}, "at least 2, got plain;"),
        ({"plain": GROWN}, {}, "plain_name .* got 'plain'"),
        ({"a b": GROWN, "a, b": GROWN}, {}, "got small, small-a-b, small-a-b"),
        ({"grown": GROWN}, {"reference": "plain"}, "one of grown, got 'plain'"),
        ({"grown": GROWN}, {"reference": "ghosts"}, "one of grown, got 'ghosts'"),
        ({"grown": GROWN}, {"target": {"width": 63}}, "got 63;"),
    ],
)
def test_impossible_ablations_say_what_is_wrong(treated, options, words):
    with pytest.raises(ValueError, match=words):
        replace(ablations(SMALL, treated), **options)


def test_sweeps_that_groups_share_are_listed_once():
    other = replace(GROUP, name="again", arms={"none": PLAIN, "n2": replace(NORM, name="n2")})
    study = ComparisonStudy(name="c", question="?", groups=(GROUP, other))
    assert [spec.name for spec in study.arms()] == ["plain", "norm", "n2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": ()}, r"groups .* got \(\)"),
        ({"groups": (GROUP, GROUP)}, "got norms, norms"),
        ({"price": 0.0}, r"price .* got 0;"),
        ({"flops_per_second": float("nan")}, "flops_per_second .* nan"),
        ({"groups": (GROUP, OTHER)}, "different names, got plain"),
    ],
)
def test_impossible_comparison_says_what_is_wrong(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)
