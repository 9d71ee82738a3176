"""Comparison studies as plain data: what belongs together, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extrap import StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup

PLAIN = StudySpec(
    name="plain",
    question="?",
    workload=Workload(name="digits"),
    sizes={"width": (8, 16, 32, 64)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)},
)
NORM = replace(PLAIN, name="norm", workload=Workload(name="digits", options={"norm": "batch"}))
GROUP = RecipeGroup(
    name="norms", question="Better?", arms={"none": PLAIN, "norm": NORM}, target={"width": 256}
)


def test_first_recipe_is_the_plain_one_and_sizes_are_those_in_common() -> None:
    assert GROUP.plain is PLAIN
    fewer = replace(NORM, sizes={"width": (16, 32, 64, 128)})
    group = replace(GROUP, arms={"none": PLAIN, "norm": fewer})
    assert group.sizes() == ({"width": 16}, {"width": 32}, {"width": 64})


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({"none": PLAIN}, "at least two recipes.*got none"),
        ({"none": PLAIN, "same": PLAIN}, "different names, got plain, plain"),
        (
            {"none": PLAIN, "norm": replace(NORM, sizes={"depth": (1, 2, 3)})},
            r"same size columns, got \['depth'\] for 'norm'",
        ),
        ({"none": PLAIN, "norm": replace(NORM, level=0.9)}, "same level, got 0.9"),
        (
            {"none": PLAIN, "norm": replace(NORM, sizes={"width": (8, 16, 128)})},
            "three sizes at least, the same in all of them, got 2",
        ),
        ({"none": PLAIN, "norm": replace(NORM, seeds=(7, 8))}, "paired by seed"),
    ],
)
def test_recipes_that_do_not_belong_together_are_refused(
    arms: dict[str, StudySpec], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GROUP, arms=arms)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"depth": 256}, "names the size columns width, got depth"),
        ({}, "got none"),
        ({"width": 4}, "below the smallest tuned width, 8, got 4"),
        ({"width": float("inf")}, "got inf"),
    ],
)
def test_target_is_a_size_of_the_sweep(target: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GROUP, target=target)


def test_sweeps_that_groups_share_are_listed_once() -> None:
    other = replace(GROUP, name="again", arms={"none": PLAIN, "n2": replace(NORM, name="n2")})
    study = ComparisonStudy(name="c", question="?", groups=(GROUP, other))
    assert [spec.name for spec in study.arms()] == ["plain", "norm", "n2"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ()}, r"groups of different names, got \[\]"),
        ({"groups": (GROUP, GROUP)}, "groups of different names"),
        ({"price": 0.0}, "price is a positive number or None, got 0.0"),
        ({"flops_per_second": float("nan")}, "flops_per_second is a positive"),
        (
            {
                "groups": (
                    GROUP,
                    replace(
                        GROUP,
                        name="again",
                        arms={"none": replace(PLAIN, seeds=(0,)), "norm": NORM},
                    ),
                )
            },
            "two different sweeps are called 'plain'",
        ),
    ],
)
def test_impossible_comparison_says_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    study = ComparisonStudy(name="c", question="?", groups=(GROUP,))
    with pytest.raises(ValueError, match=message):
        replace(study, **changes)
