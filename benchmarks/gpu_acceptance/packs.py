"""Packs of runs to measure with, and how far two results are apart; runs that diverge or end."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import Setting
from extrap.records import Cell, Recipe, RunResult, Workload
from extrap.training import Pack, train
from extrap.training.graphs import RecordedStep
from extrap.workloads import LoadedWorkload, load_workload

BYTES = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}
WORKLOADS: dict[str, dict[str, Any]] = {
    "bytes-mlp": {**BYTES, "context": 8},
    "bytes-transformer": {**BYTES, "context": 16, "head_size": 4},
    "digits": {"norm": "batch", "ghost": 8},
    "images": {"resolution": 4},
    "perceptron": {"dimension": 64, "n_examples": 500},
    "teacher": {"n_features": 64, "n_examples": 500},
}
"""Name → options with which it is small."""
RATES = (2**-9, 2**-8, 2**-7)
SAME = 1e-3
"""Relative difference of the losses of a run in two packs that the documentation states."""


@cache
def small_workload(name: str) -> LoadedWorkload:
    """A built-in workload with little data; images are random."""
    options = WORKLOADS[name]
    if name != "images":
        return load_workload(Workload(name=name, options=options))
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        x_train = rng.integers(0, 256, (600, 8, 8, 3), dtype=np.uint8)
        np.savez(path, x_train=x_train, y_train=np.arange(600) % 5)
        return load_workload(Workload(name=name, options={**options, "path": str(path)}))


def pack_of(
    workload: LoadedWorkload,
    width: int,
    n_runs: int,
    *,
    rates: Sequence[float] = RATES,
    **recipe: Any,
) -> Pack:
    """Runs of one width, over some rates and as many seeds as it takes."""
    size = {"width": width}
    cells = tuple(
        Cell.of(size, {"lr": rates[i % len(rates)]}, seed=i // len(rates)) for i in range(n_runs)
    )
    settings = {"batch_size": 16, "steps": 40, "n_evals": 4, **recipe}
    return Pack(workload=workload, size=size, recipe=Recipe(**settings), cells=cells)


def losses(results: Sequence[RunResult]) -> list[float]:
    """Final losses; NaN for runs that have none."""
    return [math.nan if r.loss is None else r.loss for r in results]


def difference(found: Sequence[float], expected: Sequence[float]) -> float:
    """Largest relative difference; infinite if one is finite where the other is not."""
    ours, theirs = np.asarray(found, float), np.asarray(expected, float)
    is_finite = np.isfinite(theirs)
    if (np.isfinite(ours) != is_finite).any():
        return math.inf
    apart = np.abs(ours - theirs)[is_finite] / np.maximum(np.abs(theirs[is_finite]), 1e-12)
    return float(apart.max(initial=0.0))


def measure_divergence(setting: Setting) -> Iterator[Result]:
    """Runs that diverge or are pruned leave the others as they are."""
    workload = small_workload("bytes-mlp")
    pack = pack_of(workload, 16, 12, rates=(*RATES, 1e30), n_evals=8)
    alone = pack_of(workload, 16, 9, n_evals=8)
    expected = losses(train(alone, device=setting.place.type))
    results, n_recorded = _train_counting(setting, pack, pruned_at=None)
    stable = [r.loss for r in results if dict(r.cell.tuned)["lr"] < 1]
    statuses = [r.status for r in results if dict(r.cell.tuned)["lr"] > 1]
    yield _untouched("3 of 12 runs diverge", stable, expected, statuses, "diverged", n_recorded)
    results, n_recorded = _train_counting(setting, alone, pruned_at=10)
    kept, gone = results[:5], results[5:]
    statuses = [r.status for r in gone]
    what = "4 of 9 runs are pruned after 10 of 40 steps"
    yield _untouched(what, [r.loss for r in kept], expected[:5], statuses, "pruned", n_recorded)
    if setting.is_gpu:
        yield Result(
            part="divergence",
            what=f"{what}: recordings of the step",
            measured=str(n_recorded),
            pass_at="2",
            passed=n_recorded == 2,
        )


def _untouched(
    what: str,
    found: Sequence[float | None],
    expected: Sequence[float],
    statuses: Sequence[str],
    status: str,
    n_recorded: int,
) -> Result:
    apart = difference([math.nan if loss is None else loss for loss in found], expected)
    n_right = statuses.count(status)
    return Result(
        part="divergence",
        what=what,
        measured=f"losses of the others within {apart:.1e}; {n_right} of {len(statuses)} are "
        f"{status}; the step was recorded {n_recorded} times",
        pass_at=f"≤ {SAME:g}, all {status}",
        passed=apart <= SAME and n_right == len(statuses),
    )


def _train_counting(
    setting: Setting, pack: Pack, *, pruned_at: int | None
) -> tuple[Sequence[RunResult], int]:
    """Train, perhaps with all runs but the first five pruned at a step; recordings made."""
    n_recorded, record = 0, RecordedStep._record

    def count(self: RecordedStep, step: object) -> None:
        nonlocal n_recorded
        n_recorded += 1
        record(self, step)  # type: ignore[arg-type]

    def prune(step: int, losses: tuple[float, ...]) -> list[bool] | None:
        return [i < 5 for i in range(len(losses))] if step == pruned_at else None

    with patch.object(RecordedStep, "_record", count):
        return train(pack, device=setting.place.type, on_eval=prune), n_recorded
