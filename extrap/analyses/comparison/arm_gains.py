"""The gains of a recipe over another, from their tuned losses at common sizes or at any."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from extrap.analyses.comparison.arm_table import ArmTable, are_on_line, arm_table
from extrap.analyses.comparison.gain import GainLaw, Pairs, fit_gain
from extrap.analyses.comparison.seed_losses import Arm, Key
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.posterior import LossPosterior, fit_posterior
from extrap.laws.base import Array


def loss_posterior(arm: Arm, column: str, fix: Mapping[str, float]) -> LossPosterior:
    """The law of the losses of an arm over its first size column."""
    keys = sorted(arm.by_size)
    losses = [math.exp(float(np.mean(list(arm.by_size[key].values())))) for key in keys]
    return fit_posterior(column, [key[0] for key in keys], losses, loss_se=None, fix=fix)


def gain_law(plain: Arm, treated: Arm, column: str, fix: Mapping[str, float]) -> GainLaw | None:
    """The law of the gain, where three sizes or more tell one.

    At common sizes where there are three or more; else at the sizes of the treated arm, against
    the law of the plain one. The sizes of both must lie on one line, so that the first column says
    them all.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        column: The first size column.
        fix: Pinned parameters of the plain law.
    """
    table = arm_table(plain, treated)
    if _tell_law(table.keys):
        return fit_gain(_of_pairs(table))
    sizes = [
        sorted(plain.by_size),
        sorted(treated.by_size),
        sorted({*plain.by_size, *treated.by_size}),
    ]
    if not all(map(_tell_law, sizes)):
        return None
    return fit_gain(_against_law(loss_posterior(plain, column, fix), treated))


def _tell_law(keys: Sequence[Key]) -> bool:
    """Whether there are enough sizes, distinct in the first column and on one line."""
    if len(keys) < LEAST_SIZES_OF_LAW:
        return False
    logs = np.log(np.array(keys, dtype=float))
    return are_on_line(logs) and len(np.unique(logs[:, 0].round(9))) == len(logs)


def _of_pairs(table: ArmTable) -> Pairs:
    """At common sizes; two runs that are not paired scatter as a pair does."""
    counts = [np.isfinite(sample).sum(axis=1) for sample in table.scattered]
    off = [sample - np.nanmean(sample, axis=1, keepdims=True) for sample in table.scattered]
    n_arms = len(table.scattered)
    return Pairs(
        doublings=_doublings(np.array(table.keys)[:, 0]),
        smallest=table.keys[0][0],
        gains=(-table.differences).tolist(),
        n_pairs=(n_arms / sum(1 / n for n in counts)).tolist(),
        squares=n_arms * float(sum(np.nansum(sample**2) for sample in off)),
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
        smallest=float(sizes[0]),
        gains=(expected - means).tolist(),
        n_pairs=[float(len(row)) for row in rows],
        squares=2 * squares,
        dof=float(sum(len(row) - 1 for row in rows)),
        variances=variance.tolist(),
    )


def _doublings(sizes: Array) -> list[float]:
    return [math.log2(size / sizes[0]) for size in sizes.tolist()]
