from __future__ import annotations

import pytest

from extrap.records import StudySpec, TunedRange, Workload


def spec_of(sampler: str) -> StudySpec:
    return StudySpec(
        name="s",
        question="?",
        workload=Workload(name="w"),
        sizes={"width": (8, 16)},
        tune={"lr": TunedRange(low=0.1, high=1, n=3)},
        sampler=sampler,
    )


@pytest.mark.parametrize("sampler", ["grid", "law", "tpe", "gp"])
def test_a_study_may_name_each_sampler(sampler: str) -> None:
    assert spec_of(sampler).sampler == sampler


def test_an_unknown_sampler_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"one of grid, law, tpe, gp, got 'random'"):
        spec_of("random")
