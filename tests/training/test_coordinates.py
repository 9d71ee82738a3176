import json
from dataclasses import replace

import pytest

from extrap.analyses.coordinates.page import coordinate_blocks
from extrap.records import Recipe
from extrap.records.codec import document
from extrap.training import coordinate_check
from tests.study import trials

SPEC = replace(
    trials.SPEC,
    sizes={"width": (64, 128, 256, 512)},
    tune=trials.rates(2**-9, 2**-7, 3),
    recipe=Recipe(base_width=64),
    seeds=(0, 1, 2),
)


def check(spec=SPEC, lr=2**-9, **recipe):
    return coordinate_check(replace(spec, recipe=replace(spec.recipe, **recipe)), lr=lr)


@pytest.mark.parametrize(
    ("optimizer", "widths"),
    # Muon's bfloat16 is slow where a processor has none
    [("adam", (64, 128, 256, 512)), ("muon", (64, 128, 256))],
)
def test_changes_are_flat_under_mup(optimizer, widths):
    found = check(
        replace(SPEC, sizes={"width": widths}), parametrization="mup", optimizer=optimizer
    )
    assert found.is_flat
    assert all(abs(c.slope) < 0.3 for c in found.coordinates)
    names = [c.name for c in found.coordinates]  # in the order of the computation
    assert (names[0], names[-1], len(names)) == ("embedding.weight", "mlp.output.weight", 5)
    _, table = coordinate_blocks(found)
    assert [(row[0], row[-1]) for row in table.rows] == [(name, "flat") for name in names]
    assert table.note.startswith(f"mup rule, {optimizer}, ")


def test_a_change_that_is_not_finite_is_called_diverged():
    found = check(optimizer="sgd", lr=1e30)
    assert {c.verdict for c in found.coordinates} >= {"diverged"}
    assert not found.is_flat
    written = json.loads(json.dumps(document(found), allow_nan=False))
    assert None in {c["slope"] for c in written["coordinates"]}
    assert "diverge" in coordinate_blocks(found)[0].text


def test_one_seed_has_no_standard_error():
    found = check(replace(SPEC, sizes={"width": (8, 16)}, seeds=(0,)))
    assert {c.slope_se for c in found.coordinates} == {None}
    assert not any("±" in cell for row in coordinate_blocks(found)[1].rows for cell in row)


def test_changes_grow_with_width_under_the_standard_rule():
    found = check()
    slopes = {c.name: c.slope for c in found.coordinates}
    assert not found.is_flat
    assert slopes["mlp.output.weight"] > 0.8
    assert slopes["mlp.hidden.1.weight"] > 0.3
    assert found.coordinates[-1].verdict == "grows"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {"depth": (1, 2)}}, "column 'width'"),
        ({"sizes": {"width": (16,)}}, "at least two widths"),
        ({"widths": (0, 2)}, "at least 1"),
        ({"lr": -1.0}, "lr must be at least 0"),
    ],
)
def test_what_cannot_be_checked_is_refused(changes, message):
    spec = replace(SPEC, sizes=changes.pop("sizes", SPEC.sizes))
    with pytest.raises(ValueError, match=message):
        coordinate_check(spec, **changes)


def test_at_a_learning_rate_of_0_nothing_moves():
    found = check(replace(SPEC, sizes={"width": (8, 16)}), lr=0.0)
    assert {value for c in found.coordinates for value in c.changes} == {0.0}
