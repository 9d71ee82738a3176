"""`train`: a pack in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from extrap.records import OnEval, RunResult
from extrap.training.checkpoints import Checkpoints
from extrap.training.denormals import without_denormals
from extrap.training.layouts import Layout, choose_layout, threads
from extrap.training.loop import train_alone
from extrap.training.packs import Pack

logger = logging.getLogger(__name__)


def train(
    pack: Pack,
    *,
    on_eval: OnEval | None = None,
    device: str | None = None,
    n_threads: int = 1,
    layout: Layout | None = None,
    on_layout: Callable[[Layout], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[RunResult, ...]:
    """Train all runs of a pack as one program.

    A run has diverged when a training or held-out loss is not finite, when its held-out loss was
    above its initial one for a fifth of all evaluations in a row, or is so at the end. It is then
    dropped, and touches no other run.

    Args:
        pack: The runs.
        on_eval: Called at each of the recipe's `n_evals` evenly spaced evaluations with the step
            and one held-out loss a run, in the order of the pack's cells; NaN for runs no longer
            trained. It may return one boolean a run: those with False are pruned.
        device: `"cpu"`, `"cuda"`, …; CUDA where there is any by default.
        n_threads: The most threads to use on a CPU.
        layout: How to run it; measured by default.
        on_layout: Called with the layout before the first step.
        checkpoints: Where runs leave what they need to go on, and go on from. Those further on
            wait for the others: the first evaluation is that of the run furthest behind.

    Returns:
        One result a cell, in the order of the pack's cells.

    Raises:
        StopAsked: Training was asked to end; the runs have left their checkpoints.
    """
    started = time.perf_counter()
    place = find_device(device)
    with without_denormals():
        if layout is None:
            layout = choose_layout(pack, place, n_threads=n_threads)
        logger.info("%d runs: %s", len(pack.cells), layout)
        if on_layout is not None:
            on_layout(layout)
        with threads(layout.n_threads):
            results = train_alone(
                pack,
                place=place,
                at_once=layout.at_once,
                on_eval=on_eval,
                checkpoints=checkpoints,
            )
    wall_s = (time.perf_counter() - started) / len(results)
    return tuple(replace(result, wall_s=result.wall_s + wall_s) for result in results)


def find_device(device: str | None = None) -> torch.device:
    """The device of a name; CUDA where there is any by default."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def n_gpus() -> int:
    """GPUs that this process may use."""
    return torch.cuda.device_count()
