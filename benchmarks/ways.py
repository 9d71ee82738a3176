"""The three ways of training that `benchmarks.loops` runs; the same runs in each."""

from __future__ import annotations

import sys
import time

import torch

from benchmarks.clock import Clock
from extrap.records import Cell, Recipe, Workload
from extrap.training import Layout, Pack, WorkerPool, train
from extrap.training.parts import CURVE_TOKENS, evaluation_steps
from extrap.training.schedules import multiplier
from extrap.training.stacks import DATA_STREAM, Stack
from extrap.workloads import LoadedWorkload

RATES = tuple(2.0 ** (-10 + i / 2) for i in range(12))
SEEDS = (0, 1, 2)
EVALUATION_BATCH = 1024


def bench_pack(
    workload: LoadedWorkload,
    *,
    width: int,
    first: int,
    last: int,
    steps: int,
    source: Workload | None,
) -> Pack:
    """Some of the runs: rates outermost, so that every half has all seeds."""
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in RATES for seed in SEEDS)
    # as many evaluations a step as in the default study
    recipe = Recipe(steps=steps, n_evals=max(1, steps // 20))
    return Pack(
        workload=workload, size=size, recipe=recipe, cells=cells[first:last], source=source
    )


def train_ordinary(pack: Pack) -> list[float]:
    """One run after the other, as anyone would write it."""
    return [_train_one(pack, i) for i in range(len(pack.cells))]


def _train_one(pack: Pack, i: int) -> float:
    workload, cell, recipe = pack.workload, pack.cells[i], pack.recipes()[i]
    torch.manual_seed(cell.seed)
    module = workload.build(pack.model_size())
    lr = dict(cell.tuned)["lr"]
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, fused=True)
    generator = torch.Generator().manual_seed(cell.seed + DATA_STREAM)
    evaluations = set(evaluation_steps(recipe))
    loss = _held_out(workload, module, None)
    for step in range(recipe.steps):
        rows = workload.draw(recipe.batch_size, generator)
        batch = workload.examples(workload.training, rows)
        optimizer.param_groups[0]["lr"] = lr * multiplier(recipe, step)
        optimizer.zero_grad()
        workload.loss(module, batch).backward()
        optimizer.step()
        if step + 1 in evaluations:
            last = step + 1 == recipe.steps
            loss = _held_out(workload, module, None if last else CURVE_TOKENS)
    return loss


@torch.no_grad()
def _held_out(workload: LoadedWorkload, module: torch.nn.Module, n: int | None) -> float:
    examples = [t[:n] for t in workload.validation]
    total = 0.0
    for batch in zip(*(t.split(EVALUATION_BATCH) for t in examples), strict=True):
        total += workload.loss(module, batch).item() * len(batch[0])
    return total / len(examples[0])


def train_vmap(pack: Pack) -> list[float]:
    """All runs stacked, by vmap and nothing of ours but the bookkeeping."""
    stack = Stack(pack, torch.device("cpu"), way="flat", run_axis=False)
    stack.evaluate_initial()
    done = 0
    losses: list[float] = []
    for goal in evaluation_steps(pack.recipes()[0]):
        stack.advance(done, goal)
        last = goal == pack.recipes()[0].steps
        losses = stack.evaluate(None if last else CURVE_TOKENS)
        done = goal
    return losses


def train_ours(pack: Pack, pool: WorkerPool) -> tuple[list[float], dict[str, float]]:
    """In as many processes as there are cores, if that is measured to be quicker.

    Returns:
        The losses, and the seconds of what this process did.
    """
    clock, began = Clock(), time.perf_counter()
    seconds: dict[str, float] = {}

    def note(layout: Layout) -> None:
        sys.stderr.write(f"{layout}\n")
        seconds["layout"] = time.perf_counter() - began

    with clock.running():
        results = train(pack, pool=pool, on_layout=note, prunes=False)
    seconds |= {"steps": clock.steps_s, "evaluations": clock.evaluations_s}
    seconds["rest"] = time.perf_counter() - began - sum(seconds.values())
    return [float("nan") if r.loss is None else r.loss for r in results], seconds
