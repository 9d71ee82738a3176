from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from extrap.records import TUNABLE, Recipe, StudySpec, TunedRange, Workload
from extrap.records.recipe import SPARSE_ONLY, STEPS_ONLY


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
        ({"decay_by": "both"}, "decay_by must be one of rate, batch"),
        ({"schedule": "steps", "drops": ()}, "rising fractions of the examples"),
        ({"schedule": "steps", "drops": (0.5, 0.5)}, "rising fractions of the examples"),
        ({"schedule": "steps", "drops": (0.5, 1.0)}, "rising fractions of the examples"),
        ({"schedule": "steps", "warmup": 0.6}, "rising fractions of the examples"),
        ({"schedule": "steps", "drop_factor": 1.0}, "drop_factor must be above 1, got 1"),
        ({"density": 0.0}, r"density is the share that is kept, in \(0, 1\], got 0.0"),
        ({"activation_density": 90}, "activation_density is the share that is kept"),
        ({"sparsify": 1.5}, r"sparsify is a fraction of the updates in \[0, 1\], got 1.5"),
        ({"mask_every": 0}, "mask_every must be at least 1"),
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
        ({}, {"momentum", "nesterov", "base_width", *STEPS_ONLY, *SPARSE_ONLY}),
        ({"optimizer": "sgd"}, {"beta1", "beta2", "eps", "base_width", *STEPS_ONLY, *SPARSE_ONLY}),
        ({"optimizer": "muon", "parametrization": "mup"}, {*STEPS_ONLY, *SPARSE_ONLY}),
        (
            {"schedule": "cosine"},
            {"momentum", "nesterov", "base_width", "decay", *STEPS_ONLY, *SPARSE_ONLY},
        ),
        ({"schedule": "steps"}, {"momentum", "nesterov", "base_width", "decay", *SPARSE_ONLY}),
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


GROWN = Recipe(
    steps=160, batch_size=32, schedule="steps", drops=(0.5, 0.75), drop_factor=4, decay_by="batch"
)


def test_batch_grows_where_the_rate_would_fall_and_sees_the_same_examples() -> None:
    falls = replace(GROWN, decay_by="rate")
    assert GROWN.phases() == ((80, 32, 1.0), (10, 128, 1.0), (2, 512, 1.0))  # 2.5 is no number
    assert falls.phases() == ((80, 32, 1.0), (40, 32, 0.25), (40, 32, 0.0625))
    assert (falls.n_updates, falls.n_examples, falls.largest_from) == (160, 5120, 0)
    assert (GROWN.n_updates, GROWN.n_examples, GROWN.largest_from) == (92, 4864, 90)
    even = replace(GROWN, steps=128)
    assert (even.n_updates, even.n_examples) == (64 + 8 + 2, 128 * 32)
    assert [even.batch_at(u) for u in (0, 63, 64, 71, 72, 73, 99)] == [32] * 2 + [128] * 2 + [
        512
    ] * 3


@pytest.mark.parametrize("schedule", ["constant", "wsd"])
def test_fields_of_steps_do_nothing_elsewhere(schedule: str) -> None:
    recipe = replace(GROWN, schedule=schedule)
    assert recipe.phases() == ((160, 32, 1.0),)
    assert (recipe.n_updates, recipe.n_examples, recipe.largest_from) == (160, 5120, 0)


def test_drops_are_one_condition_and_survive_json() -> None:
    spec = StudySpec(
        name="a",
        question="?",
        workload=Workload(name="teacher"),
        recipe=GROWN,
        sizes={"width": (4,)},
        tune={"lr": TunedRange(low=0.01, high=0.1, n=2)},
    )
    assert spec.conditions()["drops"] == "0.5 0.75"
    assert Recipe(**json.loads(json.dumps(asdict(GROWN)))) == GROWN


def test_densities_are_conditions_of_sparse_training_alone() -> None:
    assert not {*SPARSE_ONLY} & {*Recipe(sparsify=0.5, mask_every=3).in_use()}
    assert {*SPARSE_ONLY} <= {*Recipe(density=0.5).in_use()}
    activations = {*Recipe(activation_density=0.5).in_use()}
    assert {"density", "activation_density"} <= activations
    assert not {"sparsify", "mask_every"} & activations


def test_density_falls_steeply_at_first_and_is_a_mean_over_the_updates() -> None:
    recipe = Recipe(steps=100, density=0.1, sparsify=0.5, mask_every=1)
    found = [recipe.density_at(u) for u in (0, 10, 25, 50, 99, 100)]
    expected = [1.0, 0.1 + 0.9 * 0.8**3, 0.1 + 0.9 / 8, 0.1, 0.1, 0.1]
    assert found == pytest.approx(expected)
    mean = sum(recipe.density_at(u) for u in range(100)) / 100
    assert recipe.mean_density == pytest.approx(mean)
    rarely = replace(recipe, mask_every=50)
    assert rarely.mean_density == pytest.approx((50 * 1.0 + 50 * 0.1) / 100)
    assert Recipe(density=0.3).mean_density == pytest.approx(0.3)
    assert Recipe().mean_density == 1.0
