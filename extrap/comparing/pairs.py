"""Two recipes side by side at the sizes of both: pairs of seeds, and what scatters about them.

Seeds fix initialisation and data order, so that runs of one seed differ less than runs of two.
Where both recipes have them, errors are those of the difference and of the mean of a pair, which
are nearly independent; where they have not, those of either recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from extrap.comparing.scatter import (
    Piece,
    Scatter,
    combine,
    estimate_scatter,
    with_own,
)
from extrap.comparing.tuned import ArmLosses, Key
from extrap.laws.base import Array

LACK_OF_FIT_P = 0.05
"""Lack of fit less probable than this counts alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoArms:
    """Tuned log losses of a plain and a treated recipe at their common sizes.

    Attributes:
        keys: The common sizes, smallest first.
        log_size: Logarithms of their columns, shape (n_sizes, n_columns).
        plain, treated: Log losses, NaN where there is none, shape (n_sizes, n_seeds); columns are
            the same seeds where `is_paired`.
        is_paired: Whether seeds are shared.
        shape_variance, shape_dof: Of the shape of the excess-loss curve, plain then treated; (2,
        n_sizes).
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
        has_misfit: Whether laws miss the losses by more than replicates scatter.
    """

    is_paired: bool
    first: Scatter | None
    second: Scatter | None
    shape_variance: Array
    shape_dof: Array
    has_misfit: bool = False

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
        first=chosen[0][0],
        second=chosen[1][0],
        shape_variance=arms.shape_variance,
        shape_dof=arms.shape_dof,
        has_misfit=chosen[0][1] or chosen[1][1],
    )


def _with_lack_of_fit(
    table: Array, design: Array, pooled: Scatter | None, pure: Scatter | None, *, strict: bool
) -> tuple[Scatter | None, bool]:
    """The pooled scatter, or that of lack of fit where larger; whether this is significant."""
    if pooled is None or pure is None:
        return pooled, False
    counts = np.isfinite(table).sum(axis=1)
    dof = len(table) - int(np.linalg.matrix_rank(design))
    if dof < 1:
        return pooled, False
    square = float(counts @ np.nanmean(table, axis=1) ** 2) / dof
    is_misfit = float(stats.f.sf(square / pure.own, dof, pure.own_dof)) < LACK_OF_FIT_P
    is_larger = square > pure.own if strict else is_misfit
    return (with_own(pure, square, dof) if is_larger else pooled), is_misfit


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
