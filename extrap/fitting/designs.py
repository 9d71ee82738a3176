"""Whether sizes vary enough, and separately enough, for a law over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from extrap.errors import DataError
from extrap.laws.base import Array

__all__ = ["check_sizes"]

MIN_SPAN = 1.1
"""Largest / smallest size of a column: within less than this an exponent is only noise."""
MAX_CONDITION = 1e6
"""Condition number of (1, ln x) beyond which size columns move together."""


def check_sizes(x: Array, columns: Sequence[str]) -> None:
    """Refuse size columns that hardly vary, or that cannot be told apart.

    Args:
        x: Sizes, positive, shape (n_points, n_columns).
        columns: Their names.

    Raises:
        DataError: A column spans less than a factor 1.1, or columns move together.
    """
    for column, values in zip(columns, x.T, strict=True):
        low, high = values.min(), values.max()
        if high < MIN_SPAN * low:
            raise DataError(
                f"the sizes {column} must span at least a factor {MIN_SPAN:g}, got {low:g} to "
                f"{high:g}; add sizes, or leave the column out."
            )
    log_x = np.log(x) - np.log(x).mean(axis=0)
    design = np.column_stack([np.ones(len(x)), log_x / np.linalg.norm(log_x, axis=0)])
    if np.linalg.cond(design) > MAX_CONDITION:
        raise DataError(
            f"the size columns {', '.join(columns)} move together, so their exponents cannot be "
            "told apart; leave one out, or add runs that vary them separately."
        )
