"""`train`: a pack in this process, in halves where memory runs out; what diverged is dropped."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from extrap.noise import mean_noise_scale, noise_course
from extrap.records import Cell, OnEval, Recipe, RunResult
from extrap.training.checkpoints import Checkpoint, Checkpoints
from extrap.training.layouts import Layout, choose_layout, threads, without_denormals
from extrap.training.memory import free_cached, is_out_of_memory
from extrap.training.packs import Pack, run_flops
from extrap.training.parts import Run, StackPart, begin_parts, evaluation_steps
from extrap.training.preemption import StopAsked
from extrap.workloads import take_rows

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
    torch_device = find_device(device)
    with without_denormals():
        layout = layout or choose_layout(pack, torch_device, n_threads=n_threads)
        logger.info("%d runs: %s", len(pack.cells), layout)
        if on_layout is not None:
            on_layout(layout)
        with threads(layout.n_threads):
            checkpoints = checkpoints or Checkpoints(None, "")
            runs = _train_or_halve(pack, torch_device, layout.at_once, on_eval, checkpoints)
    results = [_result(pack, run) for run in runs]
    wall_s = (time.perf_counter() - started) / len(results)
    return tuple(replace(result, wall_s=result.wall_s + wall_s) for result in results)


def find_device(device: str | None = None) -> torch.device:
    """The device of a name; CUDA where there is any by default."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def n_gpus() -> int:
    """GPUs that this process may use."""
    return torch.cuda.device_count()


def _train_or_halve(
    pack: Pack,
    device: torch.device,
    at_once: int,
    on_eval: OnEval | None,
    checkpoints: Checkpoints,
) -> list[Run]:
    """Train all runs; out of memory, in two halves one after the other."""
    n_runs, began = len(pack.cells), time.perf_counter()
    try:
        return _train_runs(pack, device, at_once, on_eval, checkpoints)
    except RuntimeError as error:
        if not is_out_of_memory(error) or n_runs == 1:
            raise
    logger.warning("out of memory with %d runs; training them in two halves", n_runs)
    free_cached(device)
    middle = (n_runs + 1) // 2
    runs: list[Run] = []
    for span in (slice(0, middle), slice(middle, n_runs)):
        half = replace(pack, cells=pack.cells[span])
        hear = on_eval and _of_part(on_eval, span, n_runs)
        runs += _train_or_halve(half, device, min(at_once, middle), hear, checkpoints)
        # finished, and not yet recorded should the other half be stopped
        checkpoints.save(_news(runs, [], (time.perf_counter() - began) / n_runs), device)
    return runs


def _train_runs(
    pack: Pack,
    device: torch.device,
    at_once: int,
    on_eval: OnEval | None,
    checkpoints: Checkpoints,
) -> list[Run]:
    """Train all runs, those that are furthest behind first."""
    checkpoints.restart_timer()
    recipe, began = pack.recipes()[0], time.perf_counter()
    runs, parts = begin_parts(pack, device, at_once=at_once, checkpoints=checkpoints)
    behind = min((part.step for part in parts), default=recipe.n_updates)

    def save() -> None:
        spent_s = (time.perf_counter() - began) / len(runs)
        unfinished = [part for part in parts if part.step < recipe.n_updates]
        checkpoints.save(_news(runs, unfinished, spent_s), device)

    def stop_if_asked() -> None:
        if checkpoints.is_stop_requested():
            save()
            raise StopAsked("asked to stop")

    for goal in evaluation_steps(recipe):
        if goal < behind or not parts:
            continue
        for part in parts:
            if part.step < goal:
                stop_if_asked()
                part.advance(recipe, goal)
        if goal < recipe.n_updates:
            stop_if_asked()
            if checkpoints.is_due():
                save()
        losses = tuple(run.loss_at(goal) for run in runs)
        decisions = None if on_eval is None else on_eval(goal, losses)
        if goal == recipe.n_updates:
            break
        for run, stays in zip(runs, decisions or [True] * len(runs), strict=True):
            if run.is_alive and run.step <= goal and not stays:
                run.prune()
        parts = [part for part in parts if any(run.is_alive for run in part.runs)]
        for part in parts:
            part.shrink()
    return runs


def _news(
    runs: Sequence[Run], parts: Sequence[StackPart], spent_s: float
) -> Iterator[tuple[Cell, Checkpoint]]:
    """Checkpoints of the runs that have gone on since their last ones."""
    stacked = {id(run): (part, row) for part in parts for row, run in enumerate(part.runs)}
    for run in runs:
        if run.is_new:
            tensors = {}
            if run.is_alive and id(run) in stacked:
                part, row = stacked[id(run)]
                tensors = part.stack.snapshot(row)
            yield run.cell, run.checkpoint(spent_s, tensors)
            run.is_new = False


def _of_part(on_eval: OnEval, span: slice, n_runs: int) -> OnEval:
    """Hear of some runs of a pack as if of all of them."""

    def hear(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
        everyone = [math.nan] * n_runs
        everyone[span] = losses
        decisions = on_eval(step, tuple(everyone))
        return None if decisions is None else decisions[span]

    return hear


def _result(pack: Pack, run: Run) -> RunResult:
    recipe, size = pack.recipes()[0], pack.model_size()
    n_tokens = recipe.n_examples * pack.workload.tokens_per_example
    return RunResult(
        cell=run.cell,
        status=run.status,
        loss=run.curve[-1][1] if run.is_alive else None,
        initial_loss=run.initial_loss,
        curve=tuple(run.curve),
        n_params=pack.workload.n_params(size),
        n_params_total=pack.workload.n_params_total(size),
        n_tokens=n_tokens,
        epochs=n_tokens / _training_tokens(pack),
        flops=run_flops(pack.workload, size, n_tokens),
        wall_s=run.spent_s,
        diverged_step=run.diverged_step,
        noise_scale=_mean_noise_scale(run.gradients, recipe) if run.is_alive else None,
        gradients=tuple(run.gradients),
        updates=recipe.n_updates,
    )


def _training_tokens(pack: Pack) -> int:
    """Different predicted tokens that a run of the pack has to train on."""
    rows = take_rows(pack.workload, pack.n_kept(), [pack.cells[0].seed])
    if rows is None:
        return pack.workload.n_training_tokens
    return len(rows[0]) * pack.workload.tokens_per_example


def _mean_noise_scale(
    gradients: Sequence[tuple[int, float, float]], recipe: Recipe
) -> float | None:
    """Over a whole training; None if nothing was measured, or nothing but noise."""
    if not gradients:
        return None
    steps, squares, traces = zip(*gradients, strict=True)
    windows = [window for _, window in noise_course(squares, traces, steps)]
    size = recipe.n_examples / recipe.n_updates
    return mean_noise_scale(windows, batch_size=size).noise_scale
