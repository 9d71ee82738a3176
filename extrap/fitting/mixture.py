"""Which laws the data cannot distinguish, and how much each counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from extrap.errors import DataError
from extrap.fitting.distributions import f_tail
from extrap.fitting.health import LACK_OF_FIT_P
from extrap.fitting.loss_law import fit, log_errors, predict_log
from extrap.fitting.robust import huber
from extrap.laws import FAMILY, JOINT_FAMILY, LOSS_LAWS, Member
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
JOINT_DELTA = 0.005
"""δ of Huber's loss over parameters and tokens, where single runs are off (a warm-up too long)."""
MANY_POINTS = 20
"""Five a free parameter: with fewer, a robust fit takes scatter for outliers."""
SAME_SIZE = 0.05
"""Sizes within 5 % of each other are one size, and share its misfit."""

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
    part ways beyond them. Over one size column the laws that an F-test against the best one does
    not reject count alike, except that one which would soon turn negative is dropped where another
    does not. Over parameters and tokens the members are fitted
    robustly, if there are points enough to tell an outlier, and weighed by
    `(1 + (c_j − min c) / c_0)^(−(G − 1)/2)`: c_j is what was minimised, c_0 its smallest value or
    what noise explains, and G the number of different sizes in the column that has fewest, since
    runs of one size share its misfit.
    """
    refusals: list[DataError] = []
    fits: list[Fit] = []
    for members in _families(len(sizes), fix or {}):
        for member in members:
            try:
                fits.append(
                    fit(
                        member.law,
                        sizes,
                        loss,
                        loss_se=loss_se,
                        loss_se_dof=loss_se_dof,
                        weights=weights,
                        fix={**member.held, **(fix or {})},
                        robust=JOINT_DELTA if member.held and len(loss) >= MANY_POINTS else None,
                    )
                )
            except DataError as error:
                refusals.append(error)
        if fits:
            break
    else:
        raise refusals[-1]
    if members[0].held:
        shares = _tempered(fits, sizes, np.asarray(loss, dtype=float), loss_se)
    else:
        shares = _equal(fits)
    return tuple((f, float(w)) for f, w in zip(fits, shares, strict=True))


def _families(n_columns: int, fix: Mapping[str, float]) -> list[list[Member]]:
    """What to mix over so many size columns, then what to try if the data cannot carry that."""
    if n_columns != 2:
        families = [[*FAMILY]]
    elif "k" in fix:
        families = [[Member(JOINT_FAMILY[0].law)]]
    else:
        families = [[*JOINT_FAMILY], [Member("power_floor")], [Member("power")]]
    able = [
        [
            member
            for member in family
            if n_columns in (law := LOSS_LAWS[member.law]).n_columns
            and set(fix) <= set(law.names(n_columns))
        ]
        for family in families
    ]
    if not any(able):
        laws = {LOSS_LAWS[member.law] for family in families for member in family}
        known = {n for law in laws if n_columns in law.n_columns for n in law.unit_free(n_columns)}
        raise ValueError(
            f"no law has the pinned parameters {', '.join(fix)}; pin one of "
            f"{', '.join(sorted(known))}."
        )
    return [family for family in able if family]


def _equal(fits: Sequence[Fit]) -> Array:
    best = min(fits, key=lambda f: f.chi2 / f.dof)
    keep = np.array([_survives(f, best) for f in fits])
    exhausted = np.array(
        [_held_beyond(f) < SOON * f.fitted_range[0][1] / f.reference[0] for f in fits]
    )
    if np.any(keep & ~exhausted):
        keep &= ~exhausted
    return keep / keep.sum()


def _tempered(
    fits: Sequence[Fit],
    sizes: Mapping[str, Sequence[float]],
    loss: Array,
    loss_se: Sequence[float] | None,
) -> Array:
    x = np.column_stack([np.asarray(values, dtype=float) for values in sizes.values()])
    precision = log_errors(loss, loss_se) ** -2.0
    costs = []
    for fitted in fits:
        off = predict_log(fitted, x / np.asarray(fitted.reference))[0] - np.log(loss)
        delta = fitted.robust or LARGEST_LOG
        costs.append(2 * delta**2 * float(precision @ huber(off, delta)))
    explained = 0.0
    if loss_se is not None:
        explained = float(np.mean((np.asarray(loss_se) / loss) ** 2 * precision))
    least = min(costs)
    unit = max(least, fits[0].dof * explained)
    if unit == 0:
        return np.array([cost == least for cost in costs]) / costs.count(least)
    weights = (1 + (np.array(costs) - least) / unit) ** (-(count_sizes(x) - 1) / 2)
    return np.asarray(weights / weights.sum())


def count_sizes(x: Array) -> int:
    """Number of different sizes in the column that has fewest, (n, n_columns) → int."""
    counts = []
    for column in x.T:
        n, first = 0, 0.0
        for size in np.sort(column):
            if n == 0 or size > first * (1 + SAME_SIZE):
                n, first = n + 1, float(size)
        counts.append(n)
    return min(counts)


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
    order = np.argsort(x)
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
