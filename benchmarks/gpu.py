"""Training speed on a GPU: packs against single runs, and against what the card can do.

| way | is |
|---|---|
| eager | an ordinary PyTorch loop, one run at a time |
| graph | one run at a time, its step recorded as a CUDA graph |
| ours | a pack in the layout that `extrap.training` chooses |

Without a GPU there is nothing to measure, and the rows say so. The functions take any device, so
that tests can run them tiny on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.rows import Row
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack
from extrap.training.layouts import choose_layout
from extrap.training.memory import run_bytes
from extrap.training.stacks import Stack
from extrap.workloads import LoadedWorkload, load_workload

__all__ = ["measure", "measure_if_any", "rows"]

PART = "training on one GPU"
SMALL, N_SMALL = (16, 32, 64), 256
LARGE, N_LARGE = (1024, 2048, 4096), 36
N_TRANSFORMER = 32
GPU_HOUR = 3.0
"""Dollars, a common price of a rented H100 or H200."""
# Bytes that a step must move for each parameter of each run: read it forward and backward, write
# its gradient, read four numbers and write three in Adam.
BYTES_PER_PARAMETER = 4 * (2 + 1 + 4 + 3)
FLOPS_PER_PARAMETER = 6
SWEEP_STEPS = 30_000


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Seconds of one step of one run, by way, and the share of the card's own limit."""

    what: str
    n_runs: int
    at_once: int
    ours_s: float
    eager_s: float | None = None
    graph_s: float | None = None
    roofline: float | None = None


