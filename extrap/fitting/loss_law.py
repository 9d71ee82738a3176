"""`fit`: one law through losses; `predict_log`: any fitted law, of a loss or an optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from extrap.errors import DataError, FitError, argument
from extrap.fitting.designs import check_identifiable
from extrap.fitting.health import LACK_OF_FIT_P, health_flags, lack_of_fit_p
from extrap.fitting.one_thread import one_thread
from extrap.fitting.projection import Problem, Solutions, distinct_starts, project, screen
from extrap.fitting.robust import minimise_huber
from extrap.laws import LAWS, LOSS_LAWS, LossLaw
from extrap.laws.base import Array
from extrap.records import Fit

MIN_LOG_SE = 0.002
"""Weak floor on the standard error of a log loss: no law is exact to better than .2 %."""
EXACT_DOF = 1000
"""Degrees of freedom that stand for a noise known exactly."""
N_LAW_STARTS = 16
"""Starting points of a fit: those of least chi-square."""
MAD_TO_SD = 1.4826
"""Median absolute residual → standard deviation, for normal noise."""


@one_thread
def fit(
    law: str,
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None = None,
    loss_se_dof: int | None = None,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
    robust: float | None = None,
) -> Fit:
    """Fit one loss law by weighted least squares on relative residuals, or robustly.

    Minimises `Σ w_i ((L_i − f(x_i)) / (L_i s_i))²` over non-negative coefficients and bounded
    shape parameters, from several starts; the coefficients are solved for exactly at every trial
    of the shape (variable projection). With `robust` it minimises Huber's loss of the log
    residuals instead, from the least-squares solutions of all starts.

    Args:
        law: Key of a loss law in `extrap.laws.LOSS_LAWS`.
        sizes: Size column → sizes, positive, shape (n_points,) each.
        loss: Losses, positive, shape (n_points,).
        loss_se: Standard errors of the losses, same unit; without them all points have equal
            weight and the noise is estimated from the residuals.
        loss_se_dof: Degrees of freedom behind `loss_se`; None if it is known exactly.
        weights: Positive weights of the squared residuals, on top of `loss_se`; their scale
            does not matter where the noise is unknown.
        fix: Parameters to pin, by name: `{"E": 1.6}`. Only those that do not depend on the
            fit's reference size: the floor, exponents.
        robust: δ of Huber's loss, in log units: 1e-3 is the usual recipe. None: least squares.

    Returns:
        The fit. Its covariance is scaled up by the reduced chi-square where that exceeds 1; that
        of a robust fit is the sandwich of an M-estimator and takes its noise from the residuals.

    Raises:
        ValueError: The law is unknown or takes another number of columns; a pin is not one of
            its unit-free parameters or lies out of range; a loss, weight or δ is not positive;
            a standard error is negative; losses or standard errors are not one per point.
        DataError: Fewer sizes than free parameters plus one, a size column that hardly varies,
            or size columns that vary together without a pin to separate them.
        FitError: No start converged.

    References:
        Golub, Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares
        problems whose variables separate; Czech (2026), arXiv 2603.22339, for the Chinchilla law.
        Besiroglu et al. (2024), arXiv 2404.10102, for the robust recipe; Huber (1981), Robust
        statistics, Eq. 6.3.5, for its covariance.

    Example:
        >>> fitted = fit("power_floor", {"width": [16, 32, 64, 128]}, [2.3, 2.2, 2.13, 2.085])
        >>> round(fitted.parameters["E"], 2)
        1.99
    """
    formula, fixed = _law(law, len(sizes)), dict(fix or {})
    x = np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
    names, columns = formula.names(x.shape[1]), tuple(sizes)
    free = [i for i, name in enumerate(names) if name not in fixed]
    collinear = check_losses(formula, sizes, loss, loss_se, fixed=fixed, n_free=len(free))
    y, z = np.asarray(loss, dtype=float), x / (reference := formula.reference_size(x))
    log_se, weight = log_errors(y, loss_se), _weight(y, loss_se, weights)
    problem = Problem(law=formula, z=z, y=y[None], weight=weight[None], fixed=fixed)
    solutions = _solve(problem, robust)
    values = solutions.best()[0][0]
    residual = formula.predict(values, z) / y - 1
    chi2, dof = float(np.sum(weight * residual**2)), len(y) - len(free)
    gradient = formula.log_gradient(values, z)[:, free]
    covariance = np.zeros((len(names), len(names)))
    if robust is None:
        inflation = chi2 / dof if loss_se is None else max(chi2 / dof, 1.0)
        scatter = math.sqrt(inflation * np.mean(log_se**2))
        square = _inverse_of_square(gradient * np.sqrt(weight)[:, None]) * inflation
    else:
        off = np.log1p(residual)
        scatter = MAD_TO_SD * float(np.median(np.abs(off))) * math.sqrt(len(y) / dof)
        square = _sandwich(gradient, weight, off, robust)
    covariance[np.ix_(free, free)] = square
    fitted = Fit(
        law=law,
        names=names,
        values=tuple(map(float, values)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        scatter=scatter,
        dof=dof,
        scale_dof=_scale_dof(chi2, dof, has_noise=loss_se is not None, noise_dof=loss_se_dof),
        chi2=chi2,
        columns=columns,
        reference=tuple(map(float, reference)),
        fitted_range=tuple((float(c.min()), float(c.max())) for c in x.T),
        n_points=len(y),
        fixed={name: float(value) for name, value in fixed.items()},
        robust=robust,
    )
    flags = health_flags(
        fitted, problem, solutions=solutions, gradient=gradient, collinear=collinear
    )
    if loss_se is not None:
        against_noise = float(np.sum((residual / log_se) ** 2))
        if lack_of_fit_p(against_noise, dof, loss_se_dof) < LACK_OF_FIT_P:
            flags = (*flags, "lack-of-fit")
    return replace(fitted, flags=flags)


def log_errors(loss: Sequence[float] | Array, loss_se: Sequence[float] | None) -> Array:
    """Standard errors of log losses with the weak floor; 1 where they are not known."""
    y = np.asarray(loss, dtype=float)
    if loss_se is None:
        return np.ones(len(y))
    return np.hypot(np.asarray(loss_se, dtype=float) / y, MIN_LOG_SE)


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


def check_losses(
    law: LossLaw,
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    loss_se: Sequence[float] | None,
    *,
    fixed: Mapping[str, float],
    n_free: int,
) -> bool:
    """Refuse losses that cannot carry a law, with the errors of `fit`.

    Returns:
        Whether size columns move together, so that only pinned exponents separate them.
    """
    x = np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
    _check_names(law, fixed, x.shape[1])
    n_sizes = len(np.unique(x, axis=0))
    if n_sizes < n_free + 1:
        free = "free parameters" if fixed else "parameters"
        raise DataError(
            f"the law {law.key} has {n_free} {free} and needs at least {n_free + 1} "
            f"distinct sizes, got {n_sizes}; add sizes."
        )
    exponents = law.exponents(len(sizes))
    collinear = check_identifiable(x, tuple(sizes), exponents=exponents, fixed=fixed)
    _check_values(loss, loss_se, n=len(x))
    _check_ranges(law, fixed, x / law.reference_size(x))
    return collinear


def _law(key: str, n_columns: int) -> LossLaw:
    if key not in LOSS_LAWS:
        raise ValueError(f"law must be one of {', '.join(LOSS_LAWS)}; got {key!r}.")
    law = LOSS_LAWS[key]
    if n_columns not in law.n_columns:
        takes = " or ".join(map(str, law.n_columns))
        raise ValueError(
            f"the law {key} takes {takes} size column(s), got {n_columns}; choose another law."
        )
    return law


def _check_names(law: LossLaw, fixed: Mapping[str, float], n_columns: int) -> None:
    allowed = law.unit_free(n_columns)
    for name in fixed:
        if name not in law.names(n_columns):
            raise ValueError(
                f"{argument('fix')} must name parameters of the law {law.key}, got {name!r}; pin "
                f"one of {', '.join(allowed)}."
            )
        if name not in allowed:
            raise ValueError(
                f"{name} of the law {law.key} depends on the fit's reference size and the "
                f"unit of size, so it cannot be pinned; pin one of {', '.join(allowed)}."
            )


def _check_ranges(law: LossLaw, fixed: Mapping[str, float], z: Array) -> None:
    ranges = dict(zip(law.shape(z.shape[1]), law.ranges(z), strict=True))
    for name, value in fixed.items():
        low, high = ranges[name][:2] if name in ranges else (0.0, math.inf)
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(
                f"{name} of the law {law.key} must lie in [{low:g}, {high:g}], got {value:g}."
            )


def _check_values(loss: Sequence[float], loss_se: Sequence[float] | None, *, n: int) -> None:
    y = np.asarray(loss, dtype=float)
    if y.shape != (n,) or not (np.isfinite(y) & (y > 0)).all():
        raise ValueError(
            f"loss must be {n} positive numbers, got {_numbers(y)}; drop runs without a loss."
        )
    if loss_se is not None:
        se = np.asarray(loss_se, dtype=float)
        if se.shape != (n,) or not (np.isfinite(se) & (se >= 0)).all():
            raise ValueError(
                f"loss_se must be {n} numbers of 0 or more, got {_numbers(se)}; leave it out "
                "if unknown."
            )


def _numbers(values: Array) -> str:
    return f"{values.size} from {values.min(initial=np.inf):g} to {values.max(initial=-np.inf):g}"


def _weight(
    loss: Array, loss_se: Sequence[float] | None, weights: Sequence[float] | None
) -> Array:
    """Weight of each squared relative residual."""
    n, noise = len(loss), log_errors(loss, loss_se) ** -2.0
    if weights is None:
        return noise
    values = np.asarray(weights, dtype=float)
    if values.shape != (n,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(
            f"weights must be {n} positive numbers, one per loss; remove points instead of "
            "giving them no weight."
        )
    return noise * (values / values.mean() if loss_se is None else values)


def _solve(problem: Problem, delta: float | None) -> Solutions:
    starts = distinct_starts(problem)
    screened = screen(problem, starts, keep=N_LAW_STARTS)
    shapes = screened[..., len(problem.law.coefficients(problem.z.shape[1])) :]
    solutions = project(problem, shapes)
    if delta is not None:
        if not (math.isfinite(delta) and delta > 0):
            raise ValueError(
                f"robust must be δ of Huber's loss, a positive number; got {delta:g}."
            )
        starts = np.concatenate([solutions.best()[0][:, None], screened], axis=1)
        solutions = minimise_huber(problem, starts, delta=delta)
    if not np.isfinite(solutions.objective).any():
        raise FitError(
            f"no start of the law {problem.law.key} converged; check the losses for outliers."
        )
    return solutions


def _inverse_of_square(gradient: Array) -> Array:
    """`(Gᵀ G)⁻¹`, columns scaled first: parameters may be 10²⁴ (a loss) and 0.3 (an exponent)."""
    norm = np.linalg.norm(gradient, axis=0)
    scale = np.where(norm > 0, norm, 1.0)
    root = np.linalg.pinv(gradient / scale) / scale[:, None]
    return np.asarray(root @ root.T)


def _sandwich(gradient: Array, weight: Array, residual: Array, delta: float) -> Array:
    """Covariance of an M-estimator: `H⁻¹ (Gᵀ w² ψ² G) H⁻¹`, `H = Gᵀ w ψ' G`."""
    n, p = gradient.shape
    inner = np.abs(residual) <= delta
    bread = _inverse_of_square(gradient * np.sqrt(weight * inner)[:, None])
    filling = gradient * (weight * np.clip(residual, -delta, delta))[:, None]
    return np.asarray(bread @ (filling.T @ filling) @ bread) * n / (n - p)


def _scale_dof(chi2: float, dof: int, *, has_noise: bool, noise_dof: int | None) -> int:
    """Where the residuals agree with the known noise, its degrees of freedom count."""
    if not has_noise or chi2 > dof:
        return dof
    return max(dof, EXACT_DOF if noise_dof is None else noise_dof)
