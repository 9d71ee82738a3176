"""A run's cost over its sizes: a polynomial without negative terms, a power, or a formula."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize

from extrap.expressions import Expression
from extrap.laws.base import Array

MOST_POWERS = {1: 3, 2: 2}
"""Highest power of each size in a product of them, by the number of size columns; else 1."""
EXACT = 1e-6
"""Relative misfit below which two curves fit alike."""
CLOSE = 0.05
"""Relative misfit up to which a curve is believed beyond its sizes."""
N_LOCAL = 3
"""Largest sizes whose exponent counts where no curve is believed."""


class CostCurve(Protocol):
    """The cost of a run at any size."""

    def at(self, size: tuple[float, ...]) -> float:
        """The cost at a size, its columns in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaCurve:
    """Arithmetic over the size columns."""

    expression: Expression
    columns: tuple[str, ...]

    def at(self, size: tuple[float, ...]) -> float:
        """The cost at a size."""
        return float(self.expression(dict(zip(self.columns, size, strict=True))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial:
    """`Σ_i a_i Π_j x_j^p_ij`; a power of the sizes is one with a single term.

    Attributes:
        log_coefficients: ln a, one per term.
        powers: The exponents of every size column, one tuple a term.
    """

    log_coefficients: tuple[float, ...]
    powers: tuple[tuple[float, ...], ...]

    def at(self, size: tuple[float, ...]) -> float:
        """The cost at a size."""
        exponents = np.array(self.powers) @ np.log(size) + np.array(self.log_coefficients)
        return float(np.exp(exponents).sum())


def fit_cost_curve(sizes: Array, costs: Array) -> Polynomial:
    """The curve through costs that fits them best for its terms.

    Either a power of the sizes, by least squares of logarithms, or a polynomial without negative
    coefficients, by least squares of relative errors: the FLOPs of a network are one in its
    width. Where neither comes near all costs, a power through the largest sizes.

    Args:
        sizes: Positive, (n, n_columns); all rows differ.
        costs: Positive, (n,).

    References:
        Lawson, Hanson (1974), Solving least squares problems, chapter 23, for coefficients that
        are not negative.
    """
    power = _power(sizes, costs)
    if len(costs) <= sizes.shape[1] + 1:
        return power
    candidates = [power, _polynomial(sizes, costs)]
    found = min(candidates, key=lambda curve: _criterion(curve, sizes, costs))
    if sizes.shape[1] > 1 or _misfit(found, sizes, costs) <= CLOSE:
        return found
    largest = np.argsort(sizes[:, 0])[-N_LOCAL:]
    return _power(sizes[largest], costs[largest], through_last=True)


def _power(sizes: Array, costs: Array, *, through_last: bool = False) -> Polynomial:
    """A plane through logarithms, the least steep one where the sizes do not tell."""
    x, y = np.log(sizes), np.log(costs)
    slopes = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
    at, cost = (x[-1], y[-1]) if through_last else (x.mean(axis=0), y.mean())
    return Polynomial(
        log_coefficients=(float(cost - at @ slopes),), powers=(tuple(map(float, slopes)),)
    )


def _polynomial(sizes: Array, costs: Array) -> Polynomial:
    top, k = sizes.max(axis=0), sizes.shape[1]
    powers = list(itertools.product(range(MOST_POWERS.get(k, 1) + 1), repeat=k))
    terms = np.column_stack([np.prod((sizes / top) ** np.array(p), axis=1) for p in powers])
    found, _ = optimize.nnls(terms / costs[:, None] * costs.max(), np.ones(len(costs)))
    kept = [i for i, a in enumerate(found) if a > 0]
    logs = [
        math.log(found[i] * costs.max()) - float(np.array(powers[i]) @ np.log(top)) for i in kept
    ]
    return Polynomial(
        log_coefficients=tuple(logs), powers=tuple(tuple(map(float, powers[i])) for i in kept)
    )


def _criterion(curve: Polynomial, sizes: Array, costs: Array) -> float:
    """Akaike's for relative errors; no curve fits better than exactly."""
    off = np.array([curve.at(tuple(size)) for size in sizes]) / costs - 1
    n_free = len(curve.powers) if len(curve.powers) > 1 else 1 + sizes.shape[1]
    square = float(np.mean(off**2))
    return len(costs) * math.log(max(square, EXACT**2)) + 2 * n_free


def _misfit(curve: Polynomial, sizes: Array, costs: Array) -> float:
    fitted = np.array([curve.at(tuple(size)) for size in sizes])
    return float(np.max(np.abs(fitted / costs - 1)))
