"""Which sizes are fitted and which are held out."""

import math

import numpy as np
import pytest

from extrap.fitting import extrapolation_ratio
from extrap.fitting.splits import MAX_CUTS, MAX_HELD_OUT, rolling_origin


def widths(*values):
    return [{"width": float(value)} for value in values]


@pytest.mark.parametrize(("n", "first"), [(4, 3), (5, 3), (6, 4), (16, 4), (40, 10)])
def test_first_cut_grows_with_the_number_of_sizes(n, first):
    splits = rolling_origin(widths(*(2.0**k for k in range(n))))
    assert len(splits[0].fitted) == first
    assert len(splits[-1].fitted) == n - 1


def test_checkpoints_of_one_run_are_thinned_evenly_in_log_size():
    splits = rolling_origin(widths(*range(1, 701)))
    assert len(splits) == MAX_CUTS
    assert max(len(s.held_out) for s in splits) <= MAX_HELD_OUT
    steps = np.diff([math.log(max(s.fitted) + 1) for s in splits])
    assert steps == pytest.approx(np.full(MAX_CUTS - 1, math.log(699 / 175) / 7), abs=0.01)
    assert {s.held_out[-1] for s in splits} == {699}


def test_sizes_of_one_product_stay_together():
    cells = [(n, compute) for compute in (3e9, 1.2e10, 4.8e10, 2e11) for n in (1e6, 3e6, 7e6)]
    sizes = [{"n_params": n, "n_tokens": compute / n} for n, compute in cells]
    for split in rolling_origin(sizes):
        compute = {i: round(math.log(math.prod(sizes[i].values())), 6) for i in range(12)}
        assert max(compute[i] for i in split.fitted) < min(compute[i] for i in split.held_out)
        assert len(split.fitted) % 3 == 0


def test_sizes_below_the_fitted_ones_in_any_column_are_not_held_out():
    sizes = [{"n": n, "d": d} for n, d in [(2, 2), (2, 4), (4, 2), (4, 4), (8, 8), (1, 512)]]
    for split in rolling_origin(sizes):
        for column in ("n", "d"):
            low = min(sizes[i][column] for i in split.fitted)
            assert all(sizes[i][column] >= low for i in split.held_out)
    assert all(5 not in split.held_out for split in rolling_origin(sizes))


GRID = [{"a": a, "b": b} for a in (1.0, 2.0, 4.0) for b in (1.0, 2.0, 4.0)]
LADDER = [{"a": a, "b": 8 / a} for a in (1.0, 2.0, 4.0, 8.0)]


@pytest.mark.parametrize(
    ("target", "fitted", "ratio"),
    [
        ((8, 8), GRID, 2),
        ((8, 1), GRID, 2),
        ((2, 2), GRID, 0.5),
        ((4, 4), GRID, 1),
        ((8, 8), LADDER, 8**0.5),  # each column within the ladder, √8 times its line a b = 8
        ((4, 4), LADDER, 2**0.5),
        ((2, 4), LADDER, 1),
    ],
)
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_a_size_is_beyond_every_mixture_of_the_fitted_ones(target, fitted, ratio, unit):
    sizes = [{"a": unit * size["a"], "b": size["b"]} for size in fitted]
    found = extrapolation_ratio({"a": unit * target[0], "b": target[1]}, sizes)
    assert found == pytest.approx(ratio)
    assert extrapolation_ratio({"a": target[0]}, [{"a": size["a"]} for size in fitted]) == (
        target[0] / max(size["a"] for size in fitted)
    )


def test_compute_counts_where_columns_give_it():
    sizes = [{"params": n, "tokens": 8 / n} for n in (1.0, 2.0, 4.0, 8.0)]
    assert extrapolation_ratio({"params": 4, "tokens": 5}, sizes) == pytest.approx(20 / 8)
    assert extrapolation_ratio({"params": 80, "tokens": 0.1}, sizes) == pytest.approx(10)
    flops = [{"flops": c, "width": 1.0} for c in (1.0, 3.0)]
    assert extrapolation_ratio({"flops": 6, "width": 0.5}, flops) == pytest.approx(2)
