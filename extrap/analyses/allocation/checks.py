"""An allocation compared with runs at its budget: the recommended split, and others beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.analyses.allocation.allocation import Allocation
from extrap.errors import DataError
from extrap.fitting.means import paired_mean
from extrap.records import Measure

SAME_SPLIT_OCTAVES = 0.3
"""Octaves of parameters by which a run may miss a factor: sizes are whole numbers, and the split
that is recommended now is not always quite the one that was sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSplit:
    """One split of the budget that was trained.

    Attributes:
        factor: Parameters in units of the recommended ones.
        params: N.
        tokens: D.
        lr: The rate.
        losses: Of every run.
        loss: Their mean, with Student's t interval.
        excess: Mean of loss minus the recommended split's, pair by pair of seeds.
        epochs: Passes over the data there are.
    """

    factor: float
    params: float
    tokens: float
    lr: float
    losses: tuple[float, ...]
    loss: Measure
    excess: Measure
    epochs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationCheck:
    """What training at the budget showed.

    Attributes:
        splits: What was trained, fewest parameters first.
        forecast: The loss that the estimator of the split expects there, with its interval.
        prediction: What a forecast of the sweep expects of one new run there, with the prediction
            interval; nothing if there was none.
    """

    splits: tuple[CheckedSplit, ...]
    forecast: Measure
    prediction: Measure = Measure()

    @property
    def recommended(self) -> CheckedSplit:
        """The split that was recommended."""
        return min(self.splits, key=lambda split: abs(math.log(split.factor)))

    @property
    def best(self) -> CheckedSplit:
        """The split of the lowest mean loss."""
        return min(self.splits, key=lambda split: split.loss.value or math.inf)

    @property
    def is_best(self) -> bool:
        """Whether no other split is significantly better than the recommended one."""
        return all((split.excess.ci.upper or 0.0) >= 0 for split in self.splits)

    @property
    def n_predicted(self) -> int:
        """Runs of the recommended split inside the prediction interval."""
        return sum(loss in self.prediction.ci for loss in self.recommended.losses)

    @property
    def holds(self) -> bool:
        """Whether the mean loss of the recommended split is in the forecast's interval."""
        return (self.recommended.loss.value or math.nan) in self.forecast.ci


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationReport:
    """What an allocation study found.

    Attributes:
        allocation: The split of the budget that was checked.
        course: Budget of the profiles → its split.
        check: What training there showed.
        optima: `params`, `tokens`, `loss`, `loss_se`, `lr` and the size, at every size and length.
        runs: Runs of the check, as in the run table.
        column: The model's size column.
        n_runs: Number of all runs.
    """

    allocation: Allocation
    course: dict[float, Allocation]
    check: AllocationCheck
    optima: pd.DataFrame
    runs: pd.DataFrame
    column: str
    n_runs: int

    @property
    def is_borne_out(self) -> bool:
        """Whether the runs at the budget agree with the split."""
        return self.check.is_best and self.check.n_predicted > 0


def check_allocation(
    runs: pd.DataFrame,
    *,
    params: float,
    factors: tuple[float, ...],
    forecast: Measure,
    level: float,
) -> AllocationCheck:
    """Compare the splits that were trained at one budget.

    Args:
        runs: One row per run: `n_params`, `tokens`, `lr`, `seed`, `loss`, `epochs`.
        params: The recommended parameters.
        factors: Multiples of them that were trained.
        forecast: The loss forecast for the recommended split.
        level: Of the intervals.

    Raises:
        DataError: A split has fewer than two runs with a loss.
    """
    octaves = np.log2(runs["n_params"].to_numpy(float) / params)
    groups = {}
    for factor in sorted(factors):
        away = np.abs(octaves - math.log2(factor))
        split_runs = runs[
            (away <= SAME_SPLIT_OCTAVES) & (away == away.min(initial=math.inf))
        ].dropna(subset=["loss"])
        if len(split_runs) < 2:
            raise DataError(
                f"the check needs two runs with a loss at {factor:g} times the recommended "
                f"{params:.4g} parameters, got {len(split_runs)}; run the study again."
            )
        groups[factor] = split_runs.set_index("seed")
    base = groups[min(groups, key=lambda factor: abs(math.log(factor)))]["loss"]
    splits = tuple(
        CheckedSplit(
            factor=factor,
            params=float(split_runs["n_params"].iloc[0]),
            tokens=float(split_runs["tokens"].iloc[0]),
            lr=float(split_runs["lr"].iloc[0]),
            losses=tuple(split_runs["loss"].to_list()),
            loss=paired_mean(split_runs["loss"], level=level),
            excess=paired_mean((split_runs["loss"] - base).dropna(), level=level),
            epochs=float(split_runs["epochs"].iloc[0]),
        )
        for factor, split_runs in groups.items()
    )
    return AllocationCheck(splits=splits, forecast=forecast)
