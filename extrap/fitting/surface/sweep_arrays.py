"""The runs of a sweep as arrays; pruned runs at the loss that they would have reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.errors import DataError
from extrap.laws.base import Array
from extrap.records import Runs
from extrap.records.numbers import format_quantity

Indices = npt.NDArray[np.intp]
MOST_COMMON_SEEDS, MOST_PAIRS = 12, 48
"""Seeds that several sizes have, and seeds at one size, up to which each has an effect."""
FEW = 3
"""Finished runs at least from which pruned ones are completed."""
LEAST_COMPLETION_SD = 0.01
"""Least standard deviation of the log loss of a completed run."""
SIZE_GAIN_SD, STANDING_SD, VALUE_SD = 0.05, 0.5, 0.1
"""Of gains by size, of their slope over log losses at a step, and over an octave of a value, all
about 0: runs keep their distances."""
ROBUST = 1.4826
"""Standard deviation over the median absolute deviation, of a normal distribution."""
LOG2_DECIMALS = 9
"""Decimals of log2 sizes."""
CELL_DECIMALS = 6
"""Decimals of log2 values within which runs are of one cell."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepArrays:
    """Complete, diverged and completed pruned runs: M of S sizes, C size and D tuned columns.

    Attributes:
        log_sizes: log2 of the sizes, smallest first, (S, C).
        size: Index of each run's size, (M,).
        values: log2 of the tuned values, (M, D); pinned slopes are taken off.
        log_loss: (M,); NaN where it diverged.
        diverged: (M,).
        seed: Of each run, (M,).
        cell: Runs of one size, of the same values, that diverged or did not, share a number, (M,).
        seeds: Indicators of seed effects, (M, K + P): of seeds that several sizes have, then of
            seeds at one size.
        common_seeds: Names of the first K.
        completion_sd: Of a log loss beyond noise, (M,): above 0 where the run was completed.
        completed: Indicators of the completed runs of a size, (M, Q), of the Q sizes with any.
        offset_sd: Of an error that these have in common, (Q,).
        pinned: Slopes of optima that are given, (C, D); NaN where they are not.
        n_lacking: Runs that a sampler saw the results of and that are not here: pruned ones that
            could not be completed and, if there are any, failed ones.
    """

    log_sizes: Array
    size: Indices
    values: Array
    log_loss: Array
    diverged: npt.NDArray[np.bool_]
    seed: npt.NDArray[np.object_]
    cell: Indices
    seeds: Array
    common_seeds: tuple[str, ...]
    completion_sd: Array
    completed: Array
    offset_sd: Array
    pinned: Array
    n_lacking: int

    @cached_property
    def n_common(self) -> int:
        """K."""
        return len(self.common_seeds)

    @cached_property
    def from_largest(self) -> Array:
        """log2 of the sizes over the largest value of each column, (S, C)."""
        return np.asarray(self.log_sizes - self.log_sizes.max(axis=0))


def arrays_of(runs: Runs, pinned: Mapping[str, Mapping[str, float]] | None = None) -> SweepArrays:
    """The runs of a sweep; failed ones are left out, and pruned ones that cannot be completed.

    Args:
        runs: Rows of stage `tune`.
        pinned: Tuned column → size column → given slope of the log of the optimum.

    Raises:
        DataError: A tuned column has one value in all runs.
    """
    frame = complete_pruned(runs)
    is_here = frame["status"].isin(["complete", "diverged"])
    is_pruned = (frame["status"] == "pruned").any()
    n_lacking = int((~is_here).sum()) if is_pruned else 0
    frame = frame[is_here].reset_index(drop=True)
    diverged = (frame["status"] == "diverged").to_numpy()
    logs = np.round(np.log2(frame[list(runs.sizes)].to_numpy(dtype=float)), LOG2_DECIMALS)
    log_sizes, size = np.unique(logs, axis=0, return_inverse=True)
    order = np.argsort(log_sizes.mean(axis=1), kind="stable")
    log_sizes, size = log_sizes[order], np.argsort(order, kind="stable")[size.ravel()]
    values = np.log2(frame[list(runs.tuned)].to_numpy(dtype=float))
    for name, column in zip(runs.tuned, values.T, strict=True):
        if len(column) and np.ptp(column) < 10.0**-CELL_DECIMALS:
            value = format_quantity(2.0 ** float(column[0]))
            raise DataError(
                f"a tuned column needs at least two values, got {name} = {value} in all "
                f"{len(column)} runs; leave it out, or add runs with another value."
            )
    slopes = np.full((len(runs.sizes), len(runs.tuned)), np.nan)
    for name, by_size in (pinned or {}).items():
        for column, slope in by_size.items():
            slopes[runs.sizes.index(column), runs.tuned.index(name)] = slope
    values -= (log_sizes - log_sizes.max(axis=0))[size] @ np.nan_to_num(slopes)
    key = np.column_stack([size, np.round(values, CELL_DECIMALS), diverged])
    cell = np.unique(key, axis=0, return_inverse=True)[1].ravel()
    seeds, common_seeds = _seed_effects(frame["seed"].astype(str), size, ~diverged, len(log_sizes))
    completion_sd, offset_sd = (
        frame[name].to_numpy(dtype=float) for name in ("completion_sd", "offset_sd")
    )
    with_completed = np.unique(size[completion_sd > 0])
    completed = (size[:, None] == with_completed) & (completion_sd > 0)[:, None]
    return SweepArrays(
        log_sizes=log_sizes,
        size=size,
        values=values,
        log_loss=np.where(diverged, np.nan, np.log(frame["loss"].where(~diverged, 1.0))),
        diverged=diverged,
        seed=frame["seed"].to_numpy(dtype=object),
        cell=cell,
        seeds=seeds,
        common_seeds=common_seeds,
        completion_sd=completion_sd,
        completed=completed.astype(float),
        offset_sd=np.array([offset_sd[column].mean() for column in completed.T]),
        pinned=slopes,
        n_lacking=n_lacking,
    )


