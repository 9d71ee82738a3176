"""Two arms side by side: tuned losses at common sizes, what differences err by, resamples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extrap.analyses.comparison.seed_losses import Arm, Key
from extrap.fitting.jackknife import (
    Error,
    combine,
    seed_effect,
    seed_mean,
    size_means,
    without_seed_effects,
)
from extrap.laws.base import Array

ON_LINE = 1e-3
"""Largest distance, in ln size, of sizes that move together from their line."""
ONE_SEED_SHARE = 0.5
"""Share of a difference's variance that a seed has at all sizes alike, where one seed was used and
it cannot be known; taken to be the most, as `ASSUMED_SHARE` in `extrap.fitting.seed_noise`. It
widens numbers off the laws; means and tests rest on it wholly and are not given."""
ONE_SEED_RATIO = ONE_SEED_SHARE / (1 - ONE_SEED_SHARE)
"""Variance that a seed has at all sizes alike, over the rest, where one seed was used."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmTable:
    """Tuned log losses of a plain and a treated arm at their common sizes.

    Attributes:
        keys: The common sizes, smallest first.
        plain, treated: Log losses, NaN where there is none, shape (n_sizes, n_seeds); columns are
            the same seeds where `is_paired`.
        is_paired: Whether seeds are shared.
        n_dropped: Values of seeds that only one arm has.
    """

    keys: tuple[Key, ...]
    plain: Array
    treated: Array
    is_paired: bool
    n_dropped: int = 0

    @property
    def log_size(self) -> Array:
        """Logarithms of the size columns that a law needs, shape (n_sizes, n_columns).

        Columns that are powers of the first one are left out.
        """
        logs = np.log(np.array(self.keys, dtype=float))
        return logs[:, :1] if are_on_line(logs) else logs

    @property
    def has_law(self) -> bool:
        """Whether the sizes tell a law: distinct in every column that it needs."""
        logs = self.log_size
        return all(len(np.unique(column.round(9))) >= 3 for column in logs.T) and (
            logs.shape[1] > 1 or len(np.unique(logs.round(9))) == len(logs)
        )

    @property
    def means(self) -> Array:
        """Mean log losses, plain then treated, shape (2, n_sizes)."""
        return np.stack([np.nanmean(self.plain, axis=1), np.nanmean(self.treated, axis=1)])

    @property
    def differences(self) -> Array:
        """Mean treated minus mean plain log loss by size."""
        plain, treated = self.means
        return np.asarray(treated - plain)

    @property
    def n_pairs(self) -> npt.NDArray[np.intp]:
        """Seeds that both have, by size; 0 where arms are not paired."""
        if not self.is_paired:
            return np.zeros(len(self.keys), dtype=int)
        return np.asarray(np.isfinite(self.plain).sum(axis=1))

    @property
    def n_seeds(self) -> int:
        """The fewest seeds of an arm at a size."""
        return int(min(np.isfinite(t).sum(axis=1).min() for t in (self.plain, self.treated)))

    @property
    def scattered(self) -> tuple[Array, ...]:
        """Tables whose means differ by what a number of this table errs: pairs, or either arm."""
        if self.is_paired:
            return (self.treated - self.plain,)
        return (self.plain, self.treated)


def arm_table(plain: Arm, treated: Arm) -> ArmTable:
    """Line up two arms; paired where every common size has a seed of both, twice somewhere.

    Without any common size, `keys` are empty.
    """
    keys = tuple(sorted(set(plain.by_size) & set(treated.by_size)))
    ours, theirs = ([arm.by_size[key] for key in keys] for arm in (plain, treated))
    shared = [[s for s in a if s in b] for a, b in zip(ours, theirs, strict=True)]
    most = max((min(len(a), len(b)) for a, b in zip(ours, theirs, strict=True)), default=0)
    is_paired = bool(keys) and all(shared) and max(map(len, shared)) >= min(most, 2)
    if not is_paired:
        tables = [_filled(rows, rows) for rows in (ours, theirs)]
        return ArmTable(keys=keys, plain=tables[0], treated=tables[1], is_paired=False)
    rows_of = zip(ours, theirs, shared, strict=True)
    tables = [_filled(rows, shared) for rows in (ours, theirs)]
    return ArmTable(
        keys=keys,
        plain=tables[0],
        treated=tables[1],
        is_paired=True,
        n_dropped=sum(len(a) + len(b) - 2 * len(s) for a, b, s in rows_of),
    )


