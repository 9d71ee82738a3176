"""A power law with a floor as the largest sizes see it, for curves that no law follows throughout.

On published learning curves the error of a law is not noise: it grows with the distance from where
one stands. Points therefore count by `(x / x_max)^(2k)`, and because few then remain, exponents
come with a prior and are averaged over instead of being chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.mixture import averaged_law
from extrap.laws.base import Array
from extrap.records import Fit

DISCOUNTS = (1.0, 1.5, 2.0)
"""Powers k of the discount `(x / x_max)^k` of a residual."""
PRIOR_MEDIANS = (0.4, 0.6, 0.8)
PRIOR_SPREADS = (0.35, 0.6)
"""Lognormal priors of the exponent; k and prior are averaged over, since no curve can choose."""
EXPONENTS = np.exp(np.linspace(np.log(0.02), np.log(3.0), 100))
NEGLIGIBLE = 1e-5
"""Components of a smaller weight are left out."""
MIN_SIZES = 4
LEAST_BEST = 1 / 1.2
"""The point that counts most counts at least so much, however well others far off are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLaw:
    """Mixture `ln L = Σ_j w_j ln(E_j + b_j (x / x_max)^(−c_j))` over laws and their discounts.

    Attributes:
        column: The size column.
        smallest: The smallest fitted size.
        largest: x_max, the largest one.
        n_points: Number of fitted points.
        weights: w_j, which sum to 1.
        floors: E_j, in the unit of the loss.
        coefficients: b_j, in the unit of the loss.
        exponents: c_j.
        scatter: Standard deviation of the log loss of a point at x_max about the laws.
        dof: Points that effectively count, `Σ (x / x_max)^(2k)`; behind `scatter`.
    """

    column: str
    smallest: float
    largest: float
    n_points: int
    weights: tuple[float, ...]
    floors: tuple[float, ...]
    coefficients: tuple[float, ...]
    exponents: tuple[float, ...]
    scatter: float
    dof: float

    @property
    def law(self) -> Fit:
        """The averaged law."""
        return averaged_law(
            self.column,
            smallest=self.smallest,
            largest=self.largest,
            weights=np.asarray(self.weights),
            floors=np.asarray(self.floors),
            coefficients=np.asarray(self.coefficients),
            exponents=np.asarray(self.exponents),
            scatter=self.scatter,
            dof=self.dof,
            n_points=self.n_points,
            fixed={},
        )

    def predict_log(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the log loss over the mixture at sizes x, shape (n,) each."""
        z = np.asarray(x, dtype=float)[:, None] / self.largest
        logs = np.log(
            np.asarray(self.floors)
            + np.asarray(self.coefficients) * z ** -np.asarray(self.exponents)
        )
        mean = logs @ np.asarray(self.weights)
        return mean, (logs - mean[:, None]) ** 2 @ np.asarray(self.weights)


def fit_local(
    column: str,
    sizes: Sequence[float],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None = None,
) -> LocalLaw | None:
    """Fit power laws with a floor that discount a point by its distance from the largest size.

    For each exponent c on a grid and each discount k, floor and coefficient follow by non-negative
    least squares on relative residuals `(1 − f / L) (x / x_max)^k`. With R their sum of squares
    and n = Σ (x / x_max)^(2k), the weight of c is `R^(−n/2)` times its prior. Where the largest
    size is known badly, n is in units of the point that then counts most.
    """
    x, y = np.asarray(sizes, dtype=float), np.asarray(loss, dtype=float)
    if len(np.unique(x)) < MIN_SIZES:
        return None
    z = x / x.max()
    precision = np.ones(len(y))
    if loss_se is not None:
        log_se = np.asarray(loss_se, dtype=float) / y
        precision = log_se.min() / log_se if log_se.min() > 0 else precision
    parts, scatters, dofs = [], [], []
    for k in DISCOUNTS:
        root = z**k * precision
        root = root * max(1.0, LEAST_BEST / float(root.max()))
        floor, coefficient, squares = _profile(z, y, root)
        n = float(root @ root)
        weight = _posterior(squares, n)
        parts.append((weight / len(DISCOUNTS), floor, coefficient, EXPONENTS))
        scatters.append(float(weight @ squares) / n)
        dofs.append(n)
    components = np.hstack([np.vstack(part) for part in parts])
    components = components[:, components[0] > NEGLIGIBLE]
    components[0] /= components[0].sum()
    weights, floors, coefficients, exponents = (tuple(map(float, row)) for row in components)
    return LocalLaw(
        column=column,
        smallest=float(x.min()),
        largest=float(x.max()),
        n_points=len(x),
        weights=weights,
        floors=floors,
        coefficients=coefficients,
        exponents=exponents,
        scatter=float(np.sqrt(np.mean(scatters))),
        dof=float(np.mean(dofs)),
    )


def _profile(z: Array, y: Array, root: Array) -> tuple[Array, Array, Array]:
    """Floor, coefficient and sum of squares at each exponent: NNLS of two columns, solved."""
    flat = (root / y)[None]
    power = flat * z ** -EXPONENTS[:, None]
    ff, fp, pp = (flat * flat).sum(1), (flat * power).sum(1), (power * power).sum(1)
    ft, pt = flat @ root, power @ root
    determinant = ff * pp - fp**2
    is_one = determinant <= 0  # all but one size count nothing: the columns are alike
    divisor = np.where(is_one, 1.0, determinant)
    floor = (pp * ft - fp * pt) / divisor
    coefficient = (ff * pt - fp * ft) / divisor
    no_floor, no_power = (floor < 0) | is_one, (coefficient < 0) & ~is_one
    floor = np.where(no_floor, 0.0, np.where(no_power, ft / ff, floor))
    coefficient = np.where(no_floor, pt / pp, np.where(no_power, 0.0, coefficient))
    residual = root - floor[:, None] * flat - coefficient[:, None] * power
    return floor, coefficient, (residual**2).sum(axis=1)


def _posterior(squares: Array, n: float) -> Array:
    """Weights of the exponents, averaged over the priors."""
    smallest = np.finfo(float).tiny + 1e-30 * n  # an exact fit: rounding must not choose
    likelihood = -n / 2 * np.log(squares + smallest)
    weights = np.zeros(len(EXPONENTS))
    for median in PRIOR_MEDIANS:
        for spread in PRIOR_SPREADS:
            log_weight = likelihood - 0.5 * (np.log(EXPONENTS / median) / spread) ** 2
            weight = np.exp(log_weight - log_weight.max())
            weights += weight / weight.sum()
    return weights / weights.sum()
