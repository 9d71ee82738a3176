"""One law through losses at several sizes: variable projection on relative residuals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import optimize

from extrap.errors import DataError, FitError
from extrap.fitting.designs import check_sizes
from extrap.laws import LAWS, LOSS_LAWS, ConditionallyLinearLaw
from extrap.laws.base import Array
from extrap.records import Fit

__all__ = ["fit", "predict_log", "relative_sizes"]

MIN_LOG_SE = 0.002
"""Weak floor on the standard error of a log loss: no law is exact to better than .2 %."""


EXACT_DOF = 1000
"""Degrees of freedom that stand for a noise known exactly."""


def fit(
    law: str,
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None = None,
    loss_se_dof: int | None = None,
) -> Fit:
    """Fit one loss law by weighted least squares on relative residuals.

    Minimises `Σ ((L_i − f(x_i)) / (L_i s_i))²` over non-negative coefficients and bounded
    exponents; the coefficients are solved for exactly at every trial of the exponents (variable
    projection) and the exponents are refined by optimisation from several starts.

    Args:
        law: Key of a loss law: `"power"` or `"power_floor"`.
        sizes: Size column → sizes, positive, shape (n_points,) each.
        loss: Losses, positive, shape (n_points,).
        loss_se: Standard errors of the losses, same unit; without them all points weigh the same
            and the noise is read from the residuals.
        loss_se_dof: Degrees of freedom behind `loss_se`; None if it is known exactly.

    Returns:
        The fit. Its covariance is scaled up by the reduced chi-square where that exceeds 1.

    Raises:
        ValueError: The law is unknown.
        DataError: Fewer sizes than parameters plus one, a size column that hardly varies, or
            size columns that move together.
        FitError: No start converged.

    References:
        Golub, Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares
        problems whose variables separate; Czech (2026), arXiv 2603.22339, for the Chinchilla law.
    """
    if law not in LOSS_LAWS:
        raise ValueError(f"law must be one of {', '.join(LOSS_LAWS)}; got {law!r}.")
    formula = LOSS_LAWS[law]
    x = np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
    y = np.asarray(loss, dtype=float)
    names = formula.names(x.shape[1])
    _check_points(x, columns=tuple(sizes), law=law, n_parameters=len(names))
    reference = np.exp(np.log(x).mean(axis=0))
    z = x / reference
    log_se = np.ones(len(y)) if loss_se is None else np.asarray(loss_se, dtype=float) / y
    if loss_se is not None:
        log_se = np.hypot(log_se, MIN_LOG_SE)
    values, chi2 = _project(formula, z, y, log_se)
    dof = len(y) - len(names)
    inflation = chi2 / dof if loss_se is None else max(chi2 / dof, 1.0)
    gradient = formula.log_gradient(values, z) / log_se[:, None]
    covariance = _inverse_of_square(gradient) * inflation
    return Fit(
        law=law,
        names=names,
        values=tuple(map(float, values)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        scatter=float(np.sqrt(inflation * np.mean(log_se**2))),
        dof=dof,
        scale_dof=_scale_dof(chi2, dof, known=loss_se is not None, known_dof=loss_se_dof),
        chi2=float(chi2),
        columns=tuple(sizes),
        reference=tuple(map(float, reference)),
        fitted_range=tuple((float(c.min()), float(c.max())) for c in x.T),
        n_points=len(y),
        flags=_health(formula, values, x.shape[1]),
    )


def predict_log(fitted: Fit, z: Array) -> tuple[Array, Array]:
    """Log of a fitted law and its standard error (delta method), each of shape (n_points,)."""
    law, values = LAWS[fitted.law], np.asarray(fitted.values, dtype=float)
    gradient = law.log_gradient(values, z)
    variance = np.einsum("ni,ij,nj->n", gradient, np.asarray(fitted.covariance), gradient)
    return law.log_predict(values, z), np.sqrt(np.maximum(variance, 0.0))


def relative_sizes(fitted: Fit, size: Mapping[str, float]) -> Array:
    """One size as the `z = x / x0` of a fit, shape (1, n_columns)."""
    x = np.array([[float(size[column]) for column in fitted.columns]])
    return np.asarray(x / np.asarray(fitted.reference))


def _inverse_of_square(gradient: Array) -> Array:
    """`(Gᵀ G)⁻¹`, columns scaled first: parameters may be 10²⁴ (a loss) and 0.3 (an exponent)."""
    norm = np.linalg.norm(gradient, axis=0)
    scale = np.where(norm > 0, norm, 1.0)
    root = np.linalg.pinv(gradient / scale) / scale[:, None]
    return np.asarray(root @ root.T)


def _scale_dof(chi2: float, dof: int, *, known: bool, known_dof: int | None) -> int:
    """Where the residuals agree with the known noise, its degrees of freedom count."""
    if not known or chi2 > dof:
        return dof
    return max(dof, EXACT_DOF if known_dof is None else known_dof)


def _check_points(x: Array, *, columns: tuple[str, ...], law: str, n_parameters: int) -> None:
    n_sizes = len(np.unique(x, axis=0))
    if n_sizes < n_parameters + 1:
        raise DataError(
            f"the law {law} has {n_parameters} parameters and needs at least {n_parameters + 1} "
            f"distinct sizes, got {n_sizes}; add sizes."
        )
    check_sizes(x, columns)


def _project(
    law: ConditionallyLinearLaw, z: Array, y: Array, log_se: Array
) -> tuple[Array, float]:
    """Best parameters and their chi-square, over several starts of the exponents."""
    target = 1.0 / log_se

    def solve(exponents: Array) -> tuple[Array, float]:
        basis = law.basis(exponents, z) / (y * log_se)[:, None]
        scale = np.linalg.norm(basis, axis=0)
        coefficients, norm = optimize.nnls(basis / scale, target)
        return coefficients / scale, float(norm**2)

    k = z.shape[1]
    bounds = [law.exponent_bounds] * k
    best: tuple[float, Array] | None = None
    for start in itertools.product(law.exponent_starts, repeat=k):
        scale = solve(np.array(start))[1] or 1.0
        # a simplex: where a coefficient reaches 0 there is a kink, and L-BFGS-B's linear algebra
        # waits milliseconds a step for its threads where other work keeps the cores busy
        found = optimize.minimize(
            lambda log_c, scale=scale: solve(np.exp(log_c))[1] / scale,
            np.log(start),
            method="Nelder-Mead",
            bounds=np.log(bounds),
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 400 * k},
        )
        if np.isfinite(found.fun) and (best is None or found.fun * scale < best[0]):
            best = (float(found.fun * scale), np.exp(found.x))
    if best is None:
        raise FitError(f"no start of the law {law.key} converged; check the losses for outliers.")
    exponents = best[1]
    coefficients, chi2 = solve(exponents)
    return np.concatenate([coefficients, exponents]), chi2


def _health(law: ConditionallyLinearLaw, values: Array, k: int) -> tuple[str, ...]:
    exponents = values[law.n_coefficients(k) :]
    flags = []
    low, high = law.exponent_bounds
    if np.any(exponents <= low * 1.01) or np.any(exponents >= high / 1.01):
        flags.append("exponent-at-bound")
    if law.key == "power_floor" and values[0] == 0:
        flags.append("floor-at-zero")
    if law.key == "power_floor" and np.any(values[1 : 1 + k] == 0):
        flags.append("size-without-effect")
    return tuple(flags)
