"""What differences of two arms err by."""

from __future__ import annotations

import math

import numpy as np

from extrap.analyses.comparison.arm_table import ArmTable
from extrap.fitting.jackknife import (
    Error,
    combine,
    seed_effect,
    seed_mean,
    size_means,
)

ONE_SEED_SHARE = 0.5
"""Share of a difference's variance that a seed has at all sizes alike, where one seed was used and
it cannot be known; taken to be the most, as `ASSUMED_SHARE` in `extrap.fitting.seed_noise`. It
widens numbers off the laws; means and tests rest on it wholly and are not given."""
ONE_SEED_RATIO = ONE_SEED_SHARE / (1 - ONE_SEED_SHARE)
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
