"""Sweeps of several densities under one law: what sparsity costs, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.comparing.tuned import tuned_losses
from extrap.errors import DataError, FitError
from extrap.fitting import SparsityFit, fit_sparsity
from extrap.records import Runs

Key = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseArm:
    """The sweep of one density.

    Attributes:
        name: Its name.
        density: Kept share of every weight matrix, in (0, 1].
        runs: Its runs.
        params: Size → parameters without embeddings.
        kept: Size → those that are not zero.
    """

    name: str
    density: float
    runs: Runs
    params: Mapping[Key, float]
    kept: Mapping[Key, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsePoint:
    """The tuned loss of one density at one size.

    Attributes:
        arm: Name of the sweep.
        size: Its size.
        density: Kept share of every weight matrix.
        params: Parameters without embeddings.
        kept: Those that are not zero.
        loss: Mean over the seeds, in nats.
    """

    arm: str
    size: Key
    density: float
    params: float
    kept: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSweep:
    """Several densities over size.

    Attributes:
        points: Tuned losses, densest first, then by size.
        law: Their law; None where there is none.
        problem: Why there is none.
    """

    points: tuple[SparsePoint, ...]
    law: SparsityFit | None
    problem: str = ""


def sparse_sweep(arms: Sequence[SparseArm], *, level: float = 0.95) -> SparseSweep:
    """Tuned losses of sweeps that differ in density, and the law through them all.

    Args:
        arms: One per density.
        level: Of the intervals.

    Raises:
        DataError: A sweep has no run with a loss.
    """
    points = []
    for arm in sorted(arms, key=lambda arm: -arm.density):
        tuned = tuned_losses(arm.name, arm.runs)
        for size, found in sorted(tuned.by_size.items()):
            points.append(
                SparsePoint(
                    arm=arm.name,
                    size=size,
                    density=arm.density,
                    params=arm.params[size],
                    kept=arm.kept[size],
                    loss=math.exp(float(np.mean(list(found.by_seed.values())))),
                )
            )
    try:
        law = fit_sparsity(
            [p.kept for p in points],
            [p.density for p in points],
            [p.loss for p in points],
            level=level,
        )
    except (DataError, FitError) as error:
        return SparseSweep(points=tuple(points), law=None, problem=str(error))
    return SparseSweep(points=tuple(points), law=law)
