"""Several laws of a loss with their weights: what they forecast together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from extrap.laws import LOSS_LAWS
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
    law: str,
    parameters: Array,
    weights: Array,
    *,
    fitted_range: Mapping[str, tuple[float, float]],
    reference: tuple[float, ...],
    scatter: float,
    dof: float,
    n_points: int,
    fixed: Mapping[str, float],
) -> Fit:
    """Laws of one form as one fit: means and covariance of their parameters.

    The average itself is no law of the family: forecasts are the mean of the laws, not the law of
    the means.

    Args:
        law: Key of their form.
        parameters: Of the laws, in the order of the form, (n_laws, n_parameters).
        weights: Of the laws, (n_laws,), sum to 1.
        fitted_range: Size column → smallest and largest fitted size.
        reference: The reference size of all the laws.
        scatter: Standard deviation of the log loss of a size about the laws.
        dof: Degrees of freedom behind it.
        n_points: Number of fitted points.
        fixed: Pinned parameters.
    """
    names = LOSS_LAWS[law].names(len(fitted_range))
    mean = weights @ parameters
    off = parameters - mean
    covariance = (weights * off.T) @ off
    for i, name in enumerate(names):
        if name in fixed:
            mean[i], covariance[i], covariance[:, i] = fixed[name], 0.0, 0.0
    whole_dof = max(round(dof), 1)
    return Fit(
        law=law,
        names=names,
        values=tuple(mean.tolist()),
        covariance=tuple(map(tuple, covariance.tolist())),
        scatter=scatter,
        dof=whole_dof,
        scale_dof=whole_dof,
        chi2=dof,
        columns=tuple(fitted_range),
        reference=reference,
        fitted_range=tuple(fitted_range.values()),
        n_points=n_points,
        fixed=dict(fixed),
    )
