"""The loss at a size whose optimum its grid does not bracket, from the excess-loss curve.

The sizes that bracket their optimum tell the shape of the excess-loss curve. With the shape known,
runs on one side of an optimum determine how far off it is, and the loss there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from extrap.fitting.excess_curve import MAX_EXCESS, MODEL_ERROR, STEEPEST, Shape
from extrap.laws.base import Array

REACH = 3.0
"""Standard deviation of the prior of an optimum's distance from the best value, in octaves."""
FARTHEST = 10.0
"""Octaves from the best value beyond which no optimum is looked for."""
DIFFERS = 0.2
"""Standard deviation of ln of the steepness of one size about its trend."""
LEAST_SD = 0.001
"""Of the mean log loss of a value: what the curve errs by even near the optimum."""
DISTINCT = 4
"""What the curve errs by is alike at neighbouring values: they count like so many, if more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenSize:
    """The values tried at one size, with n values and d tuned columns.

    Attributes:
        octaves: log2 of the tuned values, shape (n, d).
        log_loss: Their mean log losses, shape (n,).
        variance: Variance of these by noise, shape (n,).
        bounds: Smallest and largest log2 of the optimum, shape (2, d); may be infinite.
        log_x: Log sizes, shape (k,).
    """

    octaves: Array
    log_loss: Array
    variance: Array
    bounds: Array
    log_x: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """An optimum that lies beside the values tried.

    Attributes:
        position: log2 of the tuned values there.
        position_variance: Their variances, octave².
        log_loss: Log loss there.
        log_loss_variance: Its variance.
    """

    position: tuple[float, ...]
    position_variance: tuple[float, ...]
    log_loss: float
    log_loss_variance: float


def locate_outside(shape: Shape, sizes: Sequence[OpenSize]) -> list[Outside]:
    """Fit place and height of the excess-loss curve to the runs of each size.

    Least squares, in which the curve has its own steepness at a size and its shape varies within
    its error. Errors are those of the linearised fit, scaled up where it leaves more than noise.

    What the shape adds to a variance is common to all sizes, and counts so many times: a law that
    takes the errors as independent then gives a mean of them the error it has.

    References:
        Ours; its coverage is measured by `benchmarks/interval_draws.py`.
    """
    return [_locate(shape, size, n_common=len(sizes)) for size in sizes]


def _locate(shape: Shape, size: OpenSize, *, n_common: int) -> Outside:
    d, n_shape = size.octaves.shape[1], len(shape.theta)
    best = int(np.argmin(size.log_loss))
    start, lowest = size.octaves[best], float(size.log_loss[best])
    keep = size.log_loss - lowest < MAX_EXCESS
    y, u = size.log_loss[keep] - lowest, size.octaves[keep] - start
    relative = np.tile(size.log_x - np.log(shape.reference), (len(y), 1))
    place = slice(n_shape, n_shape + d)

    def excess(found: Array) -> Array:
        steepness = np.exp(found[-1])
        return np.asarray(steepness * shape.excesses(found[:n_shape], u - found[place], relative))

    def weighted(found: Array, sd: Array) -> Array:
        return np.concatenate(
            [
                (y - found[-2] - excess(found)) / sd,
                shape.root @ (found[:n_shape] - shape.theta),
                found[place] / REACH,
                found[-1:] / DIFFERS,
            ]
        )

    bounds = np.clip(size.bounds - start, -FARTHEST, FARTHEST)
    low, high = (np.full(n_shape + d + 2, side) for side in (-np.inf, np.inf))
    high[n_shape - 2 * d : n_shape] = STEEPEST + 1e-6
    low[place], high[place] = bounds
    at = np.concatenate([shape.theta, np.clip(0.0, *(0.99 * bounds)), np.zeros(2)])
    expected = y
    for _ in range(2):  # the error of the curve is a share of the excess, which is found here
        misfit = LEAST_SD**2 + (MODEL_ERROR * expected) ** 2
        sd = np.sqrt(size.variance[keep] + max(1.0, len(y) / DISTINCT) * misfit)
        solved = optimize.least_squares(weighted, at, bounds=(low, high), args=(sd,))
        at, expected = solved.x, excess(solved.x)
    information = solved.jac.T @ solved.jac
    square = float(np.sum(weighted(at, sd)[: len(y)] ** 2))
    scale = max(square / max(len(y) - d - 1, 1), 1.0)
    own = np.diag(np.linalg.inv(information[n_shape:, n_shape:]))
    whole = np.diag(np.linalg.inv(information))[n_shape:]
    variance = scale * (own + n_common * np.maximum(whole - own, 0.0))
    return Outside(
        position=tuple(map(float, start + at[place])),
        position_variance=tuple(map(float, variance[:d])),
        log_loss=lowest + float(at[-2]),
        log_loss_variance=float(variance[-2]),
    )