def _seed_effects(
    names: pd.Series, size: Indices, done: npt.NDArray[np.bool_], n_sizes: int
) -> tuple[Array, tuple[str, ...]]:
    """Indicators of seeds that several sizes have, then of seeds at one size; names of the first.

    A lone seed has an effect too: what it adds to the losses cannot be told from them.
    """
    seed, labels = pd.factorize(names, sort=True)
    at_size = np.zeros((len(labels), n_sizes), dtype=int)
    np.add.at(at_size, (seed[done], size[done]), 1)
    has_run = np.zeros((len(labels), n_sizes), dtype=bool)
    has_run[seed, size] = True
    common = np.flatnonzero(has_run.sum(axis=1) > 1)
    if len(common) > MOST_COMMON_SEEDS:
        common = common[:0]
    pairs = np.argwhere(at_size.T > 1)
    if len(pairs) > MOST_PAIRS:
        pairs = pairs[:0]
    of_pairs = (size[:, None] == pairs[:, 0]) & (seed[:, None] == pairs[:, 1])
    indicators = np.column_stack([seed[:, None] == common, of_pairs]).astype(float)
    return indicators, tuple(map(str, labels[common]))


def complete_pruned(runs: Runs) -> pd.DataFrame:
    """The table of runs, with pruned ones at the loss that they would have reached.

    What finished runs gained from a pruned run's last step is regressed on their size, their log
    loss there and their tuned values, by which runs are slow. A pruned run gains what the line
    says; the scatter about it is its error, `completion_sd`, and the line's error is common to the
    completed runs of a size, `offset_sd`. The sampler's later choices then depend on nothing that
    is not in the table.

    References:
        Ours. Rubin (1976), Inference and missing data, for when choices may be ignored.
    """
    frame = runs.to_frame().assign(completion_sd=0.0, offset_sd=0.0)
    points, pruned = runs.curves(), frame.index[frame["status"] == "pruned"]
    if points is None or not len(pruned):
        return frame
    points = points[np.isfinite(points["loss"]) & (points["loss"] > 0)]
    curves = np.log(points.pivot_table(index="run", columns="step", values="loss"))
    done = frame.index[frame["status"] == "complete"].intersection(curves.index)
    sizes = frame.groupby(list(runs.sizes)).ngroup()
    values = np.log2(frame[list(runs.tuned)])
    for run in pruned.intersection(curves.index):
        step = curves.loc[run].last_valid_index()
        log_losses = curves.loc[done, step].dropna()
        if len(log_losses) < FEW:
            continue
        gains = np.log(frame.loc[log_losses.index, "loss"]) - log_losses
        standing = curves[step] - sizes.map(log_losses.groupby(sizes).median())
        standing = standing.fillna(curves[step] - log_losses.median())
        columns = {"standing": standing} | {
            name: column - column[log_losses.index].mean() for name, column in values.items()
        }
        indicators = {f"size {i}": (sizes == i).astype(float) for i in sizes[log_losses.index]}
        x = pd.DataFrame({"all": 1.0} | indicators | columns)
        sds = [
            np.inf,
            *[SIZE_GAIN_SD] * len(indicators),
            STANDING_SD,
            *[VALUE_SD] * values.shape[1],
        ]
        gain, sd, offset = _gain(
            x.loc[log_losses.index].to_numpy(), gains.to_numpy(), x.loc[run].to_numpy(), sds
        )
        loss = float(np.exp(curves.loc[run, step] + gain))
        names = ["loss", "status", "completion_sd", "offset_sd"]
        frame.loc[run, names] = [loss, "complete", sd, offset]
    return frame


def _gain(
    x: Array, gains: Array, point: Array, sds: Sequence[float]
) -> tuple[float, float, float]:
    """By a line through gains, with sds of its coefficients: the gain, its scatter, its error."""
    scatter = max(ROBUST * float(np.median(np.abs(gains - np.median(gains)))), LEAST_COMPLETION_SD)
    for _ in range(3):
        covariance = np.linalg.inv(x.T @ x / scatter**2 + np.diag(np.array(sds) ** -2.0))
        line = covariance @ x.T @ gains / scatter**2
        scatter = max(ROBUST * float(np.median(np.abs(gains - x @ line))), LEAST_COMPLETION_SD)
    return float(point @ line), scatter, float(np.sqrt(point @ covariance @ point))
