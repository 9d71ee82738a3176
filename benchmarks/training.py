"""Training speed on a CPU: an ordinary loop and ours, whole processes by the clock.

Times are end to end: from starting Python to the last result, with imports, reading the data,
starting further processes and choosing a layout.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from extrap.study.workers import ALLOCATOR
from extrap.training.cores import n_cores

ROOT = Path(__file__).parents[1]
TARGETS = {16: 2.5, 32: 2.5, 64: 1.7, 128: 1.7, 256: 1.0, 512: 1.0}
"""Width → how many times faster than the ordinary loop."""
N_RUNS, STEPS, REPEATS = 36, 1000, 2
FEWER_STEPS = {512: 500}
"""Widths at which nothing new is learned from more steps."""
# steps behind the choice between threads and processes
PROBE_STEPS, PROBE_RUNS = 200, 2
CORE_HOUR = 0.05
"""Dollars, a common price of a rented core."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """One width.

    Attributes:
        width: Of the byte MLP.
        ours_s, ordinary_s: Seconds for all runs.
        shape: Of the ordinary loop: processes × threads.
        layout: Of ours, in its own words.
        spent_s: What of ours took how many seconds in its first process.
        run_steps: Runs times steps.
        difference: Largest difference of a final loss between ours and the ordinary loop, over
            runs that end below 3 nats; above, rounding grows without bound.
    """

    width: int
    ours_s: float
    ordinary_s: float
    shape: str
    layout: str
    spent_s: dict[str, float]
    run_steps: int
    difference: float


def race_all() -> list[Race]:
    """Every width."""
    return [race(width, steps=FEWER_STEPS.get(width, STEPS)) for width in TARGETS]


def race(width: int, *, n_runs: int = N_RUNS, steps: int = STEPS) -> Race:
    """Train the same runs in both ways; ours and the ordinary loop by turns."""
    n = n_cores()
    shapes = {f"1 × {n}": (1, n), f"{n} × 1": (n, 1)}
    probes = {
        name: _ordinary(width, min(n_runs, PROBE_RUNS * n), PROBE_STEPS, *shape).work_s
        for name, shape in shapes.items()
    }
    shape = min(probes, key=lambda name: probes[name])
    ordinary, ours = [], []
    for _ in range(REPEATS):  # by turns: a shared machine is not equally fast all the time
        ordinary.append(_ordinary(width, n_runs, steps, *shapes[shape]))
        ours.append(_run(_commands("ours", width, n_runs, steps, n, 1)))
    best = min(ours, key=lambda ended: ended.wall_s)
    pairs = np.array([ours[0].losses, ordinary[0].losses])
    close = pairs[:, (pairs < 3).all(axis=0)]
    return Race(
        width=width,
        ours_s=best.wall_s,
        ordinary_s=min(ended.wall_s for ended in ordinary),
        shape=shape,
        layout=best.said,
        spent_s=best.spent_s,
        run_steps=n_runs * steps,
        difference=float(np.abs(close[0] - close[1]).max()) if close.size else float("nan"),
    )


def rows(races: Sequence[Race]) -> list[Row]:
    """The figures."""
    part = f"training on {n_cores()} cores, byte MLP, {N_RUNS} runs × {STEPS:,} steps"
    fewer = ", ".join(f"Width {w}: {n} steps." for w, n in FEWER_STEPS.items())
    note = (
        f"Whole processes by the clock, the better of {REPEATS}. The ordinary loop is the better "
        f"of one process with all threads and one a core. {fewer}"
    )
    found = []
    for r in races:
        ratio = r.ordinary_s / r.ours_s
        spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in r.spent_s.items())
        target = TARGETS[r.width]
        found.append(
            Row(
                part=part,
                figure=f"width {r.width}, against one run at a time",
                beat=f"ordinary loop ({r.shape}) {r.ordinary_s:.1f} s",
                target=f"≥ {target:g}×",
                reached=f"{ratio:.2f}×: {r.ours_s:.1f} s ({r.layout}; {spent}); "
                f"final losses within {r.difference:.1g}",
                met=ratio >= target,
                note=note,
            )
        )
    hours = sum(r.ours_s for r in races) * n_cores() / 3600
    peer_hours = sum(r.ordinary_s for r in races) * n_cores() / 3600
    found.append(
        Row(
            part=part,
            figure=f"all widths, at ${CORE_HOUR:g} a core-hour",
            beat=f"{peer_hours:.3f} core-hours, ${peer_hours * CORE_HOUR:.4f}",
            reached=f"{hours:.3f} core-hours, ${hours * CORE_HOUR:.4f}",
        )
    )
    return found


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """Processes that ran side by side."""

    wall_s: float
    work_s: float
    losses: list[float]
    said: str
    spent_s: dict[str, float]


def _ordinary(width: int, n_runs: int, steps: int, n_processes: int, n_threads: int) -> _Ended:
    return _run(_commands("ordinary", width, n_runs, steps, n_processes, n_threads))


def _commands(
    way: str, width: int, n_runs: int, steps: int, n_processes: int, n_threads: int
) -> list[list[str]]:
    """The commands of processes that share the runs."""
    options = {"width": width, "steps": steps, "threads": n_threads}
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    ends = [round(i * n_runs / n_processes) for i in range(n_processes + 1)]
    loop = [sys.executable, "-m", "benchmarks.loops", way, *flags, "--runs"]
    return [[*loop, str(first), str(last)] for first, last in itertools.pairwise(ends)]


def _run(commands: Sequence[list[str]]) -> _Ended:
    began = time.perf_counter()
    running = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**ALLOCATOR, **os.environ},  # both alike, as workers have it
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    ended = [process.communicate() for process in running]
    wall_s = time.perf_counter() - began
    for process, (_, complaint) in zip(running, ended, strict=True):
        if process.returncode:
            raise RuntimeError(f"a benchmark process failed: {complaint.strip()}")
    answers = [json.loads(said) for said, _ in ended]
    return _Ended(
        wall_s=wall_s,
        work_s=max(answer["seconds"] for answer in answers),
        losses=[loss for answer in answers for loss in answer["losses"]],
        said=ended[0][1].strip(),
        spent_s={"start-up": wall_s - answers[0]["seconds"], **answers[0].get("spent", {})},
    )