def pack_of(workload: LoadedWorkload, size: dict[str, float], n_runs: int, recipe: Recipe) -> Pack:
    """Runs over twelve rates and as many seeds as it takes."""
    cells = tuple(
        Cell.of(size, {"lr": 2.0 ** (-12 + (i % 12) / 2)}, i // 12) for i in range(n_runs)
    )
    return Pack(workload=workload, size=size, recipe=recipe, cells=cells)


def eager_step_s(pack: Pack, place: torch.device, n_steps: int = 200) -> float:
    """One run in an ordinary loop, data on the device, fused Adam."""
    workload, recipe = pack.workload, pack.recipes()[0]
    torch.manual_seed(0)
    module = workload.build(pack.model_size()).to(place)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
    training = tuple(t.to(place) for t in workload.training)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        rows = workload.draw(recipe.batch_size, generator).to(place, non_blocking=True)
        optimizer.zero_grad()
        workload.loss(module, workload.examples(training, rows)).backward()
        optimizer.step()

    return _seconds(lambda: [step() for _ in range(n_steps)], place) / n_steps


def stack_step_s(pack: Pack, place: torch.device, n_steps: int = 200) -> float:
    """One step of one run of a stack, recorded on a GPU."""
    stack = Stack(pack, place)
    stack.advance(0, 10)
    return _seconds(lambda: stack.advance(10, 10 + n_steps), place) / n_steps / len(pack.cells)


def card_limits(
    place: torch.device, *, side: int = 8192, n_bytes: int = 2**32
) -> dict[str, float]:
    """FLOP/s of matrix products in fp32 and TF32, and bytes/s of a copy, measured."""
    a, b = (torch.randn(side, side, device=place) for _ in range(2))
    x = torch.empty(n_bytes // 4, device=place)
    y = torch.empty_like(x)
    before = torch.get_float32_matmul_precision()
    limits = {}
    try:
        for name, precision in (("fp32", "highest"), ("tf32", "high")):
            torch.set_float32_matmul_precision(precision)
            seconds = min(_seconds(lambda: a @ b, place) for _ in range(5))
            limits[name] = 2 * side**3 / seconds
    finally:
        torch.set_float32_matmul_precision(before)
    limits["bandwidth"] = 2 * n_bytes / min(_seconds(lambda: y.copy_(x), place) for _ in range(5))
    return limits


def roofline_s(n_params: int, batch_size: int, limits: dict[str, float], precision: str) -> float:
    """The least seconds of one step of one run: the larger of FLOPs and bytes moved."""
    flops = FLOPS_PER_PARAMETER * n_params * batch_size / limits[precision]
    return max(flops, BYTES_PER_PARAMETER * n_params / limits["bandwidth"])


def measure(place: torch.device, *, quick: bool = False) -> dict[str, Any]:
    """All speeds; `quick` for a test on a CPU."""
    workload = load_workload(Workload(name="bytes-mlp"))
    recipe = Recipe(steps=SWEEP_STEPS, precision="tf32")
    n_steps = 3 if quick else 200
    limits = card_limits(place, side=64, n_bytes=2**16) if quick else card_limits(place)
    speeds = []
    for width in SMALL[:1] if quick else SMALL:
        pack = pack_of(workload, {"width": width}, 4 if quick else N_SMALL, recipe)
        speeds.append(_compare(f"width {width}", pack, place, n_steps))
    for width in () if quick else LARGE:
        pack = pack_of(workload, {"width": width}, N_LARGE, recipe)
        layout = choose_layout(pack, place, n_processes=1)
        stack = replace(pack, cells=pack.cells[: layout.at_once])
        seconds = stack_step_s(stack, place, 50)
        n_params = workload.n_params_total({"width": width})
        least = roofline_s(n_params, recipe.batch_size, limits, recipe.precision)
        speeds.append(
            Speed(
                what=f"width {width}",
                n_runs=N_LARGE,
                at_once=layout.at_once,
                ours_s=seconds,
                roofline=least / seconds,
            )
        )
    if not quick:
        speeds.append(_transformer(place))
    return {"limits": limits, "speeds": speeds, "card": _card(place)}


def rows(found: dict[str, Any] | None) -> list[Row]:
    """The figures, or that there was no GPU."""
    if found is None:
        wanted = (
            ("256 runs, widths ≤ 64, against eager one at a time", "≥ 100×"),
            ("256 runs, widths ≤ 64, against single CUDA graphs", "≥ 15×"),
            ("transformer of width 512, a pack against single runs", "never slower"),
            ("width ≥ 1024, of the roofline", "≥ 50 %"),
            ("all 432 runs of studies/metz_full.py", "≤ 20 minutes"),
        )
        return [
            Row(part=PART, figure=what, target=target, reached="not measured: no GPU here")
            for what, target in wanted
        ]
    limits = ", ".join(f"{name} {value:.3g}/s" for name, value in found["limits"].items())
    found_rows = [Row(part=PART, figure=f"{found['card']}, measured", reached=limits)]
    for s in found["speeds"]:
        found_rows += _speed_rows(s)
    return found_rows


def _speed_rows(s: Speed) -> list[Row]:
    reached = f"{1e6 * s.ours_s:.2f} µs a step and run, stacks of {s.at_once}"
    found = []
    for name, peer, target in (("eager", s.eager_s, 100.0), ("graph", s.graph_s, 15.0)):
        if peer is not None:
            # a single transformer is no launch-bound run: there the pack must not be slower
            goal = target if s.roofline is None and s.what.startswith("width") else 1.0
            found.append(
                Row(
                    part=PART,
                    figure=f"{s.what}, {s.n_runs} runs, against {name} one at a time",
                    beat=f"{1e6 * peer:.1f} µs",
                    target=f"≥ {goal:g}×",
                    reached=f"{peer / s.ours_s:.1f}×: {reached}",
                    met=peer / s.ours_s >= goal,
                )
            )
    if s.roofline is not None:
        hours = s.ours_s * s.n_runs * SWEEP_STEPS / 3600
        found.append(
            Row(
                part=PART,
                figure=f"{s.what}, of the roofline",
                target="≥ 50 %",
                reached=f"{100 * s.roofline:.0f} %: {reached}; {s.n_runs} runs of "
                f"{SWEEP_STEPS:,} steps: {hours:.3f} GPU-hours, ${hours * GPU_HOUR:.2f}",
                met=s.roofline >= 0.5,
            )
        )
    return found


def _compare(what: str, pack: Pack, place: torch.device, n_steps: int) -> Speed:
    layout = choose_layout(pack, place, n_processes=1)
    single = replace(pack, cells=pack.cells[:1])
    return Speed(
        what=what,
        n_runs=len(pack.cells),
        at_once=layout.at_once,
        ours_s=stack_step_s(replace(pack, cells=pack.cells[: layout.at_once]), place, n_steps),
        eager_s=eager_step_s(single, place, n_steps),
        graph_s=stack_step_s(single, place, n_steps),
    )


def _transformer(place: torch.device) -> Speed:
    """The byte transformer of width 512, with the memory that was predicted for a run."""
    workload = load_workload(Workload(name="bytes-transformer"))
    recipe = Recipe(steps=SWEEP_STEPS, batch_size=32, precision="tf32")
    pack = pack_of(workload, {"width": 512}, N_TRANSFORMER, recipe)
    mib = run_bytes(pack, place).n / 2**20
    return _compare(f"transformer 512 ({mib:.0f} MiB a run)", pack, place, 50)


def _seconds(work: Callable[[], object], place: torch.device) -> float:
    """Seconds of some work, after one untimed time."""
    work()
    _wait(place)
    began = time.perf_counter()
    work()
    _wait(place)
    return time.perf_counter() - began


def _wait(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def _card(place: torch.device) -> str:
    return torch.cuda.get_device_name(place) if place.type == "cuda" else str(place)


def measure_if_any() -> dict[str, Any] | None:
    """All speeds, or None without a GPU."""
    return measure(torch.device("cuda")) if torch.cuda.is_available() else None
