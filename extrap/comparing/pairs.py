"""Two recipes side by side at the sizes of both: pairs of seeds, and what scatters about them.

Seeds fix initialisation and data order, so that runs of one seed differ less than runs of two.
Where both recipes have them, errors are those of the difference and of the mean of a pair, which
are nearly independent; where they have not, those of either recipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from extrap.comparing.scatter import (
    Piece,
    Scatter,
    combine,
    estimate_scatter,
    t_p_value,
    with_own,
)
from extrap.comparing.tuned import ArmLosses, Key
from extrap.laws.base import Array

__all__ = [
    "OneLawTest",
    "Spread",
    "TwoArms",
    "compare_laws",
    "law_spread",
    "size_spread",
    "two_arms",
]

LACK_OF_FIT_P = 0.05
"""Lack of fit less probable than this counts alone."""
WEIGHT = 2.0
"""Of the mean difference against that of the slope; chosen by simulated power."""
SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoArms:
    """Tuned log losses of a plain and a treated recipe at their common sizes.

    Attributes:
        keys: The common sizes, smallest first.
        log_size: Logarithms of their columns, shape (n_sizes, n_columns).
        plain, treated: Log losses, NaN where there is none, shape (n_sizes, n_seeds); columns are
            the same seeds where `is_paired`.
        is_paired: Whether seeds are shared.
        shape_variance, shape_dof: Of the shape of the valley, plain then treated; (2, n_sizes).
        n_dropped: Runs of seeds that only one recipe has.
    """

    keys: tuple[Key, ...]
    log_size: Array
    plain: Array
    treated: Array
    is_paired: bool
    shape_variance: Array
    shape_dof: Array
    n_dropped: int

    @property
    def means(self) -> Array:
        """Mean log losses, plain then treated, shape (2, n_sizes)."""
        return np.stack([np.nanmean(self.plain, axis=1), np.nanmean(self.treated, axis=1)])

    @property
    def n_pairs(self) -> Array:
        """Seeds that both have, by size."""
        if not self.is_paired:
            return np.zeros(len(self.keys), dtype=int)
        return np.asarray(np.isfinite(self.plain).sum(axis=1))

    @property
    def counts(self) -> Array:
        """Seeds behind each difference, by size: the harmonic mean of both."""
        n_plain, n_treated = (np.isfinite(t).sum(axis=1) for t in (self.plain, self.treated))
        return np.asarray(2 / (1 / n_plain + 1 / n_treated))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Errors of anything that is linear in the mean log losses of both recipes.

    Attributes:
        is_paired: Whether `first` is that of the difference of pairs and `second` of their mean;
            else of the plain and of the treated recipe. None where unknown.
        first, second: Their scatter.
        shape_variance, shape_dof: As in `TwoArms`.
    """

    is_paired: bool
    first: Scatter | None
    second: Scatter | None
    shape_variance: Array
    shape_dof: Array

    def of(self, plain: Array, treated: Array) -> tuple[float, float] | None:
        """Standard error and degrees of freedom of `plain · ȳ_plain + treated · ȳ_treated`.

        None where the scatter it depends on is unknown.
        """
        if self.is_paired:
            parts = ((self.first, (treated - plain) / 2), (self.second, treated + plain))
        else:
            parts = ((self.first, plain), (self.second, treated))
        largest = max(float(np.abs(weights).max()) for _, weights in parts)
        pieces = []
        for scatter, weights in parts:
            if float(np.abs(weights).max()) <= 1e-9 * largest:
                continue
            if scatter is None:
                return None
            pieces.append(scatter.piece(weights))
        for weights, variances, dofs in zip(
            (plain, treated), self.shape_variance, self.shape_dof, strict=True
        ):
            pieces += [
                Piece(variance=float(w * w * v), dof=float(d))
                for w, v, d in zip(weights, variances, dofs, strict=True)
                if v > 0
            ]
        return combine(pieces)


def two_arms(plain: ArmLosses, treated: ArmLosses) -> TwoArms:
    """Line up two recipes; paired where every common size has a seed of both, twice somewhere.

    Without any common size, `keys` are empty.
    """
    keys = tuple(sorted(set(plain.by_size) & set(treated.by_size)))
    ours, theirs = ([arm.by_size[key].by_seed for key in keys] for arm in (plain, treated))
    shared = [[s for s in a if s in b] for a, b in zip(ours, theirs, strict=True)]
    most = max((min(len(a), len(b)) for a, b in zip(ours, theirs, strict=True)), default=0)
    is_paired = bool(keys) and all(shared) and max(map(len, shared)) >= min(most, 2)
    n_dropped = 0
    if is_paired:
        n_dropped = sum(
            len(a) + len(b) - 2 * len(s) for a, b, s in zip(ours, theirs, shared, strict=True)
        )
        seeds = _in_order(shared)
        tables = [_table(rows, shared, seeds) for rows in (ours, theirs)]
    else:
        tables = [_table(rows, rows, _in_order(rows)) for rows in (ours, theirs)]
    arms = (plain, treated)
    return TwoArms(
        keys=keys,
        log_size=np.log(np.array(keys, dtype=float)),
        plain=tables[0],
        treated=tables[1],
        is_paired=is_paired,
        shape_variance=np.array([[a.by_size[k].shape_variance for k in keys] for a in arms]),
        shape_dof=np.array([[a.by_size[k].shape_dof for k in keys] for a in arms]),
        n_dropped=n_dropped,
    )


