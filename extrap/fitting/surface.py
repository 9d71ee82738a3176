"""A polynomial through the log losses around the best value, and the minimum it has.

In log2 of the tuned values the polynomial is cubic, because an excess-loss curve is steeper
towards high rates, or quadratic. Its third-order terms say how asymmetric the excess-loss curve
is. At one size they are poorly known; the sizes of a sweep have similar ones, so that each size
uses those of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.distributions import f_quantile
from extrap.laws.base import Array

POOLED = 3.0
"""The other sizes together count for so many sizes, or for their own number if that is less."""
MISFIT_SCALE = 0.01
"""The polynomial errs more at a larger excess: variance proportional to 1 + (excess / this)²."""
SEPARABLE = 1e-6
"""Third-order terms are distinguished from lower ones by at least this share of their square."""
SIGNIFICANT = 0.95
"""Quantile of the F distribution beyond which residuals are larger than the known noise."""
NEWTON_STEPS = 40
NEWTON_REACH = 0.25
"""Longest step, as a fraction of the box."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbourhood:
    """The runs around the best value of one size.

    Attributes:
        u: log2 of the tuned values minus `start`, shape (n_runs, n_tuned).
        y: Log losses, shape (n_runs,).
        weights: Relative weights, shape (n_runs,).
        seeds: Columns for what a seed does to all its runs alike, shape (n_runs, n_contrasts).
        start: log2 of the best value, shape (n_tuned,).
    """

    u: Array
    y: Array
    weights: Array
    seeds: Array
    start: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asymmetry:
    """Third-order terms as other sizes have them: their mean and its precision."""

    mean: Array
    precision: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vertex:
    """Minimum of a fitted polynomial: log2 position and log loss, with their variances."""

    position: Array
    covariance: Array
    log_loss: float
    log_loss_variance: float
    dof: float


def pool_asymmetry(sizes: Sequence[Neighbourhood]) -> list[Asymmetry | None]:
    """For every size the third-order terms of all the others; None where these do not tell.

    Derivatives of third order are the same wherever the polynomial is centred, so the normal
    equations of the sizes, lower orders and seeds projected out, simply add up. The others weigh
    like `POOLED` sizes of their average information, however many they are: a size that knows
    its own asymmetry keeps it.
    """
    if not sizes:
        return []
    parts = [_third_order(size) for size in sizes]
    n = len(parts)
    information, right, total = (sum(p[i] for p in parts) for i in range(3))
    pooled: list[Asymmetry | None] = []
    for own_information, own_right, own_total in parts:
        others = information - own_information
        root = np.sqrt(np.diag(total - own_total))
        is_known = n >= 3 and bool(np.all(root > 0))
        if not is_known or np.linalg.eigvalsh(others / np.outer(root, root))[0] < SEPARABLE:
            pooled.append(None)
            continue
        mean = np.asarray(np.linalg.solve(others, right - own_right), dtype=float)
        share = min(POOLED, n - 1) / (n - 1)
        pooled.append(Asymmetry(mean=mean, precision=share * others))
    return pooled


def pool_scatter(
    sizes: Sequence[Neighbourhood], asymmetries: Sequence[Asymmetry | None]
) -> tuple[float, int]:
    """Standard deviation of a log loss about the cubic surfaces of all sizes, and its dof."""
    squares, dof = 0.0, 0.0
    for size, asymmetry in zip(sizes, asymmetries, strict=True):
        if asymmetry is not None:
            solved = _solve(size, 3, asymmetry)
            squares, dof = squares + solved.square, dof + solved.dof
    return (float(np.sqrt(squares / dof)), int(dof)) if dof >= 1 else (0.0, 0)


