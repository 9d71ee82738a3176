"""Our own training along a path of the size."""

from dataclasses import replace

import pytest

from extrap.records import Recipe, StudySpec, TunedRange, Workload
from extrap.study import tune

SPEC = StudySpec(
    name="path_inputs",
    question="?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 64},
    ),
    recipe=Recipe(steps=10, batch_size=8, n_evals=2),
    growth=0,
    sizes={"depth": (1, 2)},
    tune={"lr": TunedRange(low=2**-4, high=2**-2, n=2)},
    seeds=(0,),
    path={"width": "4 * depth"},
)


def same_as_by_hand(runs, by_hand, tmp_path, name):
    expected = tune(by_hand, f"sqlite:///{tmp_path}/{name}.db").to_frame()
    frame = runs.to_frame()  # type: ignore[attr-defined]
    rows = frame[frame["depth"] == 2]
    assert list(rows["loss"]) == list(expected["loss"])
    assert list(rows["n_params"]) == list(expected["n_params"])


def test_a_path_sets_the_width_and_the_runs_are_those_of_that_width(url, tmp_path):
    runs = tune(SPEC, url)
    assert list(runs.to_frame()["depth"]) == [1, 1, 2, 2]
    by_hand = replace(SPEC, sizes={"depth": (2,), "width": (8,)}, path={})
    same_as_by_hand(runs, by_hand, tmp_path, "hand")


def test_a_size_that_the_model_does_not_know_is_left_out(url, tmp_path):
    runs = tune(replace(SPEC, sizes={"scale": (2,)}, path={"width": "4 * scale"}), url)
    by_hand = replace(SPEC, sizes={"width": (8,)}, path={})
    expected = tune(by_hand, f"sqlite:///{tmp_path}/hand.db").to_frame()
    assert list(runs.to_frame()["loss"]) == list(expected["loss"])


def test_length_batch_and_rate_may_follow_from_the_size(url, tmp_path):
    path = {"width": "4 * depth", "batch_size": "4 * depth", "steps": "10 * depth"}
    spec = replace(SPEC, path={**path, "weight_decay": "0.01 * depth"})
    runs = tune(spec, url)
    assert set(runs.conditions).isdisjoint({"batch_size", "steps", "weight_decay"})
    recipe = replace(SPEC.recipe, batch_size=8, steps=20, weight_decay=0.02)
    by_hand = replace(SPEC, sizes={"depth": (2,), "width": (8,)}, path={}, recipe=recipe)
    same_as_by_hand(runs, by_hand, tmp_path, "hand")


def test_a_rate_that_is_not_tuned_may_be_on_the_path(url, tmp_path):
    decay = {"momentum": TunedRange(low=0.5, high=0.9, n=2)}
    sgd = replace(SPEC.recipe, optimizer="sgd")
    spec = replace(SPEC, recipe=sgd, tune=decay, path={**SPEC.path, "lr": "0.2 / depth"})
    frame = tune(spec, url).to_frame()
    rates = {"lr": TunedRange(low=0.1, high=0.2, n=2), **decay}
    other = replace(SPEC, recipe=sgd, tune=rates, sizes={"depth": (2,), "width": (8,)}, path={})
    expected = tune(other, f"sqlite:///{tmp_path}/hand.db").to_frame()
    expected = expected[expected["lr"] == 0.1]
    losses = frame[frame["depth"] == 2]["loss"]
    assert list(losses) == pytest.approx(list(expected["loss"]), rel=1e-6)  # of another pack


def test_what_cannot_be_trained_as_the_path_says_is_refused(url):
    with pytest.raises(ValueError, match=r"round\(5 \* sqrt"):
        tune(replace(SPEC, path={**SPEC.path, "batch_size": "5 * sqrt(depth)"}), url)
    with pytest.raises(ValueError, match="sizes of bytes-mlp"):
        tune(replace(SPEC, path={**SPEC.path, "height": "3"}), url)
