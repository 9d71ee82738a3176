"""The plan of a knob study: where each knob is moved, and which runs that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import KnobStudy, Recipe, StudySpec, Target, TunedRange, Workload
from extrap.records.knobs import octaves_from

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
TUNED = {16: {"lr": 0.01}, 32: {"lr": 0.007}, 64: {"lr": 0.005}}


def moved(knobs: KnobStudy) -> dict[str, tuple[float | str, ...]]:
    return {move.name: move.values for move in knobs.moves()}


def test_every_value_the_recipe_uses_is_moved_to_its_half_and_double() -> None:
    found = moved(KNOBS)
    assert list(found) == [
        *("warmup", "decay", "beta1", "beta2", "eps"),
        *("weight_decay", "clip", "init_scale", "depth", "precision"),
    ]
    assert found["warmup"] == (0.025, 0.1)
    assert found["beta2"] == pytest.approx((0.998, 0.9995))
    assert found["depth"] == (2.0, 6.0)
    assert found["precision"] == ("bf16",)


def test_move_is_cut_where_the_recipe_has_no_room_and_says_so() -> None:
    decay = next(move for move in KNOBS.moves() if move.name == "decay")
    assert decay.values[0] == 0.25
    assert 0.9 < decay.values[1] <= 0.95
    assert "no room" in decay.note
    full = replace(STUDY, recipe=replace(STUDY.recipe, decay=0.95))
    assert moved(KnobStudy(name="k", study=full))["decay"] == (0.475,)


def test_zero_has_no_double_and_says_so() -> None:
    plain = replace(STUDY, recipe=Recipe())
    assert moved(KnobStudy(name="k", study=plain))["weight_decay"] == ()
    (move,) = KnobStudy(name="k", study=plain, knobs=("weight_decay",)).moves()
    assert move.values == ()
    assert "no double" in move.note


def test_values_the_optimiser_does_not_look_at_are_left_alone() -> None:
    sgd = replace(STUDY, recipe=Recipe(optimizer="sgd"))
    found = moved(KnobStudy(name="k", study=sgd))
    assert "beta2" not in found
    assert found["momentum"] == pytest.approx((0.8, 0.95))


def test_cells_move_one_knob_at_a_time_about_the_tuned_values() -> None:
    cells = KNOBS.cells(TUNED)
    n_moves = sum(len(v) for v in moved(KNOBS).values()) - 1  # precision has a study of its own
    assert len(cells) == len(set(cells)) == 3 * 2 * (1 + n_moves)
    assert {dict(cell.tuned)["lr"] for cell in cells if dict(cell.size)["width"] == 32} == {0.007}
    base = {**dict(cells[0].tuned), **dict(cells[0].size)}
    for cell in cells:
        own = {**dict(cell.tuned), **dict(cell.size)}
        differ = {name for name in own if own[name] != base[name]} - {"width", "lr"}
        assert len(differ) <= 1
    centre = KNOBS.centre_cells(TUNED)
    assert len(centre) == 3 * 2
    assert {dict(cell.tuned)["warmup"] for cell in centre} == {0.05}


def test_moves_and_the_other_precision_have_studies_of_their_own() -> None:
    spec, other = KNOBS.moved_spec(), KNOBS.precision_spec()
    assert (spec.name, spec.sizes["depth"]) == ("toy-knobs-moved", (2.0, 3.0, 6.0))
    assert spec.tune["beta2"].low == pytest.approx(0.998)
    assert other is not None
    assert (other.name, other.recipe.precision) == ("toy-knobs-moved-bf16", "bf16")
    assert KnobStudy(name="k", study=STUDY, knobs=("warmup",)).precision_spec() is None


def test_sizes_and_target_are_chosen_from_the_study() -> None:
    assert KNOBS.points == (16, 32, 64)
    assert KNOBS.target_size == 8 * 64
    two = replace(STUDY, sizes={"width": (16, 64)})
    assert KnobStudy(name="k", study=two).points == (16, 64)
    aimed = replace(STUDY, targets=(Target(size={"width": 512}),))
    assert KnobStudy(name="k", study=aimed).target_size == 512
    assert KnobStudy(name="k", study=aimed, target={"width": 300}).target_size == 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knobs": ("lr",)}, "lr is tuned by the study"),
        ({"knobs": ("warm_up",)}, "a knob is one of .*got 'warm_up'"),
        ({"sizes": (16,)}, "at least 2 sizes"),
        ({"seeds": (0,)}, "at least 2 seeds, got 1"),
        ({"target": {"depth": 3}}, "names the size column width"),
        ({"study": replace(STUDY, sizes={"width": (1, 2), "depth": (1,)})}, "one size column"),
    ],
)
def test_impossible_plans_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(KNOBS, **change)


def test_depth_has_to_be_named_in_the_options() -> None:
    bare = replace(STUDY, workload=Workload(name="bytes-mlp"))
    assert "depth" not in moved(KnobStudy(name="k", study=bare))
    with pytest.raises(ValueError, match="name it: Workload"):
        KnobStudy(name="k", study=bare, knobs=("depth",)).moves()


def test_octaves_of_beta_are_those_of_its_distance_to_one() -> None:
    assert octaves_from("beta2", 0.999, 0.998) == pytest.approx(1.0)
    assert octaves_from("warmup", 0.05, 0.025) == pytest.approx(-1.0)