def fit_surface(
    size: Neighbourhood,
    *,
    degree: int,
    asymmetry: Asymmetry | None,
    known_sd: float,
    known_dof: int,
) -> Vertex | None:
    """Weighted least squares, then the interior minimum, if any, by the delta method."""
    solved = _solve(size, degree, asymmetry)
    powers, theta = solved.powers, solved.theta
    position = interior_minimum(powers, theta, size.u.min(axis=0), size.u.max(axis=0))
    if position is None:
        return None
    variance, dof = _scale(solved, known_sd**2, known_dof)
    hessian = _derivatives(powers, theta, position[None])[1][0]
    sensitivity = np.linalg.solve(hessian, _gradient_rows(powers, position[None])[0])
    covariance = solved.inverse * variance
    at_vertex = _evaluate(powers, position[None])[0]
    return Vertex(
        position=position + size.start,
        covariance=sensitivity @ covariance @ sensitivity.T,
        log_loss=float(at_vertex @ theta),
        log_loss_variance=float(at_vertex @ covariance @ at_vertex),
        dof=dof,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Solved:
    """Coefficients of a polynomial, their unscaled covariance, the residual square, its dof."""

    powers: Array
    theta: Array
    inverse: Array
    square: float
    dof: float


def _solve(size: Neighbourhood, degree: int, asymmetry: Asymmetry | None) -> _Solved:
    powers = monomials(size.u.shape[1], degree)
    design = np.column_stack([_evaluate(powers, size.u), size.seeds])
    root = np.sqrt(size.weights)
    weighted = design * root[:, None]
    normal, right = weighted.T @ weighted, weighted.T @ (size.y * root)
    n_parameters = float(np.linalg.matrix_rank(design))
    if asymmetry is not None:
        third = np.flatnonzero(powers.sum(axis=1) == 3)
        own, precision = _third_order(size)[0], asymmetry.precision
        normal[np.ix_(third, third)] += precision
        right[third] += precision @ asymmetry.mean
        n_parameters = float(np.linalg.matrix_rank(np.delete(design, third, axis=1)))
        n_parameters += float(np.trace(np.linalg.solve(own + precision, own)))
    inverse = np.linalg.pinv(normal, hermitian=True)
    coefficients = inverse @ right
    residual = (size.y - design @ coefficients) * root
    n = len(powers)
    return _Solved(
        powers=powers,
        theta=coefficients[:n],
        inverse=inverse[:n, :n],
        square=float(residual @ residual),
        dof=max(len(size.y) - n_parameters, 0.0),
    )


def _scale(solved: _Solved, known: float, known_dof: int) -> tuple[float, float]:
    """Variance of a log loss and its degrees of freedom: as known, unless the fit says no."""
    dof = max(solved.dof, 1.0)
    own = solved.square / dof
    if not known_dof or own > known * float(f_quantile(SIGNIFICANT, dof, known_dof)):
        return own, dof
    return known, dof + known_dof


def monomials(d: int, degree: int) -> Array:
    """Exponents of all monomials up to a total degree, shape (n_terms, d)."""
    powers = itertools.product(range(degree + 1), repeat=d)
    return np.array([p for p in powers if sum(p) <= degree])


def interior_minimum(powers: Array, theta: Array, low: Array, high: Array) -> Array | None:
    """The local minimum of the polynomial inside a box; None if it has none there."""
    # there is at most one: along the line through two of them a cubic would have two minima
    d, reach = len(low), NEWTON_REACH * (high - low)
    at = low + (high - low) * _starts(d)
    for _ in range(NEWTON_STEPS):
        gradient, hessian = _derivatives(powers, theta, at)
        values, vectors = np.linalg.eigh(hessian)
        # downhill also where the surface is not convex
        bent = np.maximum(np.abs(values), 1e-9 * np.abs(values).max() + 1e-300)
        step = np.einsum("mij,mj->mi", vectors, np.einsum("mij,mi->mj", vectors, gradient) / bent)
        before, at = at, np.clip(at - np.clip(step, -reach, reach), low, high)
        if np.all(np.abs(at - before) <= 1e-13 * reach):
            break
    gradient, hessian = _derivatives(powers, theta, at)
    margin = 1e-6 * (high - low)
    flat = np.all(np.abs(gradient) <= 1e-8 * np.abs(theta[1:]).max(), axis=1)
    inside = np.all((at > low + margin) & (at < high - margin), axis=1)
    convex = np.linalg.eigvalsh(hessian)[:, 0] > 0
    found = at[flat & inside & convex]
    if not len(found):
        return None
    return np.asarray(found[np.argmin(_evaluate(powers, found) @ theta)])


def _starts(d: int) -> Array:
    """Points of the unit box: a grid, or from four dimensions on the centre and its neighbours."""
    if d <= 3:
        return np.array(list(itertools.product((0.1, 0.3, 0.5, 0.7, 0.9), repeat=d)))
    return 0.5 + 0.3 * np.vstack([np.zeros(d), np.eye(d), -np.eye(d)])


def _third_order(size: Neighbourhood) -> tuple[Array, Array, Array]:
    """Normal equations of the third-order terms, lower ones projected out, and unprojected."""
    d = size.u.shape[1]
    powers = monomials(d, 3)
    third = powers.sum(axis=1) == 3
    root = np.sqrt(size.weights)[:, None]
    terms = _evaluate(powers, size.u)
    basis, scale, _ = np.linalg.svd(
        np.column_stack([terms[:, ~third], size.seeds]) * root, full_matrices=False
    )
    low = basis[:, scale > 1e-10 * scale[0]]
    high = terms[:, third] * root
    rest = high - low @ (low.T @ high)
    return rest.T @ rest, rest.T @ (size.y * root[:, 0]), high.T @ high


def _evaluate(powers: Array, u: Array) -> Array:
    return np.asarray(np.prod(u[:, None, :] ** powers[None], axis=2))


def _lowered(powers: Array, axis: int) -> Array:
    lowered = powers.copy()
    lowered[:, axis] = np.maximum(lowered[:, axis] - 1, 0)
    return lowered


def _gradient_rows(powers: Array, at: Array) -> Array:
    """Derivative of each monomial at points (m, d), shape (m, d, n_terms)."""
    rows = [powers[:, a] * _evaluate(_lowered(powers, a), at) for a in range(at.shape[1])]
    return np.stack(rows, axis=1)


def _derivatives(powers: Array, theta: Array, at: Array) -> tuple[Array, Array]:
    """Gradient (m, d) and Hessian (m, d, d) of the polynomial at points (m, d)."""
    hessian = [
        _gradient_rows(_lowered(powers, a), at) @ (theta * powers[:, a])
        for a in range(at.shape[1])
    ]
    return _gradient_rows(powers, at) @ theta, np.stack(hessian, axis=1)
