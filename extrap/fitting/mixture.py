"""Several laws of a loss with their weights: what they forecast together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from extrap.laws.base import Array
from extrap.records import Fit


class Mixture(NamedTuple):
    """Weighted laws at some sizes.

    Attributes:
        weights: Sum to 1, shape (n_laws,).
        log_losses: By each law, (n_laws, n).
        variances: Of these by the error of each law, (n_laws, n).
    """

    weights: Array
    log_losses: Array
    variances: Array

    @property
    def mean(self) -> Array:
        """Mean log loss, (n,)."""
        return np.asarray(self.weights @ self.log_losses)

    @property
    def within(self) -> Array:
        """Mean variance of the laws, (n,)."""
        return np.asarray(self.weights @ self.variances)

    @property
    def between(self) -> Array:
        """Variance between the laws, (n,)."""
        return np.asarray(self.weights @ (self.log_losses - self.mean) ** 2)

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance, within laws and between them, of the log loss, (n,) each."""
        mean = self.mean
        return mean, self.weights @ (self.variances + (self.log_losses - mean) ** 2)


def averaged_law(
    column: str,
    *,
    smallest: float,
    largest: float,
    weights: Array,
    floors: Array,
    coefficients: Array,
    exponents: Array,
    scatter: float,
    dof: float,
    n_points: int,
    fixed: Mapping[str, float],
) -> Fit:
    """Averaged power laws with a floor as one fit: means and covariance of their parameters.

    Its reference is the largest size, where it has their mean loss. The average itself is no law
    of the family: forecasts are the mean of the laws, not the law of the means.

    Args:
        column: The size column.
        smallest: Smallest fitted size.
        largest: Largest fitted size.
        weights: Of the laws, shape (n_laws,), sum to 1.
        floors: Of the laws, in the unit of the loss.
        coefficients: Loss above the floor at the largest size.
        exponents: Of the laws, at the largest size.
        scatter: Standard deviation of the log loss of a size about the laws.
        dof: Degrees of freedom behind it.
        n_points: Number of fitted points.
        fixed: Pinned parameters.
    """
    names, parameters = ("E", "b", "c"), np.stack([floors, coefficients, exponents])
    mean = parameters @ weights
    off = parameters - mean[:, None]
    covariance = (weights * off) @ off.T
    for i, name in enumerate(names):
        if name in fixed:
            mean[i], covariance[i], covariance[:, i] = fixed[name], 0.0, 0.0
    whole_dof = max(round(dof), 1)
    return Fit(
        law="power_floor",
        names=names,
        values=tuple(mean.tolist()),
        covariance=tuple(map(tuple, covariance.tolist())),
        scatter=scatter,
        dof=whole_dof,
        scale_dof=whole_dof,
        chi2=dof,
        columns=(column,),
        reference=(largest,),
        fitted_range=((smallest, largest),),
        n_points=n_points,
        fixed=dict(fixed),
    )
