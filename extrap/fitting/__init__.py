"""Estimators: from runs to optima, from optima to laws, with their uncertainty.

What to use when:

* `fit` — one law through losses at several sizes.
* `fit_loss_model` — the loss over size for a forecast: laws, local law, structural discrepancy.
* `fit_surviving_laws` — every loss law the data cannot reject, with weights.
* `estimate_optima` — the best tuned values at each size of a sweep; `place_outside` — also those
  beside the values tried.
* `fit_optimum_law` — how such an optimum moves with size.
* `check_curvature` — whether that law bends.
* `ways_to_be_off`, `log_ratios` — evidence that a curve is not that of a tuned run.
* `fit_excess_curve` — what a mistuned value costs.
* `fit_divergence` — how likely a run diverges.
* `recommend` — the values of smallest expected loss, given all of these.
* `doubt_loss`, `doubt_tuned` — where a forecast says nothing, and why.
* `grow_grid` — the grid of a sweep, grown where its best value lies near the edge.
* `holm` — p-values of several tests, adjusted for their number.
* `compare_rules` — what known rules would cost instead.
* `find_outliers` — runs far from the other seeds of their cell.
* `extrapolation_ratio` — how far a size lies beyond the fitted ones.
* `keep_values` — what keeping the value of a fitted size would cost.
"""

from __future__ import annotations

from extrap.fitting.bracketing import grow_grid
from extrap.fitting.distance import extrapolation_ratio
from extrap.fitting.divergence import DivergenceModel, fit_divergence, largest_chance
from extrap.fitting.excess_curve import ExcessCurve, fit_excess_curve
from extrap.fitting.kept import keep_values, penalty_at
from extrap.fitting.loss_law import fit, predict_log, relative_sizes
from extrap.fitting.loss_model import STATED_DOF, LossModel, fit_loss_model
from extrap.fitting.means import holm
from extrap.fitting.mixture import fit_surviving_laws
from extrap.fitting.optimum import estimate_optima, place_outside, sharpen_noise
from extrap.fitting.optimum_law import CurvatureTest, check_curvature, fit_optimum_law
from extrap.fitting.outliers import find_outliers
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.reference_curves import (
    ReferenceCurves,
    at_fractions,
    log_ratios,
    ways_to_be_off,
)
from extrap.fitting.refusals import doubt_loss, doubt_tuned
from extrap.fitting.remedies import (
    Remedy,
    expected_optimum,
    less_noise,
    power_laws,
    shrunk_optimum,
    value_grids,
)
from extrap.fitting.seed_noise import NEW_SEED, MeanNoise, Noise, assume_shared, estimate_noise
from extrap.fitting.spread import predict_optimum, recommend
from extrap.fitting.transfer_rules import RULES, Rule, compare_rules

__all__ = [
    "NEW_SEED",
    "RULES",
    "STATED_DOF",
    "CurvatureTest",
    "DivergenceModel",
    "ExcessCurve",
    "LossModel",
    "LossPrediction",
    "MeanNoise",
    "Noise",
    "ReferenceCurves",
    "Remedy",
    "Rule",
    "assume_shared",
    "at_fractions",
    "check_curvature",
    "compare_rules",
    "doubt_loss",
    "doubt_tuned",
    "estimate_noise",
    "estimate_optima",
    "expected_optimum",
    "extrapolation_ratio",
    "find_outliers",
    "fit",
    "fit_divergence",
    "fit_excess_curve",
    "fit_loss_model",
    "fit_optimum_law",
    "fit_surviving_laws",
    "grow_grid",
    "holm",
    "keep_values",
    "largest_chance",
    "less_noise",
    "log_ratios",
    "penalty_at",
    "place_outside",
    "power_laws",
    "predict_log",
    "predict_optimum",
    "recommend",
    "relative_sizes",
    "sharpen_noise",
    "shrunk_optimum",
    "value_grids",
    "ways_to_be_off",
]
