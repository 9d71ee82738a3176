import math
from dataclasses import asdict, replace

import pytest

from extrap.records import TUNABLE, Recipe


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clip": math.nan}, "clip .* got nan"),
        ({"eps": -1e-9}, "eps .* got -1e-09"),
        ({"warmup": 0.6, "decay": 0.5}, r"warmup=0\.6, decay=0\.5"),
        ({"decay": -0.1}, r"decay .* got -0\.1"),
        ({"decay": 1.1, "schedule": "cosine"}, r"decay .* got 1\.1"),
        ({"schedule": "cosine", "warmup": 1.0}, "warmup .* got 1;"),
        ({"schedule": "steps", "drops": (0.0, 0.5)}, r"got 0\.0, 0\.5, warmup="),
        ({"schedule": "steps", "drops": ()}, "got warmup="),
        ({"schedule": "steps", "warmup": 0.6}, r"got 0\.5, 0\.75, warmup="),
        ({"schedule": "steps", "drop_factor": 1.0}, "drop_factor .* got 1;"),
    ],
)
def test_an_impossible_recipe_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Recipe(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 1, "batch_size": 1, "n_evals": 1, "base_width": 1},
        {"momentum": 0.0, "beta1": 0.0, "beta2": 0.0, "eps": 0.0, "init_scale": 0.0},
        {"warmup": 0.5, "decay": 0.5},
        {"warmup": 0.0, "decay": 1.0},
        {"schedule": "cosine", "warmup": 0.6},  # whose decay of 0.5 is not looked at
        {"schedule": "steps", "warmup": 0.5, "drops": [0.5], "drop_factor": 1.01},
        {"noise_every": 1},
    ],
)
def test_a_recipe_at_its_bounds_is_one(changes):
    made = asdict(Recipe(**changes))
    assert {name: made[name] for name in changes} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()
    }


def test_tuned_values_and_data_size_make_the_recipe_of_a_run():
    recipe = Recipe(steps=7, batch_size=32)
    tuned = {"lr": 0.1, "batch_size": 16.0, "clip": 1.0}
    run = recipe.with_values({"width": 8, "tokens": 6400}, tuned, tokens_per_example=10)
    assert (run.steps, run.batch_size, run.clip) == (40, 16, 1.0)
    assert isinstance(run.batch_size, int)
    assert recipe.with_values({}, {"lr": 0.1}, tokens_per_example=10) == recipe
    assert recipe.with_values({}, {"steps": 9.0}, tokens_per_example=10).steps == 9
    assert recipe.with_values({"tokens": 1}, {}, tokens_per_example=10).steps == 1
    with pytest.raises(ValueError, match="got width"):
        recipe.with_values({}, {"width": 3}, tokens_per_example=10)
    values = {name: 1 if name == "batch_size" else 0.25 for name in TUNABLE}
    run = Recipe().with_values({}, values, tokens_per_example=1)
    assert all(getattr(run, name) == value for name, value in values.items())
    assert recipe.allows("own", -1.0)
    assert recipe.allows("clip", 1.0)
    assert not recipe.allows("clip", -1.0)


GROWN = Recipe(
    steps=160, batch_size=32, schedule="steps", drops=(0.5, 0.75), drop_factor=4, decay_by="batch"
)


def test_batch_grows_where_the_rate_would_fall_and_sees_the_same_examples():
    falls = replace(GROWN, decay_by="rate")
    assert GROWN.phases() == ((80, 32, 1.0), (10, 128, 1.0), (2, 512, 1.0))  # 2.5 is no number
    assert falls.phases() == ((80, 32, 1.0), (40, 32, 0.25), (40, 32, 0.0625))
    assert (falls.n_updates, falls.n_examples, falls.largest_from) == (160, 5120, 0)
    assert (GROWN.n_updates, GROWN.n_examples, GROWN.largest_from) == (92, 4864, 90)
    even = replace(GROWN, steps=128)
    assert (even.n_updates, even.n_examples) == (64 + 8 + 2, 128 * 32)
    sizes = [even.phase_at(update).batch_size for update in (0, 63, 64, 71, 72, 73, 99)]
    assert sizes == [32, 32, 128, 128, 512, 512, 512]
    assert falls.phase_at(80).rate == 0.25
    short = replace(GROWN, steps=2)  # a phase of half an update rounds to none
    assert short.phases() == ((1, 32, 1.0), (1, 128, 1.0))
    for schedule in ("constant", "wsd"):
        recipe = replace(GROWN, schedule=schedule)
        assert recipe.phases() == ((160, 32, 1.0),)
        assert (recipe.n_updates, recipe.n_examples, recipe.largest_from) == (160, 5120, 0)
