"""Where a law reaches a loss: how much smaller a tuned run does as well."""

from __future__ import annotations

import numpy as np

from extrap.laws.base import Array


def multiples_of_equal_loss(logs: Array, losses: Array, wanted: Array) -> Array:
    """Log multiples of the size at which the law has a loss, by linear interpolation.

    Args:
        logs: Log multiples, rising, shape (n,).
        losses: Log losses of the law there, shape (n,).
        wanted: Log losses to reach, shape (m,).

    Returns:
        Shape (m,); NaN beyond the losses of the curve, and all of them where it does not fall
        throughout.
    """
    wanted = np.asarray(wanted, dtype=float)
    if len(logs) < 2 or np.any(np.diff(losses) >= 0):
        return np.full(wanted.shape, np.nan)
    found = np.interp(wanted, losses[::-1], logs[::-1])
    return np.where((losses[-1] <= wanted) & (wanted <= losses[0]), found, np.nan)
