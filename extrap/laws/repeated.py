"""What training on repeated data is worth."""

from __future__ import annotations

import numpy as np

from extrap.laws.base import AnyArray


def effective_epochs(epochs: AnyArray | float, saturation: AnyArray | float) -> AnyArray:
    """What repetition is worth, in passes over fresh data: `1 + R* (1 − exp(−R/R*))`.

    Args:
        epochs: Passes over the data, R + 1; below 1 they count in full.
        saturation: R*, repetitions after which little is left to gain; 15.3878 for tokens.

    References:
        Muennighoff et al. (2023), Scaling data-constrained language models, arXiv 2305.16264,
        Eq. 5; R_D* = 15.3878 and R_N* = 5.3097.
    """
    epochs, saturation = np.asarray(epochs), np.asarray(saturation)
    repeats = np.where(epochs.real > 1, epochs - 1, 0)
    return np.where(
        epochs.real > 1, 1 - saturation * _expm1(-repeats / saturation), epochs + 0 * saturation
    )


def _expm1(t: AnyArray) -> AnyArray:
    return np.asarray(np.expm1(t))
