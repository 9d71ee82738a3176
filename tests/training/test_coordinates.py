from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from extrap.records import Cell, Recipe, StudySpec, TunedRange, Workload
from extrap.training import CoordinateCheck, Pack, coordinate_check
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

SPEC = StudySpec(
    name="coordinates",
    question="Do outputs move equally far at every width?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256},
    ),
    sizes={"width": (64, 128, 256, 512)},
    tune={"lr": TunedRange(low=2**-9, high=2**-7, n=3)},
    recipe=Recipe(base_width=64),
    seeds=(0, 1, 2),
)


def check(spec: StudySpec = SPEC, lr: float = 2**-9, **recipe: object) -> CoordinateCheck:
    return coordinate_check(replace(spec, recipe=replace(spec.recipe, **recipe)), lr=lr)


@pytest.mark.parametrize(
    ("optimizer", "widths"),
    # Muon's bfloat16 is slow where a processor has none
    [("adam", (64, 128, 256, 512)), ("muon", (64, 128, 256))],
)
def test_changes_are_flat_under_mup(optimizer: str, widths: tuple[int, ...]) -> None:
    found = check(
        replace(SPEC, sizes={"width": widths}), parametrization="mup", optimizer=optimizer
    )
    assert found.is_flat
    assert all(abs(c.slope) < 0.3 for c in found.coordinates)


def test_muon_under_mup_moves_a_hidden_matrix_by_one_norm_at_every_width() -> None:
    """The outputs alone would not tell: the input layer, which AdamW moves, hides it."""
    recipe = replace(SPEC.recipe, parametrization="mup", optimizer="muon", schedule="constant")
    norms = [hidden_change(replace(recipe, steps=3, warmup=0.0), width) for width in (64, 256)]
    assert norms[1] == pytest.approx(norms[0], rel=0.2)


def hidden_change(recipe: Recipe, width: int) -> float:
    size = {"width": width}
    pack = Pack(
        workload=load_workload(SPEC.workload),
        size=size,
        recipe=recipe,
        cells=(Cell.of(size, {"lr": 2**-7}, 0),),
    )
    stack = Stack(pack, torch.device("cpu"))
    before = stack.parameters()["mlp.hidden.1.weight"][0].clone()
    stack.advance(0, recipe.steps)
    moved = stack.parameters()["mlp.hidden.1.weight"][0] - before
    return float(torch.linalg.matrix_norm(moved, 2))


def test_a_change_that_is_not_finite_is_called_diverged() -> None:
    found = check(parametrization="standard", optimizer="sgd", lr=1e30)
    assert {c.verdict for c in found.coordinates} >= {"diverged"}
    assert not found.is_flat


def test_changes_grow_with_width_under_the_standard_rule() -> None:
    found = check()
    slopes = {c.name: c.slope for c in found.coordinates}
    assert not found.is_flat
    assert slopes["mlp.output.weight"] > 0.8
    assert slopes["mlp.hidden.1.weight"] > 0.3
    assert found.coordinates[-1].verdict == "grows"


def test_sgd_under_mup_moves_hidden_and_output_layers_equally_far() -> None:
    found = coordinate_check(
        replace(SPEC, recipe=replace(SPEC.recipe, parametrization="mup", optimizer="sgd")), lr=0.05
    )
    slopes = [c.slope for c in found.coordinates if c.name != "embedding.weight"]
    assert max(map(abs, slopes)) < 0.3
    standard = coordinate_check(
        replace(SPEC, recipe=replace(SPEC.recipe, optimizer="sgd")), lr=0.05
    )
    assert max(abs(c.slope) for c in standard.coordinates) > 0.4


def test_layers_come_in_the_order_of_the_computation() -> None:
    names = [c.name for c in check(parametrization="mup").coordinates]
    assert names[0] == "embedding.weight"
    assert names[-1] == "mlp.output.weight"
    assert len(names) == 5


def test_at_one_learning_rate_of_nothing_nothing_moves() -> None:
    found = coordinate_check(SPEC, lr=0.0)
    assert {value for c in found.coordinates for value in c.changes} == {0.0}


def test_its_text_has_a_line_a_layer_and_a_verdict() -> None:
    text = str(check(parametrization="mup")).splitlines()
    assert len(text) == 2 + 5 + 1
    assert "mup rule" in text[0]
    assert text[-1].startswith("flat")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {"depth": (1, 2)}}, "needs a size column 'width'"),
        ({"sizes": {"width": (16,)}}, "at least two widths"),
    ],
)
def test_what_cannot_be_checked_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coordinate_check(replace(SPEC, **changes))
