"""Estimators: from runs to optima, from optima to laws, with their uncertainty.

What to use when:

* `fit` — one law through losses at several sizes.
* `fit_surviving_laws` — every loss law the data cannot reject, with weights.
* `estimate_optima` — the best tuned values at each size of a sweep.
* `fit_optimum_law` — how such an optimum moves with size.
* `fit_valley` — what a mistuned value costs.
"""

from __future__ import annotations

from extrap.fitting.bracketing import grow_grid
from extrap.fitting.loss_law import fit, predict_log, relative_sizes
from extrap.fitting.mixture import fit_surviving_laws
from extrap.fitting.noise import Noise, estimate_noise
from extrap.fitting.optimum import estimate_optima
from extrap.fitting.optimum_law import fit_optimum_law
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.valley import Valley, fit_valley

__all__ = [
    "LossPrediction",
    "Noise",
    "Valley",
    "estimate_noise",
    "estimate_optima",
    "fit",
    "fit_optimum_law",
    "fit_surviving_laws",
    "fit_valley",
    "grow_grid",
    "predict_log",
    "relative_sizes",
]
