"""Runs whose loss is far from that of the other seeds of their cell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from extrap.fitting.distributions import chi2_quantile
from extrap.fitting.seed_noise import NEAR_OPTIMUM
from extrap.records import Runs
from extrap.records.results import Outlier

LEAST_SEEDS_OF_CELL = 3
"""Seeds of a cell from which on one that is wrong can be distinguished from the others."""
OUTLIER_SDS = 15.0
"""Typical standard deviations. With Student's t noise of 3 degrees of freedom some run of 105 is
named in 2 % of sweeps (`make calibrate`)."""
LEAST_OUTLIER = 0.02
"""Log deviation below which no run is named, however small the noise is."""
AGREE = 0.25
"""The other seeds of a cell agree if they range over less than this share of the deviation."""


def find_outliers(runs: Runs) -> tuple[Outlier, ...]:
    """Complete runs that are far from the median of the seeds of their cell, the farthest first.

    A cell has one size and one set of tuned values. The typical standard deviation is the median
    over cells of the sample standard deviation s, divided by what that median is for normal noise,
    √(median χ²_{n−1} / (n − 1)) times σ; a cell with a wrong run is one of many. A run is too high
    only in a cell near the optimum: elsewhere, runs often become unstable.

    Args:
        runs: A sweep; cells with fewer than three seeds are left out.

    References:
        Ours.
    """
    frame = runs.to_frame()
    frame = frame[frame["stage"].eq("tune") & frame["status"].eq("complete")]
    if frame.empty:
        return ()
    log_loss = np.log(frame["loss"].astype(float))
    cells = log_loss.groupby([frame[c] for c in (*runs.sizes, *runs.tuned)])
    median, n = cells.transform("median"), cells.transform("count")
    enough = n >= LEAST_SEEDS_OF_CELL
    if not enough.any():
        return ()
    by_cell = pd.DataFrame({"sd": cells.std(), "n": cells.count()})
    by_cell = by_cell[by_cell["n"] >= LEAST_SEEDS_OF_CELL]
    dof = by_cell["n"].to_numpy() - 1.0
    typical = by_cell["sd"].to_numpy() / np.sqrt(chi2_quantile(0.5, dof) / dof)
    limit = max(OUTLIER_SDS * float(np.median(typical)), LEAST_OUTLIER)
    best = median.groupby([frame[c] for c in runs.sizes]).transform("min")
    off = log_loss - median
    is_near = median <= best + np.log1p(NEAR_OPTIMUM)
    far = off[enough & ((off < -limit) | ((off > limit) & is_near))]
    order = far.abs().sort_values(ascending=False, kind="stable").index
    cell = cells.ngroup()
    return tuple(_outlier(int(row), off[cell == cell[row]]) for row in order)


def _outlier(row: int, off: pd.Series) -> Outlier:
    """From the log deviations of its cell."""
    deviation, others = float(off[row]), off.drop(row)
    return Outlier(
        row=row,
        log_deviation=deviation,
        is_fault=deviation < 0 and bool(np.ptp(others) < AGREE * abs(deviation)),
    )
