"""Which laws the data cannot distinguish, and how much each counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from extrap.errors import DataError
from extrap.fitting.distributions import f_tail
from extrap.fitting.health import LACK_OF_FIT_P
from extrap.fitting.loss_law import fit, predict_log
from extrap.laws import FAMILY, LOSS_LAWS
from extrap.laws.base import Array
from extrap.records import Fit

SURVIVAL_P = 0.05
"""A law is dropped when an F-test against the best one rejects it at this level."""
LOWEST_SHARE = 0.3
"""A law that would turn negative is followed down to this share of its last fitted loss."""
SOON = 64.0
"""… and is no law of a loss if it is there within so many times the largest fitted size."""
LARGEST_LOG, TINY = 700.0, 1e-300
"""Guards of an exponential and a division."""
MIN_NEIGHBOURS = 3
"""Sizes with a neighbour on both sides that tell the scatter of unreplicated runs."""
SAME_SIZE = 0.05
"""Sizes within 5 % of each other are one size."""

Laws = tuple[tuple[Fit, float], ...]


class Mixture(NamedTuple):
    """Log loss over weighted laws: mean, mean variance of the laws, variance between them."""

    mean: Array
    within: Array
    between: Array


def fit_surviving_laws(
    sizes: Mapping[str, Sequence[float]],
    loss: Sequence[float],
    *,
    loss_se: Sequence[float] | None,
    loss_se_dof: int | None = None,
    weights: Sequence[float] | None = None,
    fix: Mapping[str, float] | None = None,
) -> Laws:
    """Fit every law of the family and weigh those that survive.

    A forecast from the best-fitting law alone is overconfident: laws that agree within the data
    part ways beyond them. The laws that an F-test against the best one does not reject count
    alike, except that one which would soon turn negative is dropped where another does not.
    """
    fix = dict(fix or {})
    refusals: list[DataError] = []
    fits: list[Fit] = []
    for law in _able(len(sizes), fix):
        try:
            fits.append(
                fit(
                    law,
                    sizes,
                    loss,
                    loss_se=loss_se,
                    loss_se_dof=loss_se_dof,
                    weights=weights,
                    fix=fix,
                )
            )
        except DataError as error:
            refusals.append(error)
    if not fits:
        raise refusals[-1]
    return tuple((f, float(w)) for f, w in zip(fits, _shares(fits), strict=True))


def _able(n_columns: int, fix: Mapping[str, float]) -> list[str]:
    """The laws of the family that take so many size columns and have the pinned parameters."""
    laws = [LOSS_LAWS[key] for key in FAMILY if n_columns in LOSS_LAWS[key].n_columns]
    if not laws:
        raise ValueError(f"no law takes {n_columns} size columns; leave some out.")
    able = [law.key for law in laws if set(fix) <= set(law.names(n_columns))]
    if not able:
        known = {name for law in laws for name in law.unit_free(n_columns)}
        raise ValueError(
            f"no law has the pinned parameters {', '.join(fix)}; pin one of "
            f"{', '.join(sorted(known))}."
        )
    return able


def _shares(fits: Sequence[Fit]) -> Array:
    best = min(fits, key=lambda f: f.chi2 / f.dof)
    keep = np.array([_survives(f, best) for f in fits])
    exhausted = np.array(
        [_held_beyond(f) < SOON * f.fitted_range[0][1] / f.reference[0] for f in fits]
    )
    if np.any(keep & ~exhausted):
        keep &= ~exhausted
    return keep / keep.sum()


def count_sizes(x: Array) -> int:
    """Number of different sizes, (n,) → int."""
    n, first = 0, 0.0
    for size in np.sort(x):
        if n == 0 or size > first * (1 + SAME_SIZE):
            n, first = n + 1, float(size)
    return n


def mix(laws: Sequence[tuple[Fit, float]], x: Array) -> Mixture:
    """The log loss over weighted laws at sizes x, (n, n_columns) → (n,) each."""
    kept = [(fitted, weight) for fitted, weight in laws if weight > 0]
    parts = [_predict(fitted, x) for fitted, _ in kept]
    means = np.array([mean for mean, _ in parts])
    variances = np.array([se**2 for _, se in parts])
    weights = np.array([weight for _, weight in kept])[:, None]
    centre = (weights * means).sum(axis=0)
    return Mixture(
        mean=centre,
        within=(weights * variances).sum(axis=0),
        between=(weights * (means - centre) ** 2).sum(axis=0),
    )


def _predict(fitted: Fit, x: Array) -> tuple[Array, Array]:
    """Log of a law and its standard error, held before it turns negative."""
    z = x / np.asarray(fitted.reference)
    return predict_log(fitted, np.minimum(z, _held_beyond(fitted)))


def _held_beyond(fitted: Fit) -> float:
    """Relative size at which a log-linear law has used up its loss; infinite for other laws."""
    if not LOSS_LAWS[fitted.law].may_turn_negative:
        return math.inf
    a, b = fitted.values
    last = a - b * math.log(fitted.fitted_range[0][1] / fitted.reference[0])
    return math.exp(min((a - LOWEST_SHARE * last) / max(b, TINY), LARGEST_LOG))


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
    parameters = np.stack([floors, coefficients, exponents])
    mean = parameters @ weights
    off = parameters - mean[:, None]
    covariance = (weights * off) @ off.T
    names = ("E", "b", "c")
    for i, name in enumerate(names):
        if name in fixed:
            mean[i], covariance[i], covariance[:, i] = fixed[name], 0.0, 0.0
    return Fit(
        law="power_floor",
        names=names,
        values=tuple(map(float, mean)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        scatter=scatter,
        dof=max(round(dof), 1),
        scale_dof=max(round(dof), 1),
        chi2=dof,
        columns=(column,),
        reference=(largest,),
        fitted_range=((smallest, largest),),
        n_points=n_points,
        fixed=dict(fixed),
    )


def none_fits(
    laws: Sequence[tuple[Fit, float]], sizes: Mapping[str, Sequence[float]], loss: Sequence[float]
) -> bool:
    """Whether every law lacks fit against the scatter of neighbouring sizes of one column.

    The residual variance of each law is compared with that of points about the line through their
    two neighbours; a law's bend between neighbours counts as scatter, so the test is conservative.
    """
    (values,) = sizes.values()
    variance, dof = neighbour_scatter(np.asarray(values, dtype=float), np.asarray(loss))
    if dof < MIN_NEIGHBOURS or variance == 0:
        return False
    return all(
        f_tail(fitted.scatter**2 / variance, fitted.dof, dof) < LACK_OF_FIT_P for fitted, _ in laws
    )


def neighbour_scatter(x: Array, loss: Array) -> tuple[float, float]:
    """Variance of a log loss about the line through its neighbours, degrees of freedom."""
    order = np.argsort(x, kind="stable")
    u, v = np.log(x[order]), np.log(loss[order])
    if len(u) < 3 or np.any(np.diff(u) <= 0):
        return 0.0, 0.0
    share = (u[1:-1] - u[:-2]) / (u[2:] - u[:-2])
    off = v[1:-1] - (1 - share) * v[:-2] - share * v[2:]
    variance = np.mean(off**2 / (1 + share**2 + (1 - share) ** 2))
    # neighbouring differences share points: about .7 independent ones each
    return float(variance), 0.7 * len(off)


def _survives(candidate: Fit, best: Fit) -> bool:
    extra = candidate.chi2 - best.chi2
    if candidate is best or extra <= 0:
        return True
    noise = best.chi2 / best.dof
    if noise <= np.finfo(float).eps * candidate.chi2:
        return False
    n_extra = max(candidate.dof - best.dof, 1)
    return bool(f_tail(extra / n_extra / noise, n_extra, best.scale_dof) > SURVIVAL_P)
