"""The gains of a recipe over another, from their tuned losses at common sizes or at any."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from extrap.analyses.comparison.arm_table import ArmTable, arm_table
from extrap.analyses.comparison.seed_losses import Arm, Key, size_key
from extrap.errors import DataError
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.gain import GainLaw, Pairs, fit_gain
from extrap.fitting.posterior import LossPosterior, fit_posterior

ON_LINE = 1e-3
"""Largest distance, in ln size, of sizes that move together from their line."""


def loss_posterior(arm: Arm, column: str, fix: Mapping[str, float]) -> LossPosterior:
    """The law of the losses of an arm over its first size column."""
    keys = sorted(arm.by_size)
    losses = [math.exp(float(np.mean(list(arm.by_size[key].values())))) for key in keys]
    return fit_posterior(column, [key[0] for key in keys], losses, loss_se=None, fix=fix)


def gain_law(
    plain: Arm,
    treated: Arm,
    columns: Sequence[str],
    target: Mapping[str, float],
    fix: Mapping[str, float],
) -> GainLaw:
    """The law of the gain over the size columns, or the first one where the others follow it.

    It is of the common sizes, one or more. Where these are fewer than three and both recipes have
    three of their own, it is of the sizes of the treated one, against the law of the plain one.

    Args:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        columns: Size columns.
        target: The size asked for.
        fix: Pinned parameters of the plain law.

    Raises:
        DataError: No size is common, and the law of the plain recipe cannot stand in.
    """
    table, goal = arm_table(plain, treated), size_key(target[column] for column in columns)
    fewest = min(len(plain.by_size), len(treated.by_size))
    if len(table.keys) < LEAST_SIZES_OF_LAW <= fewest:
        is_single = are_on_line([*{*plain.by_size, *treated.by_size}, goal])
        if is_single:
            return fit_gain(_against_law(loss_posterior(plain, columns[0], fix), columns, treated))
    if table.keys:
        is_single = are_on_line([*table.keys, goal])
        return fit_gain(_of_pairs(table, columns[:1] if is_single else columns))
    advice = f"nor {LEAST_SIZES_OF_LAW} sizes each in one column for a law"
    raise DataError(
        f"recipes need a common size with losses of both, {plain.name!r} and {treated.name!r} "
        f"have none, {advice}; run both at the same sizes."
    )


def are_on_line(sizes: Sequence[Key]) -> bool:
    """Whether all size columns are powers of the first."""
    logs = np.log(np.array(sizes, dtype=float))
    if logs.shape[1] == 1:
        return True
    design = np.column_stack([np.ones(len(logs)), logs[:, 0]])
    off = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    return bool(np.abs(off).max() < ON_LINE)


def _of_pairs(table: ArmTable, columns: Sequence[str]) -> Pairs:
    """At common sizes; two runs that are not paired scatter as a pair does."""
    counts = [np.isfinite(sample).sum(axis=1) for sample in table.scattered]
    off = [sample - np.nanmean(sample, axis=1, keepdims=True) for sample in table.scattered]
    n_arms = len(table.scattered)
    return Pairs(
        columns=columns,
        sizes=[key[: len(columns)] for key in table.keys],
        gains=(-table.differences).tolist(),
        n_pairs=(n_arms / sum(1 / n for n in counts)).tolist(),
        squares=n_arms * float(sum(np.nansum(sample**2) for sample in off)),
        dof=float(sum((n - 1).sum() for n in counts)),
    )


def _against_law(law: LossPosterior, columns: Sequence[str], treated: Arm) -> Pairs:
    keys = sorted(treated.by_size)
    rows = [list(treated.by_size[key].values()) for key in keys]
    expected, variance = law.predict_log(np.array(keys)[:, 0])
    means = np.array([np.mean(row) for row in rows])
    squares = sum(float(np.sum((row - mean) ** 2)) for row, mean in zip(rows, means, strict=True))
    return Pairs(
        columns=columns[:1],
        sizes=[key[:1] for key in keys],
        gains=(expected - means).tolist(),
        n_pairs=[float(len(row)) for row in rows],
        squares=2 * squares,
        dof=float(sum(len(row) - 1 for row in rows)),
        variances=variance.tolist(),
    )
