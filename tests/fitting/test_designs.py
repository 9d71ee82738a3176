from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting.designs import check_sizes


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
