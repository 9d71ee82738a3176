"""Parts of a pack: runs that share a stack, and what is known of each while it trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

import torch

from extrap.records import Cell, Recipe
from extrap.training.checkpoints import Checkpoint, Checkpoints
from extrap.training.packs import Pack
from extrap.training.stacks import Stack

CURVE_TOKENS, CURVE_EXAMPLES = 1024, 64
"""Held-out tokens and, at least, examples behind a point of the curve; initial and final loss are
measured on all."""
DIVERGED_EVALS_SHARE = 0.2
"""Part of all evaluations, in a row, that a run was above its initial loss when it is given up."""
WORTH_RECORDING = 0.25
"""Part of a pack that is gone when it shrinks on a GPU, where the step is recorded again then."""
CHECKPOINT_FIELDS = (
    "initial_loss",
    "initial_curve_loss",
    "status",
    "diverged_step",
    "n_above",
    "curve",
    "gradients",
)
"""Fields of a `Run` that its checkpoint contains, besides step and seconds."""


@dataclass(slots=True)
class Run:
    """One run while it trains; curve and gradients as in `RunResult`."""

    cell: Cell
    initial_loss: float = math.nan  # held-out, before the first step
    initial_curve_loss: float = math.nan  # on the examples of the curve
    status: str = "complete"  # as long as nothing else has happened
    diverged_step: int | None = None
    n_above: int = 0  # last points of the curve that are above the initial loss
    curve: list[tuple[int, float]] = field(default_factory=list)
    gradients: list[tuple[int, float, float]] = field(default_factory=list)
    step: int = 0  # updates made at the last evaluation
    spent_s: float = 0.0  # before this process
    is_new: bool = False  # whether there is more to know of it than its checkpoint tells

    @property
    def is_alive(self) -> bool:
        """Whether it is still trained, or was to the end."""
        return self.status == "complete"

    def checkpoint(self, spent_s: float, tensors: Mapping[str, torch.Tensor]) -> Checkpoint:
        """What it needs to go on, after so many more seconds."""
        return Checkpoint(
            step=self.step,
            spent_s=self.spent_s + spent_s,
            record={name: copy(getattr(self, name)) for name in CHECKPOINT_FIELDS},
            tensors=tensors,
        )

    def loss_at(self, step: int) -> float:
        """The curve's loss at a step; NaN if there is none, or the run is no longer trained."""
        return dict(self.curve).get(step, math.nan) if self.is_alive else math.nan

    def prune(self) -> None:
        """Give it up because a pruner said so."""
        self.status, self.is_new = "pruned", True

    def diverge(self, step: int) -> None:
        """Give it up at a step."""
        self.status, self.diverged_step = "diverged", step

    def add(self, step: int, loss: float, *, start: float, patience: int) -> None:
        """Add a point to the curve; a loss that is not finite, or for good too high, ends it."""
        if not math.isfinite(loss):
            self.diverge(step)
            return
        self.curve.append((step, loss))
        self.n_above = self.n_above + 1 if loss > start else 0
        if self.n_above >= patience:
            self.diverge(step)


@dataclass(slots=True)
class StackPart:
    """Runs that share a stack, all after as many updates; some may be over, and still in it."""

    stack: Stack
    runs: list[Run]
    step: int = 0

    def begin(self) -> None:
        """Measure where the runs start, on all held-out examples and on those of the curve."""
        whole = self.stack.evaluate_initial()
        few = self.stack.evaluate_initial(self._n_curve_examples())
        for run, of_whole, of_few in zip(self.runs, whole, few, strict=True):
            run.initial_loss, run.initial_curve_loss = of_whole, of_few

    def advance(self, recipe: Recipe, stop: int) -> None:
        """Train and evaluate all runs of the part."""
        is_last = stop == recipe.n_updates
        broke_at = self.stack.advance(self.step, stop)
        self.step = stop
        losses = self.stack.evaluate(None if is_last else self._n_curve_examples())
        n_evals = len(evaluation_steps(recipe))
        patience = 1 if is_last else max(3, math.ceil(DIVERGED_EVALS_SHARE * n_evals))
        moments = self.stack.gradient_moments()
        for run, step, loss, run_moments in zip(self.runs, broke_at, losses, moments, strict=True):
            if not run.is_alive:
                continue
            run.step, run.is_new = stop, True
            if run_moments is not None:
                run.gradients.append((stop, *run_moments))
            if step is not None:
                run.diverge(step)
            else:
                start_loss = run.initial_loss if is_last else run.initial_curve_loss
                run.add(stop, loss, start=start_loss, patience=patience)

    def shrink(self) -> None:
        """Let go of the runs that are over."""
        rows = [i for i, run in enumerate(self.runs) if run.is_alive]
        gone = 1 - len(rows) / len(self.runs)
        if rows and gone and (gone >= WORTH_RECORDING or not self.stack.is_recorded):
            self.stack.keep(rows)
            self.runs = [self.runs[i] for i in rows]

    def _n_curve_examples(self) -> int:
        return max(CURVE_EXAMPLES, CURVE_TOKENS // self.stack.tokens_per_example)


def evaluation_steps(recipe: Recipe) -> tuple[int, ...]:
    """Updates after which the curve has a point: evenly spaced, the last is the last one."""
    total = recipe.n_updates
    n = min(recipe.n_evals, total)
    return tuple(round(total * i / n) for i in range(1, n + 1))


def begin_parts(
    pack: Pack, device: torch.device, *, at_once: int, checkpoints: Checkpoints
) -> tuple[list[Run], list[StackPart]]:
    """All runs of a pack, in its order, and parts of those that are to be trained.

    Runs that have made as many updates share stacks.
    """
    recipe = pack.recipes()[0]
    loaded = [checkpoints.load(cell, device) for cell in pack.cells]
    runs = [
        Run(cell, step=checkpoint.step, spent_s=checkpoint.spent_s, **checkpoint.record)
        if checkpoint
        else Run(cell)
        for cell, checkpoint in zip(pack.cells, loaded, strict=True)
    ]
    parts: list[StackPart] = []
    for chosen in _groups(runs, recipe, at_once):
        some = replace(pack, cells=tuple(pack.cells[i] for i in chosen))
        stack = Stack(some, device, data=parts[0].stack.data if parts else None)
        parts.append(StackPart(stack, [runs[i] for i in chosen], runs[chosen[0]].step))
        if parts[-1].step == 0:
            parts[-1].begin()
            continue
        try:
            left = [checkpoint.tensors for i in chosen if (checkpoint := loaded[i])]
            stack.restore(left, parts[-1].step)
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            for cell in some.cells:
                checkpoints.refuse(cell, str(error))
            return begin_parts(pack, device, at_once=at_once, checkpoints=checkpoints)
    return runs, parts


def _groups(runs: list[Run], recipe: Recipe, at_once: int) -> list[list[int]]:
    """Places of the runs that are not over, in stacks of those that have made as many updates.

    Runs of one seed are consecutive, so that they can share their inputs.
    """
    by_step: dict[int, list[int]] = {}
    for i, run in sorted(enumerate(runs), key=lambda item: item[1].cell.seed):
        if run.is_alive and run.step < recipe.n_updates:
            by_step.setdefault(run.step, []).append(i)
    return [
        indices[first : first + at_once]
        for _, indices in sorted(by_step.items())
        for first in range(0, len(indices), at_once)
    ]
