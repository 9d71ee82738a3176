from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting.designs import check_identifiable, check_sizes


def test_sizes_of_one_grid_pass_in_any_unit() -> None:
    x = np.array([[n, d] for n in (1.0, 2.0, 4.0) for d in (1.0, 3.0)])
    check_sizes(x * 1e-12, ["params", "tokens"])
    check_sizes(x * 1e24, ["params", "tokens"])


@pytest.mark.parametrize("high", [1.0, 1.09])
def test_sizes_that_hardly_vary_are_refused(high: float) -> None:
    with pytest.raises(DataError, match="tokens must span at least a factor"):
        check_sizes(np.array([[1.0, 1.0], [2.0, high], [4.0, 1.0]]), ["params", "tokens"])


def test_sizes_that_move_together_are_refused() -> None:
    x = np.array([[1.0, 20.0], [3.0, 60.0], [10.0, 200.0]])
    with pytest.raises(DataError, match="params, tokens move together"):
        check_sizes(x, ["params", "tokens"])
    check_sizes(x[:, :1], ["params"])


TIED = np.array([[1.0, 20.0], [3.0, 60.0], [10.0, 200.0], [30.0, 600.0]])


def test_tied_columns_are_named_with_the_pin_that_helps() -> None:
    x = np.column_stack([[4.0, 1.0, 9.0, 2.0], TIED])
    with pytest.raises(DataError, match=r'n, d move together.*fix=\{"c2": 0.34\}'):
        check_identifiable(x, ["w", "n", "d"], exponents=["c1", "c2", "c3"])


@pytest.mark.parametrize("pin", ["c1", "c2"])
def test_one_pinned_exponent_keeps_two_tied_columns_apart(pin: str) -> None:
    assert check_identifiable(TIED, ["n", "d"], exponents=["c1", "c2"], fixed={pin})


def test_separate_columns_need_no_pin() -> None:
    x = np.array([[n, d] for n in (1.0, 2.0, 4.0) for d in (1.0, 3.0)])
    assert not check_identifiable(x, ["n", "d"], exponents=["c1", "c2"], fixed={"c1"})


def test_a_pin_of_an_exponent_that_columns_share_does_not_help() -> None:
    with pytest.raises(DataError, match=r"n, d move together.*leave one out"):
        check_identifiable(TIED, ["n", "d"], exponents=["c", "c"], fixed={"c"})


def test_a_column_without_exponent_may_stay_the_same() -> None:
    x = np.array([[n, d, 5.0] for n in (1.0, 2.0, 4.0) for d in (1.0, 3.0)])
    assert not check_identifiable(x, ["n", "d", "unique"], exponents=["c1", "c2", None])
    with pytest.raises(DataError, match="unique must span"):
        check_identifiable(x, ["n", "d", "unique"], exponents=["c1", "c2", "c3"])
