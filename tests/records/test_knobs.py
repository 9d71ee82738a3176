from dataclasses import replace

import pytest

from extrap.records import KnobStudy, Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="toy",
    question="?",
    workload=Workload(name="bytes-mlp", options={"depth": 3}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 24, 32, 64, 128)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
    seeds=(0, 1),
)
KNOBS = KnobStudy(name="toy-knobs", study=STUDY)


def moved(study=STUDY, *, recipe=None, **options):
    study = study if recipe is None else replace(study, recipe=recipe)
    return {move.name: move for move in KnobStudy(name="k", study=study, **options).moves()}


def test_every_value_the_recipe_uses_is_moved_to_its_half_and_double():
    found = {move.name: move.values for move in KNOBS.moves()}
    # by distance from 1 for β; decay has no room beyond 1 − warmup = 0.95 = 0.5 · 2^0.926
    assert list(found) == [
        *("warmup", "decay", "beta1", "beta2", "eps"),
        *("weight_decay", "clip", "init_scale", "depth", "precision"),
    ]
    assert found.pop("decay") == pytest.approx((0.25, 0.5 * 2 ** (14 / 16)), rel=1e-9)
    assert found == {
        "warmup": (0.025, 0.1),
        "beta1": (0.8, 0.95),
        "beta2": (0.998, 0.9995),
        "eps": (5e-9, 2e-8),
        "weight_decay": (0.05, 0.2),
        "clip": (),
        "init_scale": (0.5, 2.0),
        "depth": (2.0, 6.0),
        "precision": ("bf16",),
    }
    notes = {move.name for move in KNOBS.moves() if move.note}
    assert notes == {"decay", "clip", "depth"}
    even = replace(STUDY, workload=Workload(name="bytes-mlp", options={"depth": 4}))
    assert (moved(even)["depth"].values, moved(even)["depth"].note) == ((2.0, 8.0), "")
    one = replace(STUDY, workload=Workload(name="bytes-mlp", options={"depth": 1}))
    assert moved(one)["depth"].values == (2.0,)


def test_a_move_is_cut_where_the_recipe_has_no_room():
    assert moved(recipe=Recipe(decay=0.95))["decay"].values == (0.475,)
    # 0.8 · 2^(4/16) = 0.951 is a little too much, and less than a quarter octave is no move
    assert moved(recipe=Recipe(decay=0.8))["decay"].values == (0.4,)
    assert moved(recipe=Recipe(decay=0.798))["decay"].values == pytest.approx(
        (0.399, 0.798 * 2**0.25), rel=1e-9
    )
    plain = moved(recipe=Recipe(), knobs=("weight_decay",))["weight_decay"]
    assert (plain.base, plain.values, "doubled" in plain.note) == (0.0, (), True)
    sgd = moved(recipe=Recipe(optimizer="sgd"))
    assert "beta2" not in sgd
    assert sgd["momentum"].values == (0.8, 0.95)
    assert moved(recipe=Recipe(precision="bf16"))["precision"].values == ("fp32",)


@pytest.mark.parametrize(
    ("sizes", "points"),
    [
        ((16, 24, 32, 64, 128), (16, 32, 64)),
        ((16, 64), (16, 64)),
        ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 4, 7)),
        ((9, 1, 3), (1, 3, 9)),
        ((1, 2, 3, 4), (1, 2, 3)),
    ],
)
def test_sizes_are_chosen_from_the_study_up_to_three_quarters(sizes, points):
    assert KnobStudy(name="k", study=replace(STUDY, sizes={"width": sizes})).points == points


def test_depth_has_to_be_named_in_the_options():
    bare = replace(STUDY, workload=Workload(name="bytes-mlp"))
    assert "depth" not in moved(bare)
    with pytest.raises(ValueError, match="Workload"):
        moved(bare, knobs=("depth",))
    with pytest.raises(ValueError, match="width, depth"):
        replace(KNOBS, study=replace(STUDY, sizes={"width": (1, 2), "depth": (1,)}))
