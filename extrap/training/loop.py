"""The training loop: step, evaluate, drop what diverged or was pruned, report."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

import torch

from extrap.noise import mean_noise_scale, noise_course
from extrap.records import OnEval, Recipe, RunResult
from extrap.training.checkpoints import Checkpoints
from extrap.training.costs import run_flops
from extrap.training.memory import free_cached, is_out_of_memory
from extrap.training.packs import Pack
from extrap.training.parts import Run, begin_parts, evaluation_steps
from extrap.training.saving import Saving, keeps_finished
from extrap.workloads import take_rows

logger = logging.getLogger(__name__)

Evaluations = Generator[
    tuple[int, tuple[float, ...]], Sequence[bool] | None, tuple[RunResult, ...]
]
"""Yields a step and one held-out loss a run, is sent which to keep, returns the results."""


def train_alone(
    pack: Pack,
    *,
    place: torch.device,
    at_once: int,
    on_eval: OnEval | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[RunResult, ...]:
    """Train a pack in this process; out of memory, in two halves one after the other."""
    along = evaluate_along(pack, place=place, at_once=at_once, checkpoints=checkpoints)
    try:
        with closing(along) as evaluations:
            return _drive(evaluations, on_eval)
    except RuntimeError as error:
        if not is_out_of_memory(error) or len(pack.cells) == 1:
            raise
    logger.warning("out of memory with %d runs; training them in two halves", len(pack.cells))
    free_cached(place)
    middle, began = (len(pack.cells) + 1) // 2, time.perf_counter()
    results: tuple[RunResult, ...] = ()
    for first, last in ((0, middle), (middle, len(pack.cells))):
        with keeps_finished(results, place, checkpoints, began=began, n_runs=len(pack.cells)):
            results += train_alone(
                replace(pack, cells=pack.cells[first:last]),
                place=place,
                at_once=min(at_once, middle),
                on_eval=on_eval and _of_part(on_eval, first, last, len(pack.cells)),
                checkpoints=checkpoints,
            )
    return results


def evaluate_along(
    pack: Pack, *, place: torch.device, at_once: int, checkpoints: Checkpoints | None = None
) -> Evaluations:
    """Train a pack, stopping at every evaluation for word on which runs to keep.

    Runs that have checkpoints go on there; those further on than others wait for them, so that
    the first evaluation is that of the run that is furthest behind. A result's `wall_s` is what
    the run took before.

    Raises:
        StopAsked: Training was asked to end; the runs have left their checkpoints.
    """
    checkpoints = checkpoints or Checkpoints(None, "")
    recipe, saving = pack.recipes()[0], Saving(checkpoints, pack, place)
    runs, parts = begin_parts(pack, place, at_once=at_once, checkpoints=checkpoints)
    behind = min((part.step for part in parts), default=recipe.n_updates)
    for goal in evaluation_steps(recipe):
        if goal < behind or not parts:
            continue
        for part in parts:
            if part.step < goal:
                saving.stop_if_asked(parts, runs)
                part.advance(recipe, goal)
        if goal < recipe.n_updates:
            saving.stop_if_asked(parts, runs)
            saving.save_if_due(parts, runs)
        kept = yield goal, tuple(run.loss_at(goal) for run in runs)
        if goal == recipe.n_updates:
            break
        for run, stays in zip(runs, kept or [True] * len(runs), strict=True):
            if run.is_alive and run.step <= goal and not stays:
                run.prune()
        parts = [part for part in parts if any(run.is_alive for run in part.runs)]
        for part in parts:
            part.shrink()
    return tuple(_result(pack, run) for run in runs)


def _drive(evaluations: Evaluations, on_eval: OnEval | None) -> tuple[RunResult, ...]:
    kept: Sequence[bool] | None = None
    try:
        while True:
            step, losses = evaluations.send(kept)
            kept = None if on_eval is None else on_eval(step, losses)
    except StopIteration as end:
        return end.value


def _of_part(on_eval: OnEval, first: int, last: int, n_runs: int) -> OnEval:
    """Hear of some runs of a pack as if of all of them."""

    def hear(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
        everyone = [math.nan] * n_runs
        everyone[first:last] = losses
        kept = on_eval(step, tuple(everyone))
        return None if kept is None else kept[first:last]

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
