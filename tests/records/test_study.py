from __future__ import annotations

import math
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np
import pytest

from extrap.records import (
    AllocationStudy,
    BatchStudy,
    CascadeStudy,
    Cell,
    ComparisonStudy,
    KnobStudy,
    LeverStudy,
    RunResult,
    StudySpec,
    TunedRange,
    Workload,
)

KINDS = (
    AllocationStudy,
    BatchStudy,
    CascadeStudy,
    ComparisonStudy,
    KnobStudy,
    LeverStudy,
    StudySpec,
)


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


def test_numbers_among_the_given_options_are_conditions() -> None:
    options = {"depth": 12, "dropout": 0.1, "tied": True, "corpus": "texts", "width": 3}
    spec = replace(spec_of("grid"), workload=Workload(name="w", options=options))
    added = spec.conditions().items() - spec_of("grid").conditions().items()
    assert added == {("depth", 12), ("dropout", 0.1), ("tied", True)}


def test_the_recipe_is_no_option_of_the_workload() -> None:
    spec = replace(spec_of("grid"), workload=Workload(name="w", options={"steps": 3}))
    assert spec.conditions()["steps"] == spec.recipe.steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", ".", "..", "...", "a/b", "../a", "a b", "a\n"])
def test_a_name_that_is_none_of_a_file_is_refused(kind: Any, name: str) -> None:
    given = {field.name: None for field in fields(kind) if field.default is MISSING}
    with pytest.raises(ValueError, match="a study's name holds letters"):
        kind(**{**given, "name": name})


@pytest.mark.parametrize("name", ["a", "a.b", "..a", "1", "muP-2_x", "größe"])
def test_a_name_of_a_file_will_do(name: str) -> None:
    assert replace(spec_of("grid"), name=name).name == name


@pytest.mark.parametrize(
    ("status", "loss", "message"),
    [
        ("ok", 1.0, "status must be one of complete, diverged, pruned, got 'ok'"),
        ("complete", None, "must be a positive number, got None"),
        ("complete", -1.0, "Give a loss, not a score"),
        ("complete", math.nan, "must be a positive number, got nan"),
        ("diverged", 2.0, "a run that is diverged has no final loss, got 2.0"),
    ],
)
def test_an_impossible_result_says_what_is_wrong(
    status: str, loss: float | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RunResult(cell=Cell.of({}, {}, 0), status=status, loss=loss)


def test_a_loss_may_be_any_real_number() -> None:
    for loss in (1, 1.0, np.float32(1.0)):
        assert RunResult(cell=Cell.of({}, {}, 0), status="complete", loss=loss).loss == 1
