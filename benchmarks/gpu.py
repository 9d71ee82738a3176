"""One GPU: is training right on it, does it get by with little memory, and how fast is it?

    python -m benchmarks.gpu [--device cuda] [--out FOLDER]

| part | is |
|---|---|
| losses | packs of every workload and optimizer on the GPU, against the same packs on a CPU |
| memory | a pack that does not fit into an eighth of the memory, against its runs alone |
| speed | milliseconds per step of 36 runs at three widths, packed and one by one |

Writes gpu.html. Exit code 1 if a check failed, 3 without a GPU; `--device cpu` runs
small versions, which say nothing of a card.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.page import ROOT, Words, print_rows, write
from benchmarks.rows import Row
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

WORDS = Words(
    title="One GPU",
    question="Is training right on this card, and how fast?",
    lead="Losses against those of a CPU, a lack of memory, and times per step.",
    command="python -m benchmarks.gpu",
    seeds="every run is seeded; times are not",
    libraries=("torch", "numpy"),
)
CASES = (
    ("bytes-mlp", "adam"),
    ("bytes-mlp", "sgd"),
    ("bytes-transformer", "adamw"),
    ("bytes-transformer", "muon"),
    ("studies/digits_workload.py:Digits", "adam"),
    ("studies/teacher_workload.py:Teacher", "sgd"),
)
SAME = 0.01
"""Largest relative difference of a final loss: a GPU adds in another order than a CPU."""
WIDTHS, N_RUNS, STEPS, WARM_UP = (64, 256, 1024), 36, 200, 20
SHARE = 0.125
"""Of the card's memory, for the pack that does not fit."""
WIDE, N_WIDE = 2048, 32
NO_GPU = 3


def pack_of(
    name: str, width: int, n_runs: int, *, optimizer: str = "adam", steps: int = STEPS
) -> Pack:
    """Runs of one size at six rates, and as many seeds as it takes."""
    size = {"width": width}
    rates = [2.0 ** (-11 + i) for i in range(6)]
    cells = tuple(Cell.of(size, {"lr": rates[i % 6]}, i // 6) for i in range(n_runs))
    recipe = Recipe(optimizer=optimizer, steps=steps, n_evals=2)
    source = Workload(name=name)
    return Pack(workload=load_workload(source), size=size, recipe=recipe, cells=cells)


def losses(device: str, *, steps: int = STEPS) -> Iterator[Row]:
    """Final losses on the device and on a CPU."""
    for name, optimizer in CASES:
        pack = pack_of(name, 32, 6, optimizer=optimizer, steps=steps)
        difference = _difference(_final(pack, device), _final(pack, "cpu"))
        yield Row(
            part="losses",
            figure=f"{name}, {optimizer}, 6 runs: largest difference from a CPU",
            target=f"≤ {SAME:.0%}",
            reached=f"{difference:.2g}",
            met=difference <= SAME,
        )


def _final(pack: Pack, device: str) -> list[float | None]:
    """Losses of the runs; None for those that diverged."""
    return [result.loss for result in train(pack, device=device)]


def _difference(one: list[float | None], other: list[float | None]) -> float:
    """Largest relative difference; infinite where only one of them diverged."""
    pairs = list(zip(one, other, strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return float("inf")
    return max((abs(a / b - 1) for a, b in pairs if a is not None and b is not None), default=0.0)


def memory(device: str) -> Iterator[Row]:
    """A pack in an eighth of the memory: it is halved until it fits."""
    pack = pack_of("bytes-mlp", WIDE, N_WIDE, steps=20)
    alone = _final(replace(pack, cells=pack.cells[:2]), device)
    torch.cuda.set_per_process_memory_fraction(SHARE)
    try:
        together = _final(pack, device)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    difference = _difference(together[:2], alone)
    yield Row(
        part="memory",
        figure=f"{N_WIDE} runs of width {WIDE} in {SHARE:.1%} of the memory: against two alone",
        target=f"all end; ≤ {SAME:.0%}",
        reached=f"{sum(loss is not None for loss in together)} ended; {difference:.2g}",
        met=len(together) == N_WIDE and difference <= SAME,
    )


def speed(device: str, *, steps: int = STEPS, widths: tuple[int, ...] = WIDTHS) -> Iterator[Row]:
    """A step of all runs, packed and one by one."""
    for width in widths:
        pack = pack_of("bytes-mlp", width, N_RUNS)
        packed_s = _step_s(pack, device, steps)
        single_s = _step_s(replace(pack, cells=pack.cells[:1]), device, steps)
        yield Row(
            part="speed",
            figure=f"width {width}: a step of {N_RUNS} runs, packed",
            beat=f"one by one {1e3 * N_RUNS * single_s:.2f} ms",
            reached=f"{1e3 * packed_s:.2f} ms, {N_RUNS * single_s / packed_s:.1f} times as fast",
        )


def _step_s(pack: Pack, device: str, steps: int) -> float:
    """Seconds of a step; `advance` ends by reading losses, so it waits for the device."""
    stack = Stack(pack, torch.device(device))
    stack.advance(0, WARM_UP)
    began = time.perf_counter()
    stack.advance(WARM_UP, WARM_UP + steps)
    return (time.perf_counter() - began) / steps


def main() -> int:
    """Run every part; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=ROOT / "reports")
    given = parser.parse_args()
    is_gpu = given.device.startswith("cuda")
    if is_gpu and not torch.cuda.is_available():
        sys.stderr.write("no GPU is here; --device cpu runs small versions\n")
        return NO_GPU
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "losses": lambda: losses(given.device, steps=STEPS if is_gpu else 20),
        "speed": lambda: (
            speed(given.device) if is_gpu else speed(given.device, steps=2, widths=(16,))
        ),
    }
    if is_gpu:
        parts["memory"] = lambda: memory(given.device)
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    for name, part in parts.items():
        began = time.perf_counter()
        for row in part():
            print_rows([row])
            rows.append(row)
        seconds[name] = time.perf_counter() - began
    if is_gpu:
        write(rows, seconds, words=WORDS, name="gpu", folder=given.out)
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
