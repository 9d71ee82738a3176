"""What differences of two arms err by, and the test of "the arms have one law"."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from extrap.analyses.comparison.arm_table import ArmTable
from extrap.fitting.jackknife import (
    Error,
    combine,
    contrast_unit,
    seed_effect,
    seed_mean,
    size_means,
)

ONE_SEED_SHARE = 0.5
"""Share of a difference's variance that a seed has at all sizes alike, where one seed was used and
it cannot be known; taken to be the most, as `ASSUMED_SHARE` in `extrap.fitting.seed_noise`. It
widens numbers off the laws; means and tests rest on it wholly and are not given."""
ONE_SEED_RATIO = ONE_SEED_SHARE / (1 - ONE_SEED_SHARE)
MEAN_WEIGHT = 2.0
"""Of the mean difference against that of the slopes in the joint test; of 2, 3, 4 the one that
finds another exponent as often as tests of slopes alone (`benchmarks.comparisons`)."""
SMALLEST_P = 1e-300
SEED_REMEDY = "add a second seed at every size, or sizes up to five"


def mean_error(table: ArmTable) -> Error | None:
    """Error of the mean difference over the sizes; None where every size has a single seed.

    Where some sizes have a single seed, that of one of these: their errors may be common to all.
    """
    errors = [seed_mean(each) for each in table.scattered]
    if all(error is not None for error in errors):
        return combine(*(error for error in errors if error is not None))
    of_sizes = size_errors(table)
    return None if of_sizes is None else max(of_sizes, key=lambda error: error.se)


def size_errors(table: ArmTable) -> list[Error] | None:
    """Errors of the differences at the sizes; None where every size has a single seed."""
    errors = [size_means(each) for each in table.scattered]
    if any(each is None for each in errors):
        return None
    pairs = zip(*(each for each in errors if each is not None), strict=True)
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
        return combine(*(seed_effect(each) for each in table.scattered))
    single = single_run_error(table)
    assert single is not None  # five sizes or more
    return Error(single.se * math.sqrt(ONE_SEED_RATIO), single.dof)


def joint_p_value(table: ArmTable) -> float | None:
    """Of "the arms have one law": the mean difference and the slopes over ln size are 0.

    The mean has the error of the seeds' own means, slopes that of what is left; their p-values,
    independent under the hypothesis, are combined by a product in which the mean counts
    `MEAN_WEIGHT` times. Where a size has a single seed, the mean alone is tested; None where
    every size has.

    References:
        Good (1955), On the weighted combination of significance tests, J. R. Stat. Soc. B 17,
        264-265.
    """
    of_mean = mean_error(table)
    if of_mean is None:
        return None
    of_mean_p = max(of_mean.p_value(float(table.differences.mean())), SMALLEST_P)
    slopes, units = _slopes(table), [contrast_unit(each) for each in table.scattered]
    if not slopes or any(unit is None for unit in units):
        return of_mean_p
    squares, dofs = [], []
    for z, spread in slopes:
        parts = zip(units, spread, strict=True)
        error = combine(*(Error(unit.se * s, unit.dof) for unit, s in parts if unit is not None))
        off = z / error.se if error.se else (math.inf if z else 0.0)
        squares.append(off**2)
        dofs.append(error.dof)
    of_slopes = float(stats.f.sf(np.mean(squares), len(squares), min(dofs)))
    log_product = MEAN_WEIGHT * math.log(of_mean_p) + math.log(max(of_slopes, SMALLEST_P))
    both = MEAN_WEIGHT * math.exp(log_product / MEAN_WEIGHT) - math.exp(log_product)
    return min(both / (MEAN_WEIGHT - 1), 1.0)


def _slopes(table: ArmTable) -> list[tuple[float, list[float]]]:
    """Slopes of the differences over ln size, orthogonal to each other and to the mean.

    Each with the root of `Σ c_i² / n_i` of every scattered table.
    """
    logs = table.log_size
    basis = np.linalg.qr(np.column_stack([np.ones(len(logs)), logs]))[0].T[1:]
    rank = int(np.linalg.matrix_rank(np.column_stack([np.ones(len(logs)), logs])))
    counts = [np.isfinite(each).sum(axis=1) for each in table.scattered]
    return [
        (float(row @ table.differences), [math.sqrt(float((row**2 / n).sum())) for n in counts])
        for row in basis[: max(min(rank, len(logs)) - 1, 0)]
    ]
