"""Which sizes to fit and which to hold out, so that a forecast can be judged on known sizes.

`rolling_origin` fits the smallest sizes and predicts the larger ones: what a forecast is for.

With several size columns sizes are ordered by their product, which is the training compute up to
a constant where the columns are parameters and tokens; sizes of one product stay together. No
size is held out that lies below the fitted ones in any column: laws are not extrapolated
downwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extrap.errors import DataError
from extrap.laws.base import Array

Positions = npt.NDArray[np.int64]

MAX_CUTS = 8
"""More cuts than this (checkpoints of one run, say) are thinned to as many, even in log size."""
MAX_HELD_OUT = 40
"""If one cut holds out more sizes than this, they are thinned in the same way."""
START, SHORT_START = 4, 3
"""Fitted sizes of the first cut; the second where there are fewer than `START + 2` sizes."""
LEAST_FITTED_SHARE = 0.25
"""… and at least this share of all: four of many checkpoints span hardly anything."""
LOG_SIZE_DECIMALS = 9
"""Decimals of a log size that count: products of equal compute differ by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Positions of the sizes to fit and of those to predict; smallest first."""

    fitted: tuple[int, ...]
    held_out: tuple[int, ...]


def rolling_origin(
    sizes: Sequence[Mapping[str, float]], *, min_sizes: int | None = None
) -> tuple[Split, ...]:
    """Fit the smallest k sizes and hold out every larger one, for growing k.

    Args:
        sizes: Distinct sizes, each size column → value.
        min_sizes: Smallest k; by default 4 and at least a quarter of the sizes, and 3 where there
            are fewer than six.

    Returns:
        At most `MAX_CUTS` splits of at most `MAX_HELD_OUT` held-out sizes each; of more, those
        closest to an even spacing in the logarithm of the product.

    Raises:
        ValueError: `min_sizes` is below 3.
        DataError: No size is left to hold out.

    References:
        Tashman (2000), Out-of-sample tests of forecasting accuracy, Int. J. Forecasting 16, for
        the rolling origin.
    """
    if min_sizes is not None and min_sizes < SHORT_START:
        raise ValueError(
            f"min_sizes must be at least {SHORT_START}, got {min_sizes}; fewer do not "
            "determine a law."
        )
    first = min_sizes or _first_cut(len(sizes))
    x = _log_sizes(sizes)
    log_products = x.sum(axis=1).round(LOG_SIZE_DECIMALS)
    order = np.argsort(log_products, kind="stable")
    ends = [
        k for k in range(first, len(order)) if log_products[order[k - 1]] < log_products[order[k]]
    ]
    ends = [ends[i] for i in _evenly([log_products[order[k - 1]] for k in ends], MAX_CUTS)]
    splits = [_split(x, order[:k], order[k:]) for k in ends]
    with_held_out = tuple(s for s in splits if s.held_out)
    if not with_held_out:
        raise DataError(
            f"a backtest needs at least {first + 1} sizes, {first} to fit and a larger one to "
            f"predict, got {len(sizes)}; add a size, small ones are cheapest."
        )
    return with_held_out


def _first_cut(n_sizes: int) -> int:
    if n_sizes < START + 2:
        return SHORT_START
    return max(START, math.ceil(LEAST_FITTED_SHARE * n_sizes))


def _log_sizes(sizes: Sequence[Mapping[str, float]]) -> Array:
    """Logarithms of the sizes; shape (n_sizes, n_columns)."""
    rows = [[math.log(value) for value in size.values()] for size in sizes]
    return np.array(rows, dtype=float).reshape(len(rows), -1)


def _split(x: Array, fitted: Positions, candidates: Positions) -> Split:
    """Hold out the candidates that lie below the fitted sizes in no column."""
    reachable = (x[candidates] >= x[fitted].min(axis=0)).all(axis=1)
    held_out = candidates[reachable]
    chosen = _evenly(x[held_out].sum(axis=1).tolist(), MAX_HELD_OUT)
    return Split(
        fitted=tuple(int(i) for i in fitted), held_out=tuple(int(held_out[i]) for i in chosen)
    )


def _evenly(positions: Sequence[float], most: int) -> list[int]:
    """Positions of at most so many of the ascending places, evenly spread between the ends."""
    if len(positions) <= most:
        return list(range(len(positions)))
    evenly = np.linspace(positions[0], positions[-1], most)
    return sorted({int(np.argmin(np.abs(np.asarray(positions) - w))) for w in evenly})
