"""Estimators: from runs to optima, from optima to laws, with their uncertainty.

What to use when:

* `loss_law.fit` — one law through losses at several sizes.
* `loss_model.fit_loss_model` — the loss over size for a forecast: laws, local law, structural
  discrepancy.
* `curve_laws.fit_surviving_laws` — every loss law the data cannot reject, with weights.
* `surface.fitted_sizes.fit_sweep` — one model of all losses of a sweep: noise, the best tuned
  values and the loss of each size, draws of all of it.
* `surface.tuned_values.TunedValues` — what the draws say at one size: values to use, what others
  cost, chances of divergence.
* `reference_curves.log_likelihood_ratios` — evidence that a curve is not that of a tuned run.
* `refusals.doubt_loss`, `doubt_tuned` — where a forecast says nothing, and why.
* `means.holm` — p-values of several tests, adjusted for their number.
* `transfer_rules.compare_rules` — what known rules would cost instead.
* `outliers.find_outliers` — runs far from the other seeds of their cell.
* `distance.extrapolation_ratio` — how far a size lies beyond the fitted ones.
"""
