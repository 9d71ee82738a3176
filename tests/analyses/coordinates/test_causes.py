import pytest

from extrap.analyses.coordinates.causes import find_cause
from extrap.analyses.coordinates.slopes import Coordinate
from extrap.records import Measure
from extrap.training.coordinates import Group

WIDTHS = (16, 32, 64, 128)


def layer(name, start=0.0, change=0.0, update=None):
    """A layer that breaks by the first of its slopes that is not 0."""
    exponent = next((slope for slope in (update, start, change) if slope), None)
    verdict = "stable" if exponent is None else "grows" if exponent > 0 else "vanishes"
    return Coordinate(
        name=name,
        outputs=(),
        changes=(),
        updates=(),
        aligned=(),
        output_slope=Measure(value=start),
        change_slope=Measure(value=change),
        update_slope=Measure(value=update),
        verdict=verdict,
        exponent=exponent,
    )


def groups(name="w", shape=lambda width: (width, width), power=0.0, **fields):
    return [{name: Group(shape(w), (name,), rate=float(w) ** power, **fields)} for w in WIDTHS]


def test_a_layer_that_breaks_by_itself_comes_before_one_that_passes_on():
    layers = [layer("early", change=0.5), layer("w", update=-1.0)]
    assert find_cause(layers, groups(power=-2.0), WIDTHS).first == "w"
    assert find_cause(layers[:1], groups(), WIDTHS).first == "early"


@pytest.mark.parametrize(
    ("broken", "by_width", "words"),
    [
        (layer("w", update=1.0), groups(), "not scaled with the width"),
        (layer("w", update=-1.0), groups(power=-2.0), "scaled twice"),
        (layer("w", update=1.0), groups(shape=lambda w: (8, w)), "the readout has neither"),
        (layer("w", change=0.5, update=0.0), groups(shape=lambda w: (8, w)), "readout lacks"),
        (layer("w (use 2)", update=1.0), groups(shape=lambda w: (8, w), is_table=True), "tied"),
        (layer("w", update=-1.0), groups(shape=lambda w: (8, w), is_table=True), "embedding"),
        (layer("w", update=-1.0), groups(shape=lambda w: (w,), power=-1.0), "gain"),
        (layer("w", update=-0.5), groups(is_orthogonal=True, optimizer="Muon"), "rate of Muon"),
        (layer("w", start=0.5, update=0.0), groups(), "initial values are not rescaled"),
        (layer("a.scores", start=0.5), groups(), "square root of the size of a head"),
        (layer("a.scores", change=0.5), groups(), "scores of attention grow"),
        (layer("model", change=0.5), groups(), "what it is given grows"),
    ],
)
def test_a_cause_is_read_from_shapes_rates_and_optimizers(broken, by_width, words):
    findings = find_cause([broken], by_width, WIDTHS)
    assert findings.first == broken.name
    assert words in findings.cause


def test_the_rate_that_would_be_even_is_named():
    cause = find_cause([layer("w", update=-1.0)], groups(power=-2.0), WIDTHS).cause
    assert "goes as width^−2.00, width^−1.00 would" in cause


@pytest.mark.parametrize(("power", "names"), [(-1.0, ("w",)), (-0.1, ()), (0.0, ())])
def test_decay_is_coupled_if_its_share_moves_with_the_width(power, names):
    by_width = [{"w": Group((w, w), ("w",), decay=0.1 * w**power)} for w in WIDTHS]
    findings = find_cause([layer("w", update=0.0)], by_width, WIDTHS)
    assert findings.coupled_decay == names
    assert findings.first == (names or (None,))[0]
