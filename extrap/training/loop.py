"""The training loop: step, evaluate, drop what diverged or was pruned, report."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from extrap.records import Cell, OnEval, Recipe, RunResult
from extrap.training.costs import flops_6nd
from extrap.training.packs import Pack, Stack
from extrap.training.schedules import multiplier

__all__ = ["evaluation_steps", "train"]

# Held-out examples behind a point of the curve; initial and final loss are measured on all.
CURVE_EXAMPLES = 1024


@dataclass(slots=True)
class _Run:
    """One run while it trains."""

    cell: Cell
    initial_loss: float = math.nan
    status: str = "complete"
    diverged_step: int | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)

    def diverge(self, step: int) -> None:
        self.status, self.diverged_step = "diverged", step

    def record(self, step: int, loss: float) -> None:
        """Add a point to the curve; a loss that is not finite ends the run."""
        if math.isfinite(loss):
            self.curve.append((step, loss))
        else:
            self.diverge(step)


def train(
    pack: Pack, *, on_eval: OnEval | None = None, device: str | None = None
) -> tuple[RunResult, ...]:
    """Train all runs of a pack as one program.

    A run has diverged when a training or held-out loss is not finite, or when its final loss is
    above its initial one. It is then masked, and touches no other run.

    Args:
        pack: The runs.
        on_eval: Called at each of the recipe's `n_evals` evenly spaced evaluations with the step
            and one held-out loss a run, in the order of the pack's cells; NaN for runs no longer
            trained. It may return one boolean a run: those with False are pruned.
        device: `"cpu"`, `"cuda"`, …; CUDA where there is any by default.

    Returns:
        One result a cell, in the order of the pack's cells.
    """
    started = time.perf_counter()
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with _all_cores():
        runs = _train(pack, Stack(pack, place), on_eval)
    wall_s = (time.perf_counter() - started) / len(runs)
    return tuple(_result(pack, run, wall_s) for run in runs)


def evaluation_steps(recipe: Recipe) -> tuple[int, ...]:
    """Steps after which the curve has a point: evenly spaced, the last is the last step."""
    n = min(recipe.n_evals, recipe.steps)
    return tuple(round(recipe.steps * i / n) for i in range(1, n + 1))


def _train(pack: Pack, stack: Stack, on_eval: OnEval | None) -> list[_Run]:
    runs = [_Run(cell) for cell in pack.cells]
    for run, loss in zip(runs, stack.evaluate_initial(), strict=True):
        run.initial_loss = loss
    alive = list(range(len(runs)))
    done = 0
    for goal in evaluation_steps(pack.recipe):
        is_last = goal == pack.recipe.steps
        broke_at = _advance(stack, pack.recipe, done, goal)
        losses = stack.evaluate(None if is_last else CURVE_EXAMPLES)
        for position, step, loss in zip(alive, broke_at, losses, strict=True):
            run = runs[position]
            if step is not None:
                run.diverge(step)
            else:
                run.record(goal, loss)
                if is_last and loss > run.initial_loss:
                    run.diverge(goal)
        _prune(runs, alive, on_eval, goal, losses, is_last=is_last)
        rows = [i for i, position in enumerate(alive) if runs[position].status == "complete"]
        if not rows:
            break
        if len(rows) < len(alive):
            stack.keep(rows)
            alive = [alive[i] for i in rows]
        done = goal
    return runs


def _advance(stack: Stack, recipe: Recipe, start: int, stop: int) -> list[int | None]:
    """Train from one step to another; the step at which each run lost its finite loss, or None."""
    # Kept as a tensor until the end: reading it every step would make a GPU wait.
    first_M = torch.full((len(stack),), -1)
    for step in range(start, stop):
        losses_M = stack.step(multiplier(recipe, step))
        if step == start:
            first_M = first_M.to(losses_M.device)
        broke = ~torch.isfinite(losses_M) & (first_M < 0)
        first_M = torch.where(broke, step + 1, first_M)
    return [None if step < 0 else step for step in first_M.tolist()]


def _prune(
    runs: list[_Run],
    alive: list[int],
    on_eval: OnEval | None,
    step: int,
    losses: list[float],
    *,
    is_last: bool,
) -> None:
    """Tell the caller where the runs are, and let go of those it does not want to keep."""
    if on_eval is None:
        return
    everyone = [math.nan] * len(runs)
    for position, loss in zip(alive, losses, strict=True):
        if runs[position].status == "complete":
            everyone[position] = loss
    kept = on_eval(step, tuple(everyone))
    if kept is None or is_last:
        return
    for position in alive:
        if runs[position].status == "complete" and not kept[position]:
            runs[position].status = "pruned"


def _result(pack: Pack, run: _Run, wall_s: float) -> RunResult:
    n_params = pack.workload.n_params(pack.size)
    n_tokens = pack.recipe.steps * pack.recipe.batch_size * pack.workload.tokens_per_example
    return RunResult(
        cell=run.cell,
        status=run.status,
        loss=run.curve[-1][1] if run.status == "complete" else None,
        initial_loss=run.initial_loss,
        curve=tuple(run.curve),
        n_params=n_params,
        n_params_total=pack.workload.n_params_total(pack.size),
        n_tokens=n_tokens,
        flops=flops_6nd(n_params, n_tokens),
        wall_s=wall_s,
        diverged_step=run.diverged_step,
    )


@contextmanager
def _all_cores() -> Iterator[None]:
    """Use every core this process may run on, and leave torch's setting as it was."""
    before = torch.get_num_threads()
    affinity = getattr(os, "sched_getaffinity", None)
    torch.set_num_threads(len(affinity(0)) if affinity else os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
