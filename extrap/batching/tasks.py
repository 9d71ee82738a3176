"""What the runs of a batch study say: steps, rates, noise scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.batching.critical import CriticalBatches, critical_batch
from extrap.batching.noise_courses import (
    noise_over_training,
    noise_until,
    pool_gradients,
)
from extrap.batching.power_laws import BatchLaw
from extrap.batching.rates import RateLaw, joint_rate_law, rate_law
from extrap.batching.results import BatchGroup
from extrap.batching.targets import seed_steps, steps_to_target, tuned_steps
from extrap.noise import NoiseScale
from extrap.records import BatchTask, Runs

BATCH = "batch_size"
FEWEST_RATES = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskResult:
    """What the sweep of one task says.

    Attributes:
        task: The task.
        tuned: One row per size, target and batch, as `tuned_steps` returns it.
        critical: Critical batches by size and target.
        rate_laws: Size → best rate against batch at the lowest target all batches reached.
        joint: The same in batch and size; None with a single size.
        rates: The rows of `tuned` that those laws rest on.
        noise: One row per size and target: `noise_scale`, `lower`, `upper` of the mean up to the
            target, and `b_crit`, `b_lower`, `b_upper`; empty if nothing was measured.
        courses: Noise over training, one row per window, with the size columns; empty likewise.
        notes: What could not be done, one sentence each.
    """

    task: BatchTask
    tuned: pd.DataFrame
    critical: CriticalBatches
    rate_laws: Mapping[tuple[float, ...], RateLaw]
    joint: BatchLaw | None
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
    reached = steps_to_target(runs, targets=task.targets)
    tuned = tuned_steps(reached, by=sizes)
    replicates = seed_steps(reached, by=sizes)
    critical = critical_batch(replicates, by=[*sizes, "target"], overhead=overhead, level=level)
    notes = list(critical.notes)
    rates = _rates(task, tuned)
    rate_laws, joint = _rate_laws(task, rates, level=level)
    noise, courses = _noise(task, runs, tuned, critical, level=level)
    warnings = tuned.loc[tuned["warning"] != "", [*sizes, "target", BATCH, "warning"]]
    notes += [_warning_note(row) for row in warnings.to_dict("records")]
    return TaskResult(
        task=task,
        tuned=tuned,
        critical=critical,
        rate_laws=rate_laws,
        joint=joint,
        rates=rates,
        noise=noise,
        courses=courses,
        notes=tuple(dict.fromkeys(notes)),
    )


def _warning_note(row: Mapping[str, object]) -> str:
    where = ", ".join(f"{k} {v:g}" for k, v in row.items() if isinstance(v, int | float))
    return f"{where}: {row['warning']}."


def _rates(task: BatchTask, tuned: pd.DataFrame) -> pd.DataFrame:
    """The optima inside their grids for one target a size: the lowest that has nearly most."""
    inside = ~tuned["at_edge"] & (tuned["status"] == "reached") & np.isfinite(tuned["lr_opt"])
    known = tuned[inside]
    parts = [known.iloc[:0]]
    for _, rows in known.groupby(list(task.study.sizes)):
        counts = rows.groupby("target")[BATCH].nunique()
        enough = counts[counts >= max(FEWEST_RATES, counts.max() - 1)]
        if len(enough):
            parts.append(rows[rows["target"] == enough.index.min()].sort_values(BATCH))
    return pd.concat(parts)


def _rate_laws(
    task: BatchTask, rates: pd.DataFrame, *, level: float
) -> tuple[dict[tuple[float, ...], RateLaw], BatchLaw | None]:
    """Rates against batch at each size; and over all sizes together."""
    sizes = list(task.study.sizes)
    laws = {
        tuple(map(float, key)): rate_law(
            *(rows[name].to_numpy(float) for name in (BATCH, "lr_opt", "lr_se")), level=level
        )
        for key, rows in rates.groupby(sizes)
    }
    if len(laws) < 2:
        return laws, None
    return laws, joint_rate_law(rates, sizes, BATCH, level=level)


def _noise(
    task: BatchTask, runs: Runs, tuned: pd.DataFrame, critical: CriticalBatches, *, level: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Mean noise up to each target, and its course, in the tuned runs of one batch."""
    if not task.study.recipe.noise_every:
        return pd.DataFrame(), pd.DataFrame()
    sizes, batch = list(task.study.sizes), task.noise_batch or task.reference
    frame = runs.to_frame()
    means, courses = [], []
    here = tuned[(tuned[BATCH] == batch) & (tuned["status"] == "reached")]
    for key, of_size in here.groupby(sizes):
        size = dict(zip(sizes, map(float, key), strict=True))
        is_here = np.logical_and.reduce([frame[c] == v for c, v in {**size, BATCH: batch}.items()])
        of_batch = frame[is_here & (frame["status"] == "complete")]
        for row in of_size.sort_values("target").to_dict("records"):
            off = np.abs(np.log(of_batch["lr"] / row["lr_opt"]))
            pooled = pool_gradients(runs, list(of_batch.index[np.isclose(off, off.min())]))
            if row["target"] == of_size["target"].min():  # the best runs for the hardest target
                course = noise_over_training(pooled, level=level)
                courses.append(course.assign(**size, batch_size=batch))
            found = noise_until(pooled, step=row["steps"], batch_size=float(batch), level=level)
            for group in critical.groups:
                if found is not None and group.by == {**size, "target": row["target"]}:
                    means.append({**size, "target": row["target"], **_pair(found, group)})
    return pd.DataFrame(means), pd.concat(courses) if courses else pd.DataFrame()


def _pair(noise: NoiseScale, group: BatchGroup) -> dict[str, float]:
    """A noise scale beside a critical batch; what is not known is NaN."""
    return {
        "noise_scale": _nan(noise.noise_scale),
        "lower": _nan(noise.ci.lower),
        "upper": _nan(noise.ci.upper),
        "b_crit": _nan(group.b_crit.value),
        "b_lower": _nan(group.b_crit.ci.lower),
        "b_upper": _nan(group.b_crit.ci.upper),
    }


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
