from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import TUNABLE, Recipe, StudySpec, TunedRange, Workload


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"optimizer": "adagrad"}, "optimizer must be one of sgd, adam"),
        ({"schedule": "step"}, "schedule must be one of"),
        ({"parametrization": "ntk"}, "parametrization must be one of standard, mup"),
        ({"precision": "fp8"}, "precision must be one of"),
        ({"beta2": 1.0}, r"beta2 must lie in \[0, 1\)"),
        ({"momentum": -0.1}, "momentum must lie in"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and not below 0"),
        ({"clip": float("nan")}, "clip must be finite"),
        ({"warmup": 0.6, "decay": 0.5}, "fit into 1"),
        ({"schedule": "cosine", "warmup": 1.0}, "fit into 1"),
    ],
)
def test_an_impossible_recipe_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**changes)


def test_decay_counts_only_where_it_is_used() -> None:
    assert Recipe(schedule="cosine", warmup=0.6).decay == 0.5


def test_tuned_values_and_data_size_make_the_recipe_of_a_run() -> None:
    recipe = Recipe(steps=7, batch_size=32)
    run = recipe.with_values(
        {"width": 8, "tokens": 6400}, {"lr": 0.1, "batch_size": 16.0, "clip": 1.0},
        tokens_per_example=10,
    )  # fmt: skip
    assert (run.steps, run.batch_size, run.clip) == (40, 16, 1.0)
    assert isinstance(run.batch_size, int)
    assert recipe.with_values({}, {"lr": 0.1}, tokens_per_example=10) == recipe


def test_a_run_has_at_least_one_step() -> None:
    run = Recipe().with_values({"tokens": 1}, {}, tokens_per_example=10)
    assert run.steps == 1


def test_every_tunable_name_is_a_field() -> None:
    values = {name: 1 if name == "batch_size" else 0.25 for name in TUNABLE}
    run = Recipe().with_values({}, values, tokens_per_example=1)
    assert all(getattr(run, name) == value for name, value in values.items())


@pytest.mark.parametrize(
    ("changes", "idle"),
    [
        ({}, {"momentum", "nesterov", "base_width"}),
        ({"optimizer": "sgd"}, {"beta1", "beta2", "eps", "base_width"}),
        ({"optimizer": "muon", "parametrization": "mup"}, set()),
        ({"schedule": "cosine"}, {"momentum", "nesterov", "base_width", "decay"}),
    ],
)
def test_only_fields_that_matter_are_conditions(changes: dict, idle: set[str]) -> None:
    recipe = Recipe(**changes)
    assert set(Recipe.__slots__) - set(recipe.in_use()) == idle | {"noise_every"}
    assert "noise_every" in replace(recipe, noise_every=5).in_use()


def test_what_is_tuned_or_set_by_the_data_size_is_no_condition() -> None:
    spec = StudySpec(
        name="a",
        question="?",
        workload=Workload(name="teacher"),
        sizes={"width": (4, 8), "tokens": (100, 200)},
        tune={
            "lr": TunedRange(low=0.01, high=0.1, n=2),
            "batch_size": TunedRange(low=4, high=8, n=2),
        },
    )
    assert not {"steps", "batch_size", "lr"} & set(spec.conditions())
