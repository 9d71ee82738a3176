"""Two arms side by side: tuned losses at common sizes, and what differences err by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extrap.analyses.comparison.seed_losses import Arm, Key
from extrap.errors import DataError
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.jackknife import Error, combine, seed_mean, size_means
from extrap.laws.base import Array

UNIT_MATCH_LOG_RATIO = 0.04
"""Log ratio within which losses of all sizes look like one loss in two units."""
MIN_LOG_PERPLEXITY = 1e-9
"""Smaller log losses are raised to it before their logarithm is taken."""


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
    def noise(self) -> float | None:
        """Standard deviation of the log loss of one run; None where every size has one seed."""
        arms = (self.plain, self.treated)
        off = [arm - np.nanmean(arm, axis=1, keepdims=True) for arm in arms]
        dof = sum(int(np.isfinite(arm).sum()) - len(arm) for arm in arms)
        return math.sqrt(sum(float(np.nansum(arm**2)) for arm in off) / dof) if dof else None

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


def _filled(
    rows: Sequence[Mapping[object, float]], used_seeds: Sequence[Iterable[object]]
) -> Array:
    seeds = list(dict.fromkeys(seed for row in used_seeds for seed in row))
    losses = np.full((len(rows), len(seeds)), np.nan)
    for i, (row, row_seeds) in enumerate(zip(rows, used_seeds, strict=True)):
        for seed in row_seeds:
            losses[i, seeds.index(seed)] = row[seed]
    return losses


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


def check_units(table: ArmTable, plain: str, treated: str) -> None:
    """Refuse losses that are as far apart as one loss in two units, at three sizes or more.

    Args:
        table: Tuned log losses of both.
        plain: Name of the plain recipe.
        treated: Name of the treated one.

    Raises:
        DataError: They look like bits and nats, or like a perplexity and a log loss.
    """
    if len(table.keys) < LEAST_SIZES_OF_LAW:
        return
    larger, smaller = table.means.max(axis=0), table.means.min(axis=0)
    off = {
        "bits and nats": larger - smaller + math.log(math.log(2)),
        "perplexities and log losses": np.log(larger.clip(MIN_LOG_PERPLEXITY)) - smaller,
    }
    for units, by_size in off.items():
        if (np.abs(by_size) < UNIT_MATCH_LOG_RATIO).all():
            raise DataError(
                f"recipes need losses in one unit, those of {plain!r} and {treated!r} differ as "
                f"{units} do; convert one."
            )
