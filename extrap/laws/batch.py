"""The hyperbola of steps to a target against batch size.

What to use when:

* `steps_to_target`, `log_steps` — the hyperbola of steps against batch size.
* `overhead_batch` — the batch at which steps exceed linear scaling by so much.
* `perfect_end`, `maximal_start` — where the regimes of that hyperbola meet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MOST_EXCESS = 0.2
"""Perfect scaling ends where examples exceed their minimum by this share."""
LEAST_SAVING = 0.1
"""Maximal data parallelism begins where doubling the batch saves no more than this share."""


def steps_to_target(batch: npt.ArrayLike, *, s_min: float, b_crit: float) -> Array:
    """Steps to a target loss `S = S_min (1 + B_crit / B)`; examples are `S · B`.

    Equivalent to `(S / S_min − 1)(E / E_min − 1) = 1` with `E_min = S_min · B_crit`.

    Args:
        batch: B, positive, any shape.
        s_min: S_min, the steps at an unlimited batch.
        b_crit: B_crit, unit of `batch`.

    References:
        McCandlish et al. (2018), An empirical model of large-batch training, arXiv 1812.06162,
        Eq. 2.11.

    Example:
        >>> steps_to_target([250, 1000, 4000], s_min=1.0, b_crit=1000.0).round(2).tolist()
        [5.0, 2.0, 1.25]
    """
    return np.asarray(s_min * (1 + b_crit / np.asarray(batch, dtype=float)))


def log_steps(log_b_crit: npt.ArrayLike, batch: npt.ArrayLike, *, reference: float) -> Array:
    """`ln S(B) − ln S(B0)` of the hyperbola: bounded however large or small B_crit is.

    Args:
        log_b_crit: ln B_crit, shape (…, 1) or broadcastable against `batch`.
        batch: B, positive.
        reference: B0, the batch at which the result is 0.
    """
    log_ratio = np.asarray(log_b_crit, dtype=float)
    there = np.logaddexp(0.0, log_ratio - np.log(np.asarray(batch, dtype=float)))
    return np.asarray(there - np.logaddexp(0.0, log_ratio - np.log(reference)))


def overhead_batch(b_crit: float, *, overhead: float, from_batch: float) -> float:
    """Batch at which examples are `1 + overhead` times those at `from_batch`.

    On the hyperbola `S(B) · B = (1 + o) · S(B0) · B0` at `B = (1 + o) B0 + o B_crit`.

    References:
        Zhang et al. (2024), How does critical batch size scale in pre-training?,
        arXiv 2410.21676, Sec. 2: steps 20 % above linear scaling from B0 = 256.

    Example:
        >>> overhead_batch(2000.0, overhead=0.25, from_batch=256)
        820.0
    """
    return (1 + overhead) * from_batch + overhead * b_crit


def perfect_end(b_crit: float) -> float:
    """Largest batch of perfect scaling, `MOST_EXCESS · B_crit`.

    References:
        Shallue et al. (2018), arXiv 1811.03600, Sec. 4.1, names the regimes; the limits are ours.
    """
    return MOST_EXCESS * b_crit


def maximal_start(b_crit: float) -> float:
    """Batch from which a doubling saves at most `LEAST_SAVING` of the steps: 4 B_crit.

    `S(2B) = (1 − f) S(B)` at `B = B_crit (1/2 − f) / f`. Ours; see `perfect_end`.
    """
    return b_crit * (0.5 - LEAST_SAVING) / LEAST_SAVING
