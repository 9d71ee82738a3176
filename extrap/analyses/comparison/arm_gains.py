"""The gains of a recipe over another, from their tuned losses at common sizes or at any."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from extrap.analyses.comparison.arm_table import ArmTable, are_on_line, arm_table
from extrap.analyses.comparison.gain import GainLaw, Pairs, fit_gain
from extrap.analyses.comparison.seed_losses import Arm
from extrap.fitting.posterior import LossPosterior, fit_posterior
from extrap.laws.base import Array

MIN_SIZES = 3
"""Fewer sizes do not tell where a gain goes."""


def loss_posterior(arm: Arm, column: str, fix: Mapping[str, float]) -> LossPosterior:
    """The law of the losses of an arm over its first size column."""
    keys = sorted(arm.by_size)
    losses = [math.exp(float(np.mean(list(arm.by_size[key].values())))) for key in keys]
    return fit_posterior(column, [key[0] for key in keys], losses, loss_se=None, fix=fix)


def gain_law(
    plain: Arm, treated: Arm, column: str, fix: Mapping[str, float]
) -> tuple[GainLaw, float] | None:
    """The law of the gain, and the size from which it counts doublings; or None.

    At common sizes where there are three or more; else at the sizes of the treated arm, against
    the law of the plain one. Sizes must lie on a line, so that the first column says them all.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        column: The first size column.
        fix: Pinned parameters of the plain law.
    """
    table = arm_table(plain, treated)
    if _is_law(table.keys):
        return fit_gain(_of_pairs(table)), table.keys[0][0]
    if not (_is_law(sorted(plain.by_size)) and _is_law(sorted(treated.by_size))):
        return None
    keys = sorted(treated.by_size)
    return fit_gain(_against_law(loss_posterior(plain, column, fix), treated)), keys[0][0]


def _is_law(keys: object) -> bool:
    logs = np.log(np.array(keys, dtype=float))
    if len(logs) < MIN_SIZES or not are_on_line(logs):
        return False
    return len(np.unique(logs[:, 0].round(9))) == len(logs)


def _of_pairs(table: ArmTable) -> Pairs:
    """At common sizes; two runs that are not paired scatter as a pair does."""
    counts = [np.isfinite(each).sum(axis=1) for each in table.scattered]
    off = [each - np.nanmean(each, axis=1, keepdims=True) for each in table.scattered]
    n_arms = len(table.scattered)
    return Pairs(
        doublings=_doublings(np.array(table.keys)[:, 0]),
        gains=(-table.differences).tolist(),
        n_pairs=(n_arms / sum(1 / n for n in counts)).tolist(),
        squares=n_arms * float(sum(np.nansum(each**2) for each in off)),
        dof=float(sum((n - 1).sum() for n in counts)),
    )


def _against_law(law: LossPosterior, treated: Arm) -> Pairs:
    keys = sorted(treated.by_size)
    rows = [list(treated.by_size[key].values()) for key in keys]
    sizes = np.array(keys)[:, 0]
    expected, variance = law.predict_log(sizes)
    means = np.array([np.mean(row) for row in rows])
    squares = sum(float(np.sum((row - mean) ** 2)) for row, mean in zip(rows, means, strict=True))
    return Pairs(
        doublings=_doublings(sizes),
        gains=(expected - means).tolist(),
        n_pairs=[float(len(row)) for row in rows],
        squares=2 * squares,
        dof=float(sum(len(row) - 1 for row in rows)),
        variances=variance.tolist(),
    )


def _doublings(sizes: Array) -> list[float]:
    return [math.log2(size / sizes[0]) for size in sizes.tolist()]
