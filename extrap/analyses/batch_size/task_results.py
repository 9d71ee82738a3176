"""What the runs of a batch study say: steps, rates, noise scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.analyses.batch_size.batch_laws import BatchLaw, rate_law
from extrap.analyses.batch_size.critical import CriticalBatches, critical_batch
from extrap.analyses.batch_size.noise_course import (
    noise_over_training,
    noise_until,
    pool_gradients,
)
from extrap.analyses.batch_size.spec import BATCH_COLUMN, BatchTask
from extrap.analyses.batch_size.steps import steps_to_target, tuned_steps
from extrap.errors import DataError
from extrap.records import Runs

FEWEST_RATES = 3
"""Batch sizes with a best rate that a target of a size needs for the law of the rate."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskResult:
    """What the sweep of one task says.

    Attributes:
        task: The task.
        tuned: One row per size, target and batch, as `tuned_steps` returns it.
        seeds: The same by seed, what critical batches are fitted to.
        critical: Critical batches by size and target.
        rate_law: Best rate over batch and size; None with too few optima.
        rates: The rows of `tuned` that it rests on: at each size those for the lowest target that
            nearly all batches reached.
        noise: One row per size and target: `noise_scale`, `lower`, `upper` of the mean up to the
            target, and `b_crit`, `b_lower`, `b_upper`; empty if nothing was measured.
        courses: Noise over training, one row per window, with the size columns; empty likewise.
        notes: What could not be done, one sentence each.
    """

    task: BatchTask
    tuned: pd.DataFrame
    seeds: pd.DataFrame
    critical: CriticalBatches
    rate_law: BatchLaw | None
    rates: pd.DataFrame
    noise: pd.DataFrame
    courses: pd.DataFrame
    notes: tuple[str, ...] = ()


def analyse_task(
    task: BatchTask, runs: Runs, *, overhead: float = 0.2, level: float = 0.95
) -> TaskResult:
    """Steps to each target, tuned at every batch, and what follows from them.

    Args:
        task: The task.
        runs: Its sweep, with curves.
        overhead: As in `critical_batch`.
        level: Of all intervals.

    Raises:
        DataError: At no size enough batches reached a target.
    """
    sizes = list(task.study.sizes)
    tuned, by_seed = tuned_steps(steps_to_target(runs, targets=task.targets), by=sizes)
    critical = critical_batch(by_seed, by=[*sizes, "target"], overhead=overhead, level=level)
    rates, notes = _rates(tuned, sizes), list(critical.notes)
    law = None
    try:
        law = rate_law(rates, [BATCH_COLUMN, *sizes], level=level)
    except DataError as error:
        notes.append(f"no law of the best rate: {error}")
    if n_edges := int(tuned["at_edge"].sum()):
        notes.append(
            f"{n_edges} batch size(s) have their best learning rate at the edge of its grid: "
            "their steps are upper bounds; raise growth= or widen the range of lr, and resume."
        )
    noise, courses = pd.DataFrame(), pd.DataFrame()
    if task.study.recipe.noise_every:
        noise, courses = _noise(task, runs, tuned, critical, level=level)
    return TaskResult(
        task=task,
        tuned=tuned,
        seeds=by_seed,
        critical=critical,
        rate_law=law,
        rates=rates,
        noise=noise,
        courses=courses,
        notes=tuple(dict.fromkeys(notes)),
    )


def _rates(tuned: pd.DataFrame, sizes: list[str]) -> pd.DataFrame:
    """The optima inside their grids for one target a size: the lowest that has nearly most."""
    inside = tuned[np.isfinite(tuned["lr_opt"])]
    parts = [inside.iloc[:0]]
    for _, rows in inside.groupby(sizes):
        counts = rows.groupby("target")[BATCH_COLUMN].nunique()
        enough = counts[counts >= max(FEWEST_RATES, counts.max() - 1)]
        if len(enough):
            parts.append(rows[rows["target"] == enough.index.min()].sort_values(BATCH_COLUMN))
    return pd.concat(parts)


def _noise(
    task: BatchTask, runs: Runs, tuned: pd.DataFrame, critical: CriticalBatches, *, level: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Mean noise up to each target, and its course, in the tuned runs of one batch."""
    sizes, batch = list(task.study.sizes), task.noise_batch or task.reference
    frame = runs.to_frame()
    means, courses = [], []
    here = tuned[(tuned[BATCH_COLUMN] == batch) & np.isfinite(tuned["lr_opt"])]
    for key, of_size in here.groupby(sizes):
        size = dict(zip(sizes, map(float, key), strict=True))
        is_here = np.logical_and.reduce(
            [frame[c] == v for c, v in {**size, BATCH_COLUMN: batch}.items()]
        )
        of_batch = frame[is_here & (frame["status"] == "complete")]
        for row in of_size.sort_values("target").to_dict("records"):
            off = np.abs(np.log(of_batch["lr"] / row["lr_opt"]))
            pooled = pool_gradients(runs, list(of_batch.index[np.isclose(off, off.min())]))
            if row["target"] == of_size["target"].min():  # the best runs for the hardest target
                course = noise_over_training(pooled, level=level)
                courses.append(course.assign(**size, batch_size=batch))
            mean_noise = noise_until(
                pooled, step=row["steps"], batch_size=float(batch), level=level
            )
            for group in critical.groups:
                size_and_target = {**size, "target": row["target"]}
                if mean_noise is not None and group.by == size_and_target:
                    parts = (
                        mean_noise.noise_scale,
                        *mean_noise.ci,
                        group.b_crit.value,
                        *group.b_crit.ci,
                    )
                    names = ("noise_scale", "lower", "upper", "b_crit", "b_lower", "b_upper")
                    means.append({**size_and_target, **dict(zip(names, parts, strict=True))})
    # what is not known is NaN
    means_table = pd.DataFrame(means, dtype=float)
    return means_table, pd.concat(courses) if courses else pd.DataFrame()
