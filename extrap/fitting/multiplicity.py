"""Several tests of one family: p-values adjusted for their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float], families: int = 1) -> list[float]:
    """Adjusted p-values of Holm's step-down procedure; rejected are those at most alpha.

    Args:
        p_values: One per hypothesis of this family.
        families: Families that share alpha equally.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)) if len(p) else p
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(families * steps, 1.0)
    return [float(value) for value in adjusted]
