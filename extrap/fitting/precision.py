"""How precisely a design would locate the optimum of each size, and the slope of their law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.surface import MISFIT_SCALE, POOLED
from extrap.laws.base import Array

MISFIT = 0.05
"""Share of its excess by which a value lies off the polynomial."""
SEPARABLE = 1e-9
"""Least share of a third-order term that lower orders must leave."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Precision:
    """Predicted variances from noise and curvature alone; unit octave², one tuned value.

    Attributes:
        curvature: Second derivative of the log loss at the optimum, per octave².
        sd: Standard deviation of the log loss of one run, without what its seed does to all runs.
        weights: Of the optima in each slope, shape (n_slopes, n_sizes).
    """

    curvature: float
    sd: float
    weights: Array

    def of_position(self, offsets: Array, n_runs: Array) -> float:
        """Variance of the vertex of a cubic, fitted with the weights of `estimate_optima`."""
        if len(offsets) < 3:
            return math.inf
        excess = 0.5 * self.curvature * offsets**2
        share = (excess - excess.min()) / max(MISFIT_SCALE, self.sd)
        weights = n_runs / (1 + share**2)
        terms = offsets[:, None] ** np.arange(4)
        normal = (terms.T * weights) @ terms
        lower = np.linalg.lstsq(normal[:3, :3], normal[:3, 3], rcond=None)[0]
        third = normal[3, 3] - normal[3, :3] @ lower
        kept = slice(0, 4 if third > SEPARABLE * normal[3, 3] else 3)
        normal[3, 3] += POOLED * third
        gain = np.linalg.pinv(normal[kept, kept])[1] @ (terms[:, kept].T * weights)
        variance = self.sd**2 / n_runs + (MISFIT * excess) ** 2
        return float(gain**2 @ variance) / self.curvature**2

    def of_slope(self, variances: Sequence[float]) -> float:
        """Variance of the slope of log2 optimum on log2 size; of several slopes, the sum."""
        return float(np.sum(self.weights**2 @ np.array(variances)))


def slope_weights(log2_sizes: Array) -> Array:
    """Weights of the optima in the least-squares slopes; alike where the sizes do not tell."""
    n, columns = log2_sizes.shape
    design = np.column_stack([np.ones(n), log2_sizes])
    if np.linalg.matrix_rank(design) <= columns:
        return np.full((1, n), 1 / n)
    return np.asarray(np.linalg.pinv(design)[1:])
