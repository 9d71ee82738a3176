"""Power laws with a floor through the tuned losses of an arm, for many resamples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array

EXPONENTS = (-3.0, 3.0)
"""Bounds of an exponent."""
STARTS = np.geomspace(0.03, 2.0, 12)
"""Trial exponents of the first fit."""
STEPS = 60
TOLERANCE = 1e-9
LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """`L = E + Σ_j b_j (x_j / x0_j)^(−c_j)`, one row per resample, the whole sample first.

    Attributes:
        floors: E, shape (n_rows,).
        log_scales: ln b, shape (n_rows, n_columns).
        exponents: c, shape (n_rows, n_columns).
        log_reference: ln x0, shape (n_columns,).
    """

    floors: Array
    log_scales: Array
    exponents: Array
    log_reference: Array

    def log_loss(self, log_size: Array) -> Array:
        """Log losses at ln x, shape (n_points, n_columns) → (n_rows, n_points)."""
        t = np.asarray(log_size, dtype=float) - self.log_reference
        power = self.log_scales[:, None] - self.exponents[:, None] * t
        reducible = np.exp(np.clip(power, -LARGEST_LOG, LARGEST_LOG)).sum(axis=2)
        return np.asarray(np.log(self.floors[:, None] + reducible))

    def rows(self, which: slice) -> Curves:
        """Some of the rows."""
        return Curves(
            floors=self.floors[which],
            log_scales=self.log_scales[which],
            exponents=self.exponents[which],
            log_reference=self.log_reference,
        )


def n_parameters(n_columns: int) -> int:
    """Of the curve of one arm."""
    return 1 + 2 * n_columns


def fit_curves(log_size: Array, log_loss: Array, weights: Array, *, n_arms: int) -> Curves:
    """Weighted least squares on log losses, floors in [0, smallest loss).

    The first row of each arm is fitted from a grid of exponents, its others from the result.

    Args:
        log_size: ln x, shape (n_sizes, n_columns).
        log_loss: Mean log losses, shape (n_arms · n_rows, n_sizes), arm after arm; any number
            where the weight is 0.
        weights: Of the sizes, same shape.
        n_arms: How many arms.
    """
    k, n_rows = log_size.shape[1], len(log_loss) // n_arms
    reference = log_size.mean(axis=0)
    t, whole = log_size - reference, slice(None, None, n_rows)
    firsts = [_starts(t, y, w) for y, w in zip(log_loss[whole], weights[whole], strict=True)]
    again = [np.repeat(each[whole], len(STARTS), axis=0) for each in (log_loss, weights)]
    theta, squares = _refine(np.concatenate(firsts), t, *again)
    best = squares.reshape(n_arms, -1).argmin(axis=1) + len(STARTS) * np.arange(n_arms)
    theta, _ = _refine(np.repeat(theta[best], n_rows, axis=0), t, log_loss, weights)
    return Curves(
        floors=theta[:, 0],
        log_scales=theta[:, 1 : 1 + k],
        exponents=theta[:, 1 + k :],
        log_reference=reference,
    )


def _starts(t: Array, log_loss: Array, weights: Array) -> Array:
    """Parameters for trial exponents, equal in all columns: half of the smallest loss as floor."""
    known = weights > 0
    loss, k = np.exp(log_loss[known]), t.shape[1]
    rows = []
    for exponent in STARTS:
        terms = np.exp(-exponent * t[known])
        design = np.column_stack([np.ones(len(loss)), terms]) / loss[:, None]
        values = np.linalg.lstsq(design, np.ones(len(loss)), rcond=None)[0]
        floor = min(max(values[0], 0.0), 0.99 * loss.min())
        scale = np.maximum(values[1:], 1e-3 * loss.mean())
        if floor != values[0]:
            scale = np.full(k, float(np.median((loss - floor) / terms.sum(axis=1))))
        rows.append([floor, *np.log(scale), *([exponent] * k)])
    return np.array(rows)


def _refine(theta: Array, t: Array, log_loss: Array, weights: Array) -> tuple[Array, Array]:
    """Levenberg-Marquardt within bounds for all rows at once; parameters and sums of squares."""
    n_rows, k = len(theta), t.shape[1]
    lowest = np.where(weights > 0, log_loss, np.inf).min(axis=1)
    free = np.full((n_rows, k), LARGEST_LOG)
    low = np.column_stack([np.zeros(n_rows), -free, np.full((n_rows, k), EXPONENTS[0])])
    high = np.column_stack([(1 - 1e-4) * np.exp(lowest), free, np.full((n_rows, k), EXPONENTS[1])])
    theta, root = np.clip(theta, low, high), np.sqrt(weights)
    off, jacobian = _residuals(theta, t, log_loss, root)
    square, damping = (off**2).sum(axis=1), np.full(n_rows, 1e-4)
    is_open = np.ones(n_rows, dtype=bool)
    eye = np.eye(theta.shape[1])
    for _ in range(STEPS):
        gradient = np.einsum("rnp,rn->rp", jacobian, off)
        held = ((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0))
        scale = np.maximum(np.sqrt((jacobian**2).sum(axis=1)), 1e-12)
        scaled = np.where(held[:, None], 0.0, jacobian / scale[:, None])
        normal = np.einsum("rnp,rnq->rpq", scaled, scaled)
        normal += (damping[:, None] + np.where(held, 1.0, 1e-12))[:, :, None] * eye
        step = np.linalg.solve(normal, -np.where(held, 0.0, gradient / scale)[..., None])[..., 0]
        trial = np.clip(theta + step / scale, low, high)
        off_trial, jacobian_trial = _residuals(trial, t, log_loss, root)
        square_trial = (off_trial**2).sum(axis=1)
        is_better = is_open & (square_trial <= square)
        done = is_better & (square - square_trial <= TOLERANCE * square) & (damping <= 1e-2)
        theta = np.where(is_better[:, None], trial, theta)
        off = np.where(is_better[:, None], off_trial, off)
        jacobian = np.where(is_better[:, None, None], jacobian_trial, jacobian)
        square = np.where(is_better, square_trial, square)
        damping = np.where(is_better, damping / 10, damping * 10)
        is_open &= ~done & (damping < 1e8)
        if not is_open.any():
            break
    return theta, square


def _residuals(theta: Array, t: Array, log_loss: Array, root: Array) -> tuple[Array, Array]:
    k = t.shape[1]
    power = theta[:, None, 1 : 1 + k] - theta[:, None, 1 + k :] * t
    terms = np.exp(np.clip(power, -LARGEST_LOG, LARGEST_LOG))
    loss = theta[:, :1] + terms.sum(axis=2)
    share = terms / loss[..., None]
    jacobian = np.concatenate([1 / loss[..., None], share, -share * t], axis=2)
    return root * (np.log(loss) - log_loss), root[..., None] * jacobian
