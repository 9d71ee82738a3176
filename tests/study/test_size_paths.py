"""Our own training along a path of the size."""

from dataclasses import replace

import pytest

from extrap.records import Recipe, TunedRange
from extrap.study import tune

from . import trials
from .trials import rates

SPEC = replace(
    trials.SPEC,
    name="path_inputs",
    recipe=Recipe(steps=10, batch_size=8, n_evals=2),
    sizes={"depth": (1, 2)},
    tune=rates(2**-4, 2**-2, 2),
    seeds=(0,),
    path={"width": "4 * depth"},
)
BY_HAND = replace(SPEC, sizes={"depth": (2,), "width": (8,)}, path={})
LONGER = replace(SPEC.recipe, batch_size=8, steps=20, weight_decay=0.02)
SGD = replace(SPEC.recipe, optimizer="sgd")
RATES = rates(0.1, 0.11, 2)
DECAY = {"momentum": TunedRange(low=0.5, high=0.9, n=2)}
LENGTHS = {"batch_size": "4 * depth", "steps": "10 * depth", "weight_decay": "0.01 * depth"}


@pytest.mark.parametrize(
    ("changes", "by_hand"),
    [
        ({}, BY_HAND),
        # a size that the model does not know is left out
        (
            {"sizes": {"scale": (2,)}, "path": {"width": "4 * scale"}},
            replace(BY_HAND, sizes={"width": (8,)}),
        ),
        ({"path": {**SPEC.path, **LENGTHS}}, replace(BY_HAND, recipe=LONGER)),
        # a rate that is not tuned
        (
            {"recipe": SGD, "tune": DECAY, "path": {**SPEC.path, "lr": "0.2 / depth"}},
            replace(BY_HAND, recipe=SGD, tune={**RATES, **DECAY}),
        ),
    ],
)
def test_runs_along_a_path_are_those_set_by_hand(changes, by_hand, url, tmp_path):
    runs = tune(replace(SPEC, **changes), url)
    assert set(runs.conditions).isdisjoint(changes.get("path", {}))
    expected = tune(by_hand, f"sqlite:///{tmp_path}/hand.db").to_frame()
    expected = expected[expected["lr"] == 0.1] if by_hand.recipe is SGD else expected
    frame = runs.to_frame()
    rows = frame[frame[next(iter(changes.get("sizes", SPEC.sizes)))] == 2]
    assert list(rows["loss"]) == pytest.approx(list(expected["loss"]), rel=1e-6)  # other packs
    assert list(rows["n_params"]) == list(expected["n_params"])


@pytest.mark.parametrize(
    ("path", "message"),
    [({"batch_size": "5 * sqrt(depth)"}, r"round\(5 \* sqrt"), ({"height": "3"}, "of bytes-mlp")],
)
def test_what_cannot_be_trained_as_the_path_says_is_refused(url, path, message):
    with pytest.raises(ValueError, match=message):
        tune(replace(SPEC, path={**SPEC.path, **path}), url)
