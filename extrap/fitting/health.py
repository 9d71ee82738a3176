"""What is doubtful about a fit, by name.

* `too-few-sizes` — one residual degree of freedom: the fit can hardly fail.
* `columns-collinear` — size columns move together; only pinned parameters keep them apart.
* `floor-at-zero`, `size-without-effect` — a coefficient ended at zero.
* `bound-hit` — a shape parameter ended at the edge of its range.
* `exponent-weakly-identified` — the standard error of an exponent's logarithm exceeds .5.
* `ill-conditioned` — parameters trade against each other; the curve is known, they are not.
* `starts-disagree` — another solution fits as well and extrapolates differently.
* `lack-of-fit` — the residuals exceed the known noise; only where that noise is given.
* `loss-turns-negative` — the law falls below zero at some size.
"""

from __future__ import annotations

import numpy as np

from extrap.fitting.distributions import chi2_tail, f_tail
from extrap.fitting.projection import Problem, ShapeSpace, Solutions
from extrap.laws import LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit

LACK_OF_FIT_P = 0.01
"""A law lacks fit when its residuals are rejected at this level; no law fits when each is."""
WEAK_LOG_SE = 0.5
"""Standard error of the logarithm of an exponent above which the exponent is weakly identified."""
GOOD_CONDITION = 1e5
"""Condition number of the gradient, each parameter scaled to length 1, that is still good."""
ZERO_SHARE = 1e-9
"""Share of the largest coefficient up to which another one is zero but for rounding."""
BOUND_MARGIN = 0.01
"""Distance from a bound that counts as on it: relative, or of the range on a linear scale."""
EQUAL_FIT_RATIO = 1.05
"""Ratio of objectives up to which another start fits as well."""
COMPARED_RATIO = 4.0
"""Multiple of the largest sizes at which such solutions are compared."""
MAX_LOG_DIFFERENCE = 0.01
"""Range of their log losses there above which they disagree."""


def lack_of_fit_p(chi2: float, dof: int, noise_dof: int | None) -> float:
    """p-value of residuals against a known noise: F, or χ² where the noise is known exactly."""
    if noise_dof is None:
        return float(chi2_tail(chi2, dof))
    return float(f_tail(chi2 / dof, dof, noise_dof))


def health_flags(
    fitted: Fit, problem: Problem, *, solutions: Solutions, gradient: Array, collinear: bool
) -> tuple[str, ...]:
    """Flags that follow from the numbers of a fit; those of its noise are added by `fit`."""
    law = LOSS_LAWS[fitted.law]
    flags = {
        "too-few-sizes": fitted.dof < 2,
        "columns-collinear": collinear,
        **_coefficients_at_zero(fitted),
        "bound-hit": _at_bound(fitted, problem),
        "exponent-weakly-identified": has_weak_exponent(fitted),
        "ill-conditioned": _condition(gradient) > GOOD_CONDITION,
        "starts-disagree": _disagree(problem, solutions),
        "loss-turns-negative": law.may_turn_negative and fitted.parameters["b"] > 0,
    }
    return tuple(name for name, is_so in flags.items() if is_so)


def _coefficients_at_zero(fitted: Fit) -> dict[str, bool]:
    names = LOSS_LAWS[fitted.law].coefficients(len(fitted.columns))
    nothing = ZERO_SHARE * max(fitted.parameters[name] for name in names)
    zero = {n for n in names if fitted.parameters[n] <= nothing and n not in fitted.fixed}
    return {"floor-at-zero": "E" in zero, "size-without-effect": bool(zero - {"E"})}


def _at_bound(fitted: Fit, problem: Problem) -> bool:
    space = ShapeSpace(problem)
    n_shape = len(space.pinned)
    search = space.to_search(np.array(fitted.values[len(fitted.values) - n_shape :]))
    margin = np.where(space.is_log, BOUND_MARGIN, BOUND_MARGIN * (space.high - space.low))
    return bool(np.any((search <= space.low + margin) | (search >= space.high - margin)))


def has_weak_exponent(fitted: Fit) -> bool:
    """Whether the standard error of a fitted exponent is more than half of it."""
    exponents = set(LOSS_LAWS[fitted.law].exponents(len(fitted.columns))) - set(fitted.fixed)
    for i, (name, value) in enumerate(fitted.parameters.items()):
        if name in exponents and fitted.covariance[i][i] > (WEAK_LOG_SE * value) ** 2:
            return True
    return False


def _condition(gradient: Array) -> float:
    norm = np.linalg.norm(gradient, axis=0)
    scaled = gradient[:, norm > 0] / norm[norm > 0]
    return float(np.linalg.cond(scaled)) if scaled.size else 1.0


def _disagree(problem: Problem, solutions: Solutions) -> bool:
    values, objective = solutions.values[0], solutions.objective[0]
    rounding = 1e-20 * float(problem.weight[0].sum())
    as_good = values[objective <= EQUAL_FIT_RATIO * objective.min() + rounding]
    far = COMPARED_RATIO * problem.z.max(axis=0, keepdims=True)
    return bool(np.ptp(problem.law.log_predict(as_good, far)) > MAX_LOG_DIFFERENCE)