def _in_order(rows: Sequence[Iterable[object]]) -> list[object]:
    return list(dict.fromkeys(seed for row in rows for seed in row))


def _table(
    rows: Sequence[Mapping[object, float]], kept: Sequence[Iterable[object]], seeds: list[object]
) -> Array:
    found = np.full((len(rows), len(seeds)), np.nan)
    for i, (row, own) in enumerate(zip(rows, kept, strict=True)):
        for seed in own:
            found[i, seeds.index(seed)] = row[seed]
    return found


def size_spread(arms: TwoArms) -> Spread:
    """Errors from replicates alone: every size may be off any law."""
    return _spread(arms, np.eye(len(arms.keys)), np.eye(len(arms.keys)))


def line_spread(arms: TwoArms, design: Array) -> Spread:
    """Errors of differences that depend on size as the design does."""
    return _spread(arms, design, np.eye(len(arms.keys)))


def law_spread(
    arms: TwoArms, fitted: Array, *, of_difference: Array, of_mean: Array, strict: bool
) -> Spread:
    """Errors about two fitted laws: of replicates and lack of fit together.

    Where lack of fit is significantly larger, or larger at all if `strict`, it counts alone.

    Args:
        arms: Both recipes.
        fitted: Their laws at the sizes, log losses, plain then treated, shape (2, n_sizes).
        of_difference: Derivatives of the difference of two laws by their parameters, shape
            (n_sizes, n_parameters).
        of_mean: The same of their mean.
        strict: As above.
    """
    off = replace(
        arms, plain=arms.plain - fitted[0][:, None], treated=arms.treated - fitted[1][:, None]
    )
    one = np.ones((len(arms.keys), 1))
    designs = [np.column_stack([of_difference, one]), np.column_stack([of_mean, one])]
    if not arms.is_paired:
        designs = [designs[1], designs[1]]
    pooled, pure = _spread(off, *designs), size_spread(off)
    tables = _tables(off)
    chosen = [
        _with_lack_of_fit(table, design, both, own, strict=strict)
        for table, design, both, own in zip(
            tables,
            designs,
            (pooled.first, pooled.second),
            (pure.first, pure.second),
            strict=True,
        )
    ]
    return Spread(
        is_paired=arms.is_paired,
        first=chosen[0],
        second=chosen[1],
        shape_variance=arms.shape_variance,
        shape_dof=arms.shape_dof,
    )


def _with_lack_of_fit(
    table: Array, design: Array, pooled: Scatter | None, pure: Scatter | None, *, strict: bool
) -> Scatter | None:
    """The pooled scatter, or that of lack of fit where this is larger."""
    if pooled is None or pure is None:
        return pooled
    counts = np.isfinite(table).sum(axis=1)
    root = np.sqrt(counts)
    mean = np.nanmean(table, axis=1) * root
    left, scale, _ = np.linalg.svd(design * root[:, None], full_matrices=True)
    rest = left[:, int((scale > 1e-8 * scale[0]).sum()) :]
    dof = rest.shape[1]
    if not dof:
        return pooled
    square = float(((rest.T @ mean) ** 2).sum()) / dof
    if strict:
        larger = square > pure.own
    else:
        larger = float(stats.f.sf(square / pure.own, dof, pure.own_dof)) < LACK_OF_FIT_P
    return with_own(pure, square, dof) if larger else pooled


def _tables(arms: TwoArms) -> tuple[Array, Array]:
    if arms.is_paired:
        return arms.treated - arms.plain, (arms.treated + arms.plain) / 2
    return arms.plain, arms.treated


def _spread(arms: TwoArms, first: Array, second: Array) -> Spread:
    a, b = _tables(arms)
    if not arms.is_paired:
        second = first
    return Spread(
        is_paired=arms.is_paired,
        first=estimate_scatter(a, first),
        second=estimate_scatter(b, second),
        shape_variance=arms.shape_variance,
        shape_dof=arms.shape_dof,
    )


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
    seeds, with two, which is too large where seeds act alike on both recipes.

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
    told = []
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
        told.append((float(weights @ difference), *error))
    first = spread.first
    is_single = all(part is None or part.is_single for part in (first, spread.second))
    return OneLawTest(
        p_value=_joint_p_value(told, is_single=is_single),
        shift=told[0][0],
        shift_se=told[0][1],
        shift_dof=told[0][2],
        is_assumed=first is not None and first.is_assumed,
    )


def _joint_p_value(told: list[tuple[float, float, float]], *, is_single: bool) -> float:
    m = len(told)
    if is_single:
        square = sum((value / se) ** 2 for value, se, _ in told) / m
        return float(stats.f.sf(square, m, told[0][2]))
    of_mean, *of_slopes = (max(t_p_value(*each), SMALLEST) for each in told)
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
