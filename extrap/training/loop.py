"""The training loop: step, evaluate, drop what diverged or was pruned, report."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch

from extrap.noise import mean_noise_scale, telling_windows
from extrap.records import Cell, OnEval, Recipe, RunResult
from extrap.training.packs import Pack
from extrap.training.sparse_counts import run_flops
from extrap.training.stacks import Stack
from extrap.workloads import take_rows

__all__ = ["Evaluations", "evaluate_along", "evaluation_steps", "train_alone"]

logger = logging.getLogger(__name__)

# Held-out tokens and, at least, examples behind a point of the curve; initial and final loss are
# measured on all.
CURVE_TOKENS, CURVE_EXAMPLES = 1024, 64
# A run is given up when it was above its initial loss for this part of all evaluations in a row.
HOPELESS = 0.2
# On a GPU a pack shrinks only when this part of it is gone: the step is recorded anew then.
WORTH_RECORDING = 0.25

Evaluations = Generator[
    tuple[int, tuple[float, ...]], Sequence[bool] | None, tuple[RunResult, ...]
]
"""Yields a step and one held-out loss a run, is sent which to keep, returns the results."""


@dataclass(slots=True)
class _Run:
    """One run while it trains."""

    cell: Cell
    initial_loss: float = math.nan
    initial_curve_loss: float = math.nan
    status: str = "complete"
    diverged_step: int | None = None
    n_above: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    gradients: list[tuple[int, float, float]] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        return self.status == "complete"

    def diverge(self, step: int) -> None:
        self.status, self.diverged_step = "diverged", step

    def record(self, step: int, loss: float, *, start: float, patience: int) -> None:
        """Add a point to the curve; a loss that is not finite, or for good too high, ends it.

        Args:
            step: Updates made.
            loss: Held-out loss.
            start: The loss before the first step, on the same examples.
            patience: Points above the start in a row that end it.
        """
        if not math.isfinite(loss):
            self.diverge(step)
            return
        self.curve.append((step, loss))
        self.n_above = self.n_above + 1 if loss > start else 0
        if self.n_above >= patience:
            self.diverge(step)


@dataclass(slots=True)
class _Part:
    """Runs that share a stack; those no longer trained may still be in it."""

    stack: Stack
    runs: list[_Run]

    def begin(self) -> None:
        """Measure where the runs start, on all held-out examples and on those of the curve."""
        whole = self.stack.evaluate_initial()
        few = self.stack.evaluate_initial(self._n_curve_examples())
        for run, of_whole, of_few in zip(self.runs, whole, few, strict=True):
            run.initial_loss, run.initial_curve_loss = of_whole, of_few

    def advance(self, recipe: Recipe, start: int, stop: int) -> None:
        """Train and evaluate all runs of the part."""
        is_last = stop == recipe.n_updates
        broke_at = self.stack.advance(start, stop)
        losses = self.stack.evaluate(None if is_last else self._n_curve_examples())
        n_evals = len(evaluation_steps(recipe))
        patience = 1 if is_last else max(3, math.ceil(HOPELESS * n_evals))
        moments = self.stack.gradient_moments()
        for run, step, loss, found in zip(self.runs, broke_at, losses, moments, strict=True):
            if not run.is_alive:
                continue
            if found is not None:
                run.gradients.append((stop, *found))
            if step is not None:
                run.diverge(step)
            else:
                start_loss = run.initial_loss if is_last else run.initial_curve_loss
                run.record(stop, loss, start=start_loss, patience=patience)

    def shrink(self) -> None:
        """Let go of the runs that are over."""
        rows = [i for i, run in enumerate(self.runs) if run.is_alive]
        gone = 1 - len(rows) / len(self.runs)
        if rows and gone and (gone >= WORTH_RECORDING or not self.stack.is_recorded):
            self.stack.keep(rows)
            self.runs = [self.runs[i] for i in rows]

    def _n_curve_examples(self) -> int:
        return max(CURVE_EXAMPLES, CURVE_TOKENS // self.stack.tokens_per_example)


def train_alone(
    pack: Pack, *, place: torch.device, at_once: int, on_eval: OnEval | None = None
) -> tuple[RunResult, ...]:
    """Train a pack in this process; out of memory, in two halves one after the other.

    Args:
        pack: The runs.
        place: Where to train.
        at_once: Runs in one stack.
        on_eval: As in `train`; while one half trains, the other's losses are NaN.
    """
    try:
        with closing(evaluate_along(pack, place=place, at_once=at_once)) as evaluations:
            return _drive(evaluations, on_eval)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error) or len(pack.cells) == 1:
            raise
    logger.warning("out of memory with %d runs; training them in two halves", len(pack.cells))
    if place.type == "cuda":
        torch.cuda.empty_cache()
    middle = (len(pack.cells) + 1) // 2
    results: tuple[RunResult, ...] = ()
    for first, last in ((0, middle), (middle, len(pack.cells))):
        results += train_alone(
            replace(pack, cells=pack.cells[first:last]),
            place=place,
            at_once=min(at_once, middle),
            on_eval=None if on_eval is None else _of_part(on_eval, first, last, len(pack.cells)),
        )
    return results


def evaluation_steps(recipe: Recipe) -> tuple[int, ...]:
    """Updates after which the curve has a point: evenly spaced, the last is the last one."""
    total = recipe.n_updates
    n = min(recipe.n_evals, total)
    return tuple(round(total * i / n) for i in range(1, n + 1))


def evaluate_along(pack: Pack, *, place: torch.device, at_once: int) -> Evaluations:
    """Train a pack, stopping at every evaluation for word on which runs to keep.

    Args:
        pack: The runs.
        place: Where to train.
        at_once: Runs in one stack; stacks advance in turn from one evaluation to the next.
    """
    started = time.perf_counter()
    runs = [_Run(cell) for cell in pack.cells]
    parts: list[_Part] = []
    for first in range(0, len(runs), at_once):
        own = runs[first : first + at_once]
        cells = pack.cells[first : first + at_once]
        placed = parts[0].stack.data if parts else None
        parts.append(_Part(Stack(replace(pack, cells=cells), place, data=placed), own))
        parts[-1].begin()
    recipe, done = pack.recipes()[0], 0
    for goal in evaluation_steps(recipe):
        for part in parts:
            part.advance(recipe, done, goal)
        done = goal
        losses = (run.curve[-1][1] if run.is_alive else math.nan for run in runs)
        kept = yield goal, tuple(losses)
        if done == recipe.n_updates:
            break
        for run, stays in zip(runs, kept or [True] * len(runs), strict=True):
            if run.is_alive and not stays:
                run.status = "pruned"
        parts = [part for part in parts if any(run.is_alive for run in part.runs)]
        for part in parts:
            part.shrink()
        if not parts:
            break
    wall_s = (time.perf_counter() - started) / len(runs)
    return tuple(_result(pack, run, wall_s) for run in runs)


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


def _is_out_of_memory(error: Exception) -> bool:
    """CUDA has a class for it; the CPU's allocator says so in words."""
    is_cuda = isinstance(error, torch.OutOfMemoryError)
    return is_cuda or "can't allocate memory" in str(error) or "not enough memory" in str(error)


def _result(pack: Pack, run: _Run, wall_s: float) -> RunResult:
    recipe, size = pack.recipes()[0], pack.model_size()
    n_params = pack.workload.n_params(size)
    n_tokens = recipe.n_examples * pack.workload.tokens_per_example
    return RunResult(
        cell=run.cell,
        status=run.status,
        loss=run.curve[-1][1] if run.is_alive else None,
        initial_loss=run.initial_loss,
        curve=tuple(run.curve),
        n_params=n_params,
        n_params_total=pack.workload.n_params_total(size),
        n_tokens=n_tokens,
        epochs=n_tokens / _training_tokens(pack),
        flops=run_flops(pack.workload, size, recipe),
        wall_s=wall_s,
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
    first, starts = telling_windows(squares, traces, steps)
    size = recipe.n_examples / recipe.n_updates
    found = mean_noise_scale(squares[first:], traces[first:], n_windows=starts, batch_size=size)
    return found.noise_scale