def leave_out_pairs(table: ArmTable) -> tuple[Array, Array, npt.NDArray[np.intp]]:
    """The whole table, and without one (seed, size) pair of both arms, or one run if not paired.

    What a seed does to all sizes alike is taken out first: it would pass for scatter at each size.

    Returns:
        Mean log losses, plain then treated, shape (2, 1 + n_left_out, n_sizes); the seeds behind
        them, same shape; the sample of each pair left out: 0, or the arm if runs are not paired.
    """
    arms = [without_seed_effects(arm) for arm in (table.plain, table.treated)]
    has_loss = [np.isfinite(arm) for arm in arms]
    samples = (0,) if table.is_paired else (0, 1)
    pairs = [(sample, i, j) for sample in samples for i, j in np.argwhere(has_loss[sample])]
    means, counts = [], []
    for arm, values in enumerate(arms):
        is_used = np.repeat(has_loss[arm][None], 1 + len(pairs), axis=0)
        for row, (sample, i, j) in enumerate(pairs, 1):
            if table.is_paired or arm == sample:
                is_used[row, i, j] = False
        counts.append(is_used.sum(axis=2).astype(float))
        means.append(np.where(is_used, values, 0.0).sum(axis=2) / np.maximum(counts[-1], 1.0))
    strata = np.array([sample for sample, _, _ in pairs], dtype=int)
    return np.array(means), np.array(counts), strata


def _filled(
    rows: Sequence[Mapping[object, float]], used_seeds: Sequence[Iterable[object]]
) -> Array:
    seeds = list(dict.fromkeys(seed for row in used_seeds for seed in row))
    losses = np.full((len(rows), len(seeds)), np.nan)
    for i, (row, row_seeds) in enumerate(zip(rows, used_seeds, strict=True)):
        for seed in row_seeds:
            losses[i, seeds.index(seed)] = row[seed]
    return losses


def are_on_line(logs: Array) -> bool:
    """Whether all columns are powers of the first."""
    if logs.shape[1] == 1 or len(logs) < 3:
        return True
    design = np.column_stack([np.ones(len(logs)), logs[:, 0]])
    off = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    return bool(np.abs(off).max() < ON_LINE) and bool(np.ptp(logs[:, 0]) > ON_LINE)


def mean_error(table: ArmTable) -> Error | None:
    """Error of the mean difference over the sizes; None where every size has a single seed.

    Where some sizes have a single seed, that of one of these: their errors may be common to all.
    """
    errors = [seed_mean(sample) for sample in table.scattered]
    if all(error is not None for error in errors):
        return combine(*(error for error in errors if error is not None))
    of_sizes = size_errors(table)
    return None if of_sizes is None else max(of_sizes, key=lambda error: error.se)


def size_errors(table: ArmTable) -> list[Error] | None:
    """Errors of the differences at the sizes; None where every size has a single seed."""
    errors = [size_means(sample) for sample in table.scattered]
    if any(sample_errors is None for sample_errors in errors):
        return None
    pairs = zip(
        *(sample_errors for sample_errors in errors if sample_errors is not None), strict=True
    )
    return [combine(*of_size) for of_size in pairs]


def single_run_error(table: ArmTable) -> Error | None:
    """What the difference of single runs scatters by about a line in ln size."""
    logs = table.log_size
    design = np.column_stack([np.ones(len(logs)), logs])
    dof = len(logs) - int(np.linalg.matrix_rank(design))
    if dof < 1:
        return None
    y = table.differences
    off = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return Error(math.sqrt(float(off @ off) / dof), float(dof))


def effect_of_seeds(table: ArmTable) -> Error:
    """Error of a number that moves with all sizes alike, by the effects of seeds on these."""
    if table.n_seeds > 1:
        return combine(*(seed_effect(sample) for sample in table.scattered))
    single = single_run_error(table)
    assert single is not None  # five sizes or more
    return Error(single.se * math.sqrt(ONE_SEED_RATIO), single.dof)
