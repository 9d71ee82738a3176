"""Which values of a grid a size still lacks before its optimum is bracketed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from extrap.records import Cell, Runs, StudySpec

__all__ = ["grow_grid"]

MARGIN = 2
"""Grid values wanted on each side of the best one."""


def grow_grid(spec: StudySpec, runs: Runs) -> tuple[Cell, ...]:
    """The grid of a study, grown at each size until the best value has two values on each side.

    A diverged value counts as a worse one. A side grows by at most `spec.growth` values beyond the
    declared grid.

    Args:
        spec: The study.
        runs: Its runs so far; with none, the grid as declared.

    Returns:
        All cells wanted, the finished ones among them.
    """
    frame = runs.to_frame()
    wanted = list(spec.grid_cells())
    for size in spec.size_points():
        here = frame[np.logical_and.reduce([frame[c].astype(float) == v for c, v in size.items()])]
        if here["status"].isin(["complete", "diverged"]).any():
            wanted += _cells_around_optimum(spec, size, here)
    return tuple(dict.fromkeys(wanted))


def _cells_around_optimum(
    spec: StudySpec, size: Mapping[str, float], here: pd.DataFrame
) -> list[Cell]:
    names = list(spec.tune)
    unstable = here[here["status"] == "diverged"][names].drop_duplicates()
    complete = here[here["status"] == "complete"]
    stable = complete.merge(unstable, on=names, how="left", indicator=True)
    stable = stable[stable["_merge"] == "left_only"]
    axes = []
    for name in names:
        tune = spec.tune[name]
        if stable.empty:  # everything diverged: the optimum is lower
            best = round(tune.index(float(here[name].min()))) - 1
        else:
            means = stable.groupby(names)["loss"].mean()
            best = round(tune.index(float(np.atleast_1d(means.idxmin())[names.index(name)])))
        first = max(min(0, best - MARGIN), -spec.growth)
        last = min(max(tune.n - 1, best + MARGIN), tune.n - 1 + spec.growth)
        axes.append([tune.value(i) for i in range(first, last + 1)])
    return [
        Cell.of(size, dict(zip(names, values, strict=True)), seed)
        for values in itertools.product(*axes)
        for seed in spec.seeds
    ]
