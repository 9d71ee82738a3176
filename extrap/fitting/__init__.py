"""Estimators: from runs to optima, from optima to laws, with their uncertainty.

What to use when:

* `loss_law.fit` — one law through losses at several sizes.
* `loss_model.fit_loss_model` — the loss over size for a forecast: laws, local law, structural
  discrepancy.
* `mixture.fit_surviving_laws` — every loss law the data cannot reject, with weights.
* `optimum.estimate_optima` — the best tuned values at each size of a sweep; `place_outside` —
  also those beside the values tried.
* `optimum_law.fit_optimum_law` — how such an optimum moves with size; `check_curvature` — whether
  that law bends.
* `reference_curves.ways_to_be_off`, `log_ratios` — evidence that a curve is not that of a tuned
  run.
* `excess_curve.fit_excess_curve` — what a mistuned value costs.
* `divergence.fit_divergence` — how likely a run diverges.
* `spread.recommend` — the values of smallest expected loss, given all of these.
* `refusals.doubt_loss`, `doubt_tuned` — where a forecast says nothing, and why.
* `bracketing.grow_grid` — the grid of a sweep, grown where its best value lies near the edge.
* `means.holm` — p-values of several tests, adjusted for their number.
* `transfer_rules.compare_rules` — what known rules would cost instead.
* `outliers.find_outliers` — runs far from the other seeds of their cell.
* `distance.extrapolation_ratio` — how far a size lies beyond the fitted ones.
* `kept.keep_values` — what keeping the value of a fitted size would cost.
"""
