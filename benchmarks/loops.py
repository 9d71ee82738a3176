"""One process of the training benchmark: 36 runs of the byte MLP, in one of two ways.

    python -m benchmarks.loops WAY --width W --runs FIRST LAST --steps N --threads T

| way | is |
|---|---|
| `ordinary` | a plain PyTorch loop, one run at a time: `nn.Module`, fused `torch.optim.Adam` |
| `ours` | `extrap.training.train`, which chooses how many runs share a stack |

Both train the same runs: same start, data order, rates, evaluations. Prints the seconds from
the loaded workload to the last result, the losses, and of `ours` where the time went, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

import torch

from benchmarks.clock import Clock
from extrap.records import Cell, Recipe, Workload
from extrap.training import Layout, Pack, train
from extrap.training.parts import CURVE_TOKENS, evaluation_steps
from extrap.training.schedules import multiplier
from extrap.training.stacks import DATA_STREAM
from extrap.workloads import LoadedWorkload, load_workload

SOURCE = Workload(name="bytes-mlp")
N_RUNS = 36
RATES = tuple(2.0 ** (-10 + i / 2) for i in range(12))
SEEDS = (0, 1, 2)
EVALUATION_BATCH = 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print seconds and losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=["ordinary", "ours"])
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--runs", type=int, nargs=2, default=(0, N_RUNS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(_train(given)) + "\n")


def _train(given: argparse.Namespace) -> dict[str, object]:
    torch.set_num_threads(given.threads)
    workload = load_workload(SOURCE)
    first, last = given.runs
    pack = bench_pack(workload, width=given.width, first=first, last=last, steps=given.steps)
    began, spent = time.perf_counter(), {}
    if given.way == "ordinary":
        losses = train_ordinary(pack)
    else:
        losses, spent = train_ours(pack)
    return {"seconds": time.perf_counter() - began, "losses": losses, "spent": spent}


def bench_pack(workload: LoadedWorkload, *, width: int, first: int, last: int, steps: int) -> Pack:
    """Some of the runs: rates outermost, so that every half has all seeds."""
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in RATES for seed in SEEDS)
    # as many evaluations a step as in the default study
    recipe = Recipe(steps=steps, n_evals=max(1, steps // 20))
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells[first:last])


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
        rows = workload.draw_batches(1, recipe.batch_size, generator)[0]
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


def train_ours(pack: Pack) -> tuple[list[float], dict[str, float]]:
    """As one program.

    Returns:
        The losses, and the seconds of what this process did.
    """
    clock, began = Clock(), time.perf_counter()
    seconds: dict[str, float] = {}

    def note(layout: Layout) -> None:
        sys.stderr.write(f"{layout}\n")
        seconds["layout"] = time.perf_counter() - began

    with clock.running():
        results = train(pack, on_layout=note)
    seconds |= {"steps": clock.steps_s, "evaluations": clock.evaluations_s}
    seconds["rest"] = time.perf_counter() - began - sum(seconds.values())
    return [float("nan") if r.loss is None else r.loss for r in results], seconds


if __name__ == "__main__":
    main()
