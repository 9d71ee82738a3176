"""Training speed on a CPU: an ordinary loop and ours, whole processes by the clock.

    python -m benchmarks.training WAY --width W --runs FIRST LAST --steps N --threads T

36 runs of the byte MLP. `ordinary` is a plain PyTorch loop, one run at a time, the better of one
process with all threads and one per core; `ours` is `extrap.training.train`. Both train the same
runs: same start, data order, rates, evaluations. Times are end to end: from starting Python to the
last result. As a command it trains some of the runs and prints seconds and losses as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.rows import Row
from benchmarks.speed import timed
from extrap.records import Cell, Recipe, Workload
from extrap.records.schedules import multiplier
from extrap.study.workers import ALLOCATOR
from extrap.training import Pack, train
from extrap.training.cores import n_cores
from extrap.training.parts import CURVE_TOKENS, evaluation_steps
from extrap.training.stacks import DATA_STREAM
from extrap.workloads import LoadedWorkload, load_workload

ROOT = Path(__file__).parents[1]
TARGETS = {16: 2.5, 32: 2.5, 64: 1.7, 128: 1.7, 256: 1.0, 512: 1.0}
"""Width → how many times faster than the ordinary loop."""
N_RUNS, STEPS, FEWER_STEPS, N_TURNS = 36, 1000, {512: 500}, 2
PROBE_STEPS, PROBE_RUNS = 200, 2
"""Behind the choice between threads and processes."""
RATES, SEEDS = tuple(2.0 ** (-10 + i / 2) for i in range(12)), (0, 1, 2)
EVALUATION_BATCH = 1024
LARGEST = 3.0
"""Nats: losses above it are not compared, as rounding grows without bound."""


def rows() -> list[Row]:
    """Every width."""
    return [race(width, steps=FEWER_STEPS.get(width, STEPS)) for width in TARGETS]


def race(width: int, *, n_runs: int = N_RUNS, steps: int = STEPS) -> Row:
    """Train the same runs in both ways, by turns."""
    n = n_cores()
    shapes = {f"{p} process(es) × {t} thread(s)": (p, t) for p, t in ((1, n), (n, 1))}
    n_probe = min(n_runs, PROBE_RUNS * n)
    probes = {
        name: max(
            answer["seconds"] for answer in _run("ordinary", width, n_probe, PROBE_STEPS, *s)
        )
        for name, s in shapes.items()
    }
    shape = min(probes, key=lambda name: probes[name])
    return timed(
        f"training on {n} cores, byte MLP, {n_runs} runs",
        f"width {width}, {steps:,} steps, against one run at a time",
        lambda: _run("ours", width, n_runs, steps, n, 1),
        lambda: _run("ordinary", width, n_runs, steps, *shapes[shape]),
        peer=f"ordinary loop ({shape})",
        target=TARGETS.get(width, 1.0),
        difference=_difference,
        n_turns=N_TURNS,
    )


def _difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> float:
    both = np.array([[x for answer in way for x in answer["losses"]] for way in (ours, theirs)])
    close = both[:, (both < LARGEST).all(axis=0)]
    return float(np.abs(close[0] - close[1]).max()) if close.size else float("nan")


def _run(
    way: str, width: int, n_runs: int, steps: int, n_processes: int, n_threads: int
) -> list[dict[str, Any]]:
    """What processes that share the runs print."""
    options = {"width": width, "steps": steps, "threads": n_threads}
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    ends = [round(i * n_runs / n_processes) for i in range(n_processes + 1)]
    command = [sys.executable, "-m", "benchmarks.training", way, *flags, "--runs"]
    running = [
        subprocess.Popen(
            [*command, str(first), str(last)],
            cwd=ROOT,
            env={**ALLOCATOR, **os.environ},  # both alike, as workers have it
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first, last in itertools.pairwise(ends)
    ]
    ended = [process.communicate() for process in running]
    for process, (_, complaint) in zip(running, ended, strict=True):
        if process.returncode:
            raise RuntimeError(f"a benchmark process failed: {complaint.strip()}")
    return [json.loads(printed) for printed, _ in ended]


def bench_pack(workload: LoadedWorkload, *, width: int, runs: Sequence[int], steps: int) -> Pack:
    """Some of the runs: rates outermost, so that every half has all seeds."""
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in RATES for seed in SEEDS)
    # as many evaluations a step as in the default study
    recipe = Recipe(steps=steps, n_evals=max(1, steps // 20))
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells[slice(*runs)])


def _train_one(pack: Pack, i: int) -> float:
    """One run, as anyone would write it."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print seconds and losses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("way", choices=["ordinary", "ours"])
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--runs", type=int, nargs=2, default=(0, N_RUNS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    workload = load_workload(Workload(name="bytes-mlp"))
    pack = bench_pack(workload, width=given.width, runs=given.runs, steps=given.steps)
    began = time.perf_counter()
    if given.way == "ordinary":
        losses = [_train_one(pack, i) for i in range(len(pack.cells))]
    else:
        losses = [float("nan") if r.loss is None else r.loss for r in train(pack)]
    seconds = time.perf_counter() - began
    sys.stdout.write(json.dumps({"seconds": seconds, "losses": losses}) + "\n")


if __name__ == "__main__":
    main()
