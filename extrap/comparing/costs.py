"""What a run of a recipe costs at some size: compute, hours, money."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.comparing.results import ArmCost
from extrap.records import Runs

__all__ = ["SizePower", "arm_cost", "compute_power", "wall_power"]

SECONDS = 3600.0
FLAT = 0.02
"""A power smaller than this is none: compute moves by less than 5 % over a decade of size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePower:
    """Something that grows as a power of the first size column."""

    log_scale: float
    power: float

    @property
    def moves(self) -> bool:
        """Whether it changes with size at all, beyond rounding."""
        return abs(self.power) >= FLAT

    def log_at(self, log_size: float) -> float:
        """Its logarithm at ln size."""
        return self.log_scale + self.power * log_size

    def at(self, size: float) -> float:
        """Its value at a size."""
        return math.exp(self.log_at(math.log(size)))


def compute_power(runs: Runs) -> SizePower | None:
    """FLOPs of a run: the column `flops`, else `6 · n_params · n_tokens`; None without either."""
    frame = runs.of_stage("tune").complete().to_frame()
    if "flops" in frame and (frame["flops"] > 0).any():
        return _power(frame, runs.sizes[0], frame["flops"])
    if {"n_params", "n_tokens"} <= set(frame):
        return _power(frame, runs.sizes[0], 6.0 * frame["n_params"] * frame["n_tokens"])
    return None


def wall_power(runs: Runs) -> SizePower | None:
    """Seconds of a run from the column `wall_s`; None without it."""
    frame = runs.of_stage("tune").complete().to_frame()
    return _power(frame, runs.sizes[0], frame["wall_s"]) if "wall_s" in frame else None


def arm_cost(
    name: str,
    runs: Runs,
    size: float,
    *,
    compute: SizePower | None,
    price: float | None,
    flops_per_second: float | None,
) -> ArmCost:
    """What one run costs at a size.

    Args:
        name: The recipe.
        runs: Its runs.
        size: Value of the first size column.
        compute: Its FLOPs, from `compute_power`.
        price: Of an hour of one GPU.
        flops_per_second: Speed of one GPU, for hours where the runs have no `wall_s`.
    """
    wall = wall_power(runs)
    flops = None if compute is None else compute.at(size)
    hours = None if wall is None else wall.at(size) / SECONDS
    if flops_per_second is not None and flops is not None:
        hours = flops / flops_per_second / SECONDS
    money = None if hours is None or price is None else hours * price
    return ArmCost(arm=name, flops=flops, gpu_hours=hours, money=money)


def _power(frame: pd.DataFrame, column: str, values: pd.Series) -> SizePower | None:
    """A line through the logarithms of the medians by size."""
    values = pd.to_numeric(values, errors="coerce").astype(float)
    known = np.isfinite(values) & (values > 0)
    by_size = values[known].groupby(frame.loc[known, column].astype(float)).median()
    if by_size.empty:
        return None
    x, y = np.log(by_size.index.to_numpy(dtype=float)), np.log(by_size.to_numpy())
    if len(x) == 1:
        return SizePower(log_scale=float(y[0]), power=0.0)
    power, log_scale = np.polyfit(x, y, 1)
    return SizePower(log_scale=float(log_scale), power=float(power))
