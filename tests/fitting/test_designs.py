from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting.designs import check_identifiable, check_sweep
from extrap.reading import read_runs

GRID = np.array([[n, d] for n in (1.0, 2.0, 4.0) for d in (1.0, 3.0)])
TIED = np.array([[1.0, 20.0], [3.0, 60.0], [10.0, 200.0], [30.0, 600.0]])


def test_two_sizes_are_too_few(sweep_table) -> None:
    for n, said in ((2, "at least 3 .* got 2"), (1, "got 1")):
        with pytest.raises(DataError, match=said):
            check_sweep(read_runs(sweep_table(widths=(16.0, 32.0)[:n]), size="width", tune="lr"))


@pytest.mark.parametrize("unit", [1e-12, 1e24])
def test_sizes_of_one_grid_pass_in_any_unit(unit: float) -> None:
    check_identifiable(GRID * unit, ["params", "tokens"])
    assert not check_identifiable(GRID * unit, ["n", "d"], exponents=["c1", "c2"], fixed={"c1"})


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ((1.0, 1.0, 1.0), "tokens .* 1.1, got 1 to 1"),
        ((1.0, 1.09, 1.0), "tokens .* 1.1, got 1 to 1.09"),
        ((1.0, 1.11, 1.0), None),
        ((1.0, 1.01e30, 1.0), "tokens .* 1e.30"),
        ((20.0, 40.0, 80.0), "params, tokens"),
        ((20.0, 40.0, 80.00001), "params, tokens"),
        ((20.0, 40.0, 80.01), None),
    ],
)
def test_sizes_that_hardly_vary_or_move_together_are_refused(tokens, code):
    x = np.column_stack([[1.0, 2.0, 4.0], tokens])
    check_identifiable(x[:, :1], ["params"])
    if code is None:
        check_identifiable(x, ["params", "tokens"])
    else:
        with pytest.raises(DataError, match=code):
            check_identifiable(x, ["params", "tokens"])


def test_tied_columns_are_named_with_the_pin_that_helps() -> None:
    x = np.column_stack([[4.0, 1.0, 9.0, 2.0], TIED])
    with pytest.raises(DataError, match=r' n, d .*=\{"c2": 0.34\}'):
        check_identifiable(x, ["w", "n", "d"], exponents=["c1", "c2", "c3"])
    for pin in ("c2", "c3"):
        assert check_identifiable(
            x, ["w", "n", "d"], exponents=["c1", "c2", "c3"], fixed={pin: 0.3}
        )
    with pytest.raises(DataError, match="leave one out"):  # columns share the exponent
        check_identifiable(TIED, ["n", "d"], exponents=["c", "c"], fixed={"c"})
