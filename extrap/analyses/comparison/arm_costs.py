"""The compute of a run of a recipe at some size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from extrap.analyses.comparison.arm_table import are_on_line
from extrap.errors import DataError
from extrap.fitting.run_costs import FLOPS, RunCost, read_run_cost
from extrap.records import Runs

FLAT = 0.02
"""Compute that grows by a smaller power of size does not move: by less than 5 % over a decade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCompute:
    """The FLOPs of a recipe along the line of its sizes.

    Attributes:
        growth: FLOPs of a run over the size columns.
        slopes: Size column → power of the first column that it follows.
    """

    growth: RunCost
    slopes: Mapping[str, float]

    def log_at(self, size: Mapping[str, float], shift: float = 0.0) -> float:
        """Ln FLOPs where the first column is `exp(shift)` times that of a size.

        Raises:
            DataError: A formula over the sizes is not positive there.
        """
        moved = {c: v * math.exp(self.slopes[c] * shift) for c, v in size.items()}
        return math.log(self.growth.of(moved))

    def moves(self, size: Mapping[str, float]) -> bool:
        """Whether it changes with size at all, beyond rounding."""
        return abs(self.log_at(size, 1.0) - self.log_at(size, 0.0)) >= FLAT


def arm_compute(runs: Runs) -> ArmCompute | None:
    """FLOPs of a run: the column `flops`, else `6 · n_params · n_tokens`; None without either."""
    sweep = runs.of_stage("tune").complete()
    try:
        growth = read_run_cost(sweep)
    except DataError:
        return None
    logs = np.log(np.unique(sweep.to_frame()[list(runs.sizes)].to_numpy(dtype=float), axis=0))
    slopes = [1.0] * logs.shape[1]  # columns that vary independently grow alike
    if are_on_line(logs):
        first = logs[:, 0] - logs[:, 0].mean()
        slopes[1:] = (first @ logs[:, 1:] / (float(first @ first) or 1.0)).tolist()
    known = dict(zip(runs.sizes, slopes, strict=True))
    return ArmCompute(growth=growth, slopes=known) if growth.unit == FLOPS else None
