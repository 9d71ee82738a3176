"""The joint test of "the two laws are one": a shift and a slope of paired differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from extrap.comparing.pairs import Spread, TwoArms, line_spread, size_spread
from extrap.comparing.scatter import estimate_scatter, t_p_value
from extrap.laws.base import Array

WEIGHT = 2.0
"""Of the mean difference against that of the slope; chosen by simulated power."""
SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneLawTest:
    """The test of "the two laws are one".

    Attributes:
        p_value: Of shift and slopes together; None without a residual degree of freedom.
        shift: Mean difference of log losses over the sizes.
        shift_se, shift_dof: Its standard error and degrees of freedom.
        is_assumed: Whether the seed's common effect is assumed, because there is one seed only.
    """

    p_value: float | None
    shift: float
    shift_se: float
    shift_dof: float
    is_assumed: bool


def compare_laws(arms: TwoArms) -> OneLawTest:
    """Whether differences of log losses are 0 at all sizes, against a shift and a slope.

    The mean difference over sizes has the standard error of seeds, whose effects recur at every
    size; the slope over ln size that of what is left. Their p-values, independent under the
    hypothesis, are combined by a product in which the mean counts `WEIGHT` times, having few
    degrees of freedom. Where both rest on the same residuals an F-test takes its place. Two pairs
    leave a single degree of freedom for the mean: its standard error is then that of unpaired
    seeds, with two, which is too large where seeds act alike on both recipes. The noise of log
    losses is taken to be alike at all sizes.

    References:
        Ours; Good (1955), On the weighted combination of significance tests, J. R. Stat. Soc. B
        17, for the product.
    """
    difference = arms.means[1] - arms.means[0]
    columns = _orthogonal(arms)
    spread = line_spread(arms, np.column_stack(columns))
    if not arms.is_paired:
        spread = size_spread(arms)
        if spread.first is None or spread.second is None:
            spread = _of_differences(arms, difference, np.column_stack(columns))
    differences = []
    for i, column in enumerate(columns):
        weights = arms.counts * column / float(arms.counts @ column**2)
        chosen = spread
        if i == 0 and arms.is_paired and arms.plain.shape[1] == 2 and len(arms.keys) > 1:
            chosen = size_spread(replace(arms, is_paired=False))
        error = chosen.of(-weights, weights)
        if error is None:
            return OneLawTest(
                p_value=None,
                shift=float(difference.mean()),
                shift_se=float("nan"),
                shift_dof=0.0,
                is_assumed=False,
            )
        differences.append((float(weights @ difference), *error))
    first = spread.first
    is_single = all(part is None or part.is_single for part in (first, spread.second))
    return OneLawTest(
        p_value=_joint_p_value(differences, is_single=is_single),
        shift=differences[0][0],
        shift_se=differences[0][1],
        shift_dof=differences[0][2],
        is_assumed=first is not None and first.is_assumed,
    )


def _joint_p_value(differences: list[tuple[float, float, float]], *, is_single: bool) -> float:
    m = len(differences)
    if is_single:
        square = sum((value / se) ** 2 for value, se, _ in differences) / m
        return float(stats.f.sf(square, m, differences[0][2]))
    of_mean, *of_slopes = (max(t_p_value(*each), SMALLEST) for each in differences)
    if not of_slopes:
        return of_mean
    of_slope = float(stats.chi2.sf(-2 * float(np.log(of_slopes).sum()), 2 * (m - 1)))
    log_product = WEIGHT * math.log(of_mean) + math.log(max(of_slope, SMALLEST))
    both = WEIGHT * math.exp(log_product / WEIGHT) - math.exp(log_product)
    return min(both / (WEIGHT - 1), 1.0)


def _of_differences(arms: TwoArms, difference: Array, design: Array) -> Spread:
    """Without replicates: the differences of single runs scatter about their line."""
    recurs = any(np.isfinite(table).sum(axis=0).max() > 1 for table in (arms.plain, arms.treated))
    table = np.full((len(difference), 1 if recurs else len(difference)), np.nan)
    if recurs:
        table[:, 0] = difference
    else:
        np.fill_diagonal(table, difference)
    return Spread(
        is_paired=True,
        first=estimate_scatter(table, design),
        second=None,
        shape_variance=np.zeros_like(arms.shape_variance),
        shape_dof=arms.shape_dof,
    )


def _orthogonal(arms: TwoArms) -> list[Array]:
    """1 and ln size, each made orthogonal to those before, weighted by the counts."""
    found = [np.ones(len(arms.keys))]
    for column in arms.log_size.T:
        rest = column.copy()
        for _ in range(2):
            for each in found:
                weights = arms.counts * each
                rest = rest - each * float(weights @ rest) / float(weights @ each)
        if len(found) < len(arms.keys) and np.abs(rest).max() > 1e-6:
            found.append(rest / np.abs(rest).max())
    return found
