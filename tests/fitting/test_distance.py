import pytest

from extrap.fitting import extrapolation_ratio

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
