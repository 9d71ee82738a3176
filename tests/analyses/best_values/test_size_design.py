"""What varies in the sizes of a table, and which sizes a law covers."""

import numpy as np
import pytest

from extrap.analyses.best_values.size_design import RATIO_SLACK, design_of
from extrap.errors import DataError

PARAMS, TOKENS = np.array([1e7, 4e7, 1.6e8]), np.array([2e8, 8e8, 3.2e9, 1.28e10])
GRID = np.array([(n, d) for n in PARAMS for d in TOKENS])
COLUMNS = ("params", "tokens")


def test_columns_that_vary_by_themselves_have_coordinates_of_their_own():
    design = design_of(COLUMNS, GRID)
    assert design.names == COLUMNS
    assert design.held() == []
    assert design.coordinates == pytest.approx(np.log2(GRID))
    assert design.locate({"tokens": 2.0**40, "params": 2.0**30}) == pytest.approx([30, 40])
    assert design.times(4) == {"params": 6.4e8, "tokens": 5.12e10}
    assert design.largest() == {"params": 1.6e8, "tokens": 1.28e10}


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_columns_at_one_ratio_are_one_coordinate(jitter):
    """Twenty tokens per parameter, give or take ten percent."""
    around = np.array([1 - jitter, 1 + jitter, 1.0])
    design = design_of(COLUMNS, np.column_stack([PARAMS, 20 * PARAMS * around]))
    assert design.names == ("params",)
    assert design.held() == ["the number of tokens per parameter"]
    alone = design.locate({"params": 1e9})
    assert alone == pytest.approx(np.log2([1e9]))
    assert design.locate({"params": 1e9, "tokens": 2e10}) == pytest.approx(alone, abs=0.1)
    assert design.locate({"tokens": 2e10}) == pytest.approx(alone, abs=0.3)
    with pytest.raises(DataError, match=r"tokens per parameter never varied .* got 100B; ask for"):
        design.locate({"params": 1e9, "tokens": 1e11})


def test_a_size_along_another_power_is_on_the_path():
    """Tokens as the square of a width: eight times the width is sixty-four times the tokens."""
    width = np.array([256.0, 512.0, 1024.0])
    design = design_of(("width", "tokens"), np.column_stack([width, 3e3 * width**2]))
    assert design.names == ("width",)
    assert design.times(8) == {"width": 8192.0, "tokens": pytest.approx(3e3 * 8192.0**2)}
    with pytest.raises(DataError, match="tokens per width never varied"):
        design.locate({"width": 8192.0, "tokens": 8 * 3e3 * 1024.0**2})


def test_a_column_with_one_value_is_refused_elsewhere_and_may_be_left_out():
    design = design_of(COLUMNS, np.column_stack([PARAMS, [2e9, 2e9, 2.1e9]]))
    assert (design.names, design.held()) == (("params",), ["tokens"])
    assert design.largest() == {"params": 1.6e8}
    assert design.completed({"params": 1e9})["tokens"] == pytest.approx(2.03e9, rel=0.01)
    assert design.completed({"params": 1e9, "tokens": 2e9})["tokens"] == 2e9
    with pytest.raises(DataError) as refused:
        design.locate({"params": 1e9, "tokens": 2e11})
    assert "tokens never varied" in str(refused.value)
    proposed = str(refused.value).partition("ask for at(")[2].rstrip(").")
    size = {name: float(x) for name, x in (part.split("=") for part in proposed.split(", "))}
    assert size["params"] == 1e9
    assert design.locate(size) == pytest.approx(np.log2([1e9]))


def test_compute_follows_from_parameters_and_tokens():
    sizes = np.column_stack([6 * GRID.prod(axis=1), GRID])
    design = design_of(("flops", *COLUMNS), sizes)
    assert design.names == COLUMNS
    assert design.locate({"params": 1e9, "tokens": 1e11}) == pytest.approx(np.log2([1e9, 1e11]))
    assert design.locate({"params": 1e9, "flops": 6e20}) == pytest.approx(np.log2([1e9, 1e11]))
    with pytest.raises(DataError, match="flops"):
        design.locate({"params": 1e9, "tokens": 1e11, "flops": 1e19})


@pytest.mark.parametrize(
    ("factor", "is_covered"),
    [(0.9, True), (0.99 * RATIO_SLACK, True), (1.01 * RATIO_SLACK, False)],
)
@pytest.mark.parametrize("side", [1, -1])
def test_a_ratio_may_lie_a_little_beyond_those_of_the_table(factor, is_covered, side):
    """Ratios from 1.25 to 1280 tokens per parameter."""
    design, edge = design_of(COLUMNS, GRID), 1280.0 if side == 1 else 1.25
    ratio = edge * factor**side
    size = {"params": 1e9, "tokens": 1e9 * ratio}
    if is_covered:
        assert design.locate(size) == pytest.approx(np.log2([1e9, 1e9 * ratio]))
        return
    with pytest.raises(DataError, match=r"between 1\.25 and 1280 in the table, got") as refused:
        design.locate(size)
    assert f"at(params=1000000000, tokens={1e9 * edge:.10g})" in str(refused.value)


def test_a_ratio_to_the_trend_of_the_table_may_lie_within_it():
    """Ten, twenty and forty tokens per parameter, parameters being the square of the width."""
    width = np.array([256.0, 512.0, 1024.0])
    sizes = np.array([(w, 12 * w**2 * per) for w in width for per in (10, 20, 40)])
    design = design_of(("width", "tokens"), sizes)
    assert design.names == ("width", "tokens")
    larger = 32 * 1024.0
    assert len(design.locate({"width": larger, "tokens": 12 * larger**2 * 20})) == 2
    with pytest.raises(DataError, match="tokens per width"):
        design.locate({"width": larger, "tokens": 12 * larger**2 * 1000})


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"params": 1e9}, "has params, tokens, got params; ask for at"),
        ({"params": 1e9, "width": 3.0}, "got params, width"),
        ({}, "got none"),
        ({"params": 0.0, "tokens": 1e9}, "params must be positive and finite, got 0"),
    ],
)
def test_a_size_that_is_none_of_the_table_s_is_refused(size, message):
    with pytest.raises(ValueError, match=message):
        design_of(COLUMNS, GRID).locate(size)


@pytest.mark.parametrize(
    ("columns", "sizes", "message"),
    [
        (("depth",), np.array([[8.0], [8.1], [8.3]]), "span a factor of 1.1, depth spans 1.04"),
        (COLUMNS, GRID[[0, 0, 0]], "span a factor of 1.25"),
    ],
)
def test_sizes_that_are_alike_are_refused(columns, sizes, message):
    with pytest.raises(DataError, match=message):
        design_of(columns, sizes)
