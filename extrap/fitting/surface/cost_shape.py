"""What a distance from the optimum costs: a sum of asymmetric curves along turned axes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from extrap.laws.base import Array

Exponentials: TypeAlias = tuple[Array, Array, Array, npt.NDArray[np.bool_]]
"""a, the same or 1 where it is small, `e^a − 1` of that, and where a is small."""

ASYMMETRY_LIMITS, MOST_OCTAVES = (-2.0, 1.5), 30.0
"""Of the asymmetry r, per octave, and of a distance: beyond them nothing changes any more."""
SERIES_BELOW, CUT_BEYOND = 1e-3, 50.0
"""Of r |u|: below the first a series is used, beyond the second the curve is cut."""


def cost_curve(octaves: Array, asymmetry: Array) -> Array:
    """`h = (e^a − 1 − a) / r²`, `a = r |u|`, about `u² / 2` near 0.

    Args:
        octaves: Distances u.
        asymmetry: r, per octave; of the shape of `octaves`.

    References:
        Ours.
    """
    return _height(octaves, _exponentials(octaves, asymmetry))


def cost_and_slopes(octaves: Array, asymmetry: Array) -> tuple[Array, Array, Array]:
    """`cost_curve` and its slopes by u and by r; arguments as there."""
    parts = a, safe, exponential, is_small = _exponentials(octaves, asymmetry)
    slope = np.where(is_small, 1 + a / 2, exponential / safe)
    third = exponential / safe**2 - 2 * (exponential - safe) / safe**3
    by_a = np.where(is_small, 1 / 6 + a / 12, third)
    return _height(octaves, parts), octaves * slope, np.abs(octaves) ** 3 * by_a


def _exponentials(octaves: Array, asymmetry: Array) -> Exponentials:
    a = np.clip(asymmetry * np.abs(octaves), -CUT_BEYOND, CUT_BEYOND)
    is_small = np.abs(a) < SERIES_BELOW
    safe = np.where(is_small, 1.0, a)
    return a, safe, np.expm1(safe), is_small


def _height(octaves: Array, parts: Exponentials) -> Array:
    a, safe, exponential, is_small = parts
    return octaves**2 * np.where(is_small, 0.5 + a / 6, (exponential - safe) / safe**2)


def turn_pairs(n_tuned: int) -> list[tuple[int, int]]:
    """Pairs of columns (axis, other): the other one turns the axis."""
    return [(j, k) for j in range(n_tuned) for k in range(n_tuned) if j != k]


def axes(turns: Array, n_tuned: int) -> Array:
    """The matrix of the axes, (..., D, D): 1 on the diagonal, beside it the turns."""
    matrix = np.broadcast_to(np.eye(n_tuned), (*np.shape(turns)[:-1], n_tuned, n_tuned)).copy()
    for i, (j, k) in enumerate(turn_pairs(n_tuned)):
        matrix[..., j, k] = turns[..., i]
    return matrix


def excess(octaves: Array, low: Array, high: Array, log_curvature: Array, turns: Array) -> Any:
    """Log excess of distances from the optimum.

    Args:
        octaves: (..., D).
        low: Asymmetry below the optimum, per octave; shapes broadcast.
        high: The same above it.
        log_curvature: ln k of each axis.
        turns: Of the axes, (..., D (D − 1)).
    """
    n_tuned = octaves.shape[-1]
    if n_tuned > 1:
        octaves = np.einsum("...jk,...k->...j", axes(turns, n_tuned), octaves)
    asymmetry = np.clip(np.where(octaves > 0, high, low), *ASYMMETRY_LIMITS)
    curve = cost_curve(np.clip(octaves, -MOST_OCTAVES, MOST_OCTAVES), asymmetry)
    return (np.exp(log_curvature) * curve).sum(axis=-1)
