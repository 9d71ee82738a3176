"""What training on repeated data is worth."""

from __future__ import annotations

import numpy as np

from extrap.laws.base import Array


def effective_epochs(epochs: Array | float, saturation: float) -> Array:
    """What repetition is worth, in passes over fresh data: `1 + R* (1 − exp(−R/R*))`.

    Args:
        epochs: Passes over the data, R + 1, any shape; below 1 they count in full.
        saturation: R*, repetitions after which little is left to gain; 15.3878 for tokens.

    References:
        Muennighoff et al. (2023), Scaling data-constrained language models, arXiv 2305.16264,
        Eq. 5; R_D* = 15.3878 and R_N* = 5.3097.
    """
    passes = np.asarray(epochs, dtype=float)
    repeats = np.maximum(passes - 1, 0)
    return np.where(passes > 1, 1 - saturation * np.expm1(-repeats / saturation), passes)
