"""How to run a pack: threads, runs in one stack; measured, not assumed.

On a CPU a stack of some ten small runs shares the cost of calling operations and still fits into
the cache; large runs go one or two at a time. On a GPU a run gets no costlier in a larger stack,
so all runs that fit into its memory share one, and nothing is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from extrap.training.packs import Pack
from extrap.training.stacks import Stack

DENORMAL = 1e-40
"""A denormal number of 32 bits: 0 where the processor takes denormals for 0."""
STACKS = (1, 2, 4, 8, 16, 32, 64)
"""Runs in one stack that are tried."""
SMALL_WORK_S = 1.0
"""Seconds of work below which nothing is measured."""
MEASURE_S, MEASURE_STEPS = 0.05, 2
"""Seconds of training behind one time, and the fewest steps."""
GAIN = 0.97
"""Time of a run over that in a smaller stack, above which a larger one is no gain but noise."""
WORSE, LONG_STEP_S = 1.05, 2e-3
"""Stacks this much costlier end the search, which goes from large to small ones. Where a step of a
run takes so many seconds, so that calling operations costs little, it goes from small to large
ones, and ends without a gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a pack is trained.

    Attributes:
        n_threads: Threads.
        at_once: Runs in one stack.
        step_s: Measured seconds of one step of one run; 0 if nothing was measured.
    """

    n_threads: int
    at_once: int
    step_s: float = 0.0

    def __str__(self) -> str:
        """One clause for people."""
        threads = f"{self.n_threads} thread{'s' * (self.n_threads > 1)}"
        cost = f", {1e3 * self.step_s:.2g} ms per step and run" if self.step_s else ""
        return f"{threads}, stacks of {self.at_once}{cost}"


def choose_layout(pack: Pack, device: torch.device, *, n_threads: int = 1) -> Layout:
    """The quickest layout for a pack, from a few steps of some of its runs.

    Every candidate gives the same result to the last bit, so the choice may follow the clock.
    """
    n_runs, steps = len(pack.cells), pack.recipes()[0].n_updates
    if device.type != "cpu":
        return Layout(n_threads=1, at_once=n_runs)
    first = min(n_runs, 8)
    with threads(1):
        cost = {first: _run_step_s(pack, device, first)}
        if n_runs * steps * cost[first] < SMALL_WORK_S:
            return Layout(n_threads=1, at_once=min(n_runs, STACKS[-1]))
        _measure_stacks(cost, pack, device, n_runs)
    layouts = [Layout(n_threads=1, at_once=n, step_s=seconds) for n, seconds in cost.items()]
    if n_threads > 1:
        with threads(n_threads):
            for at_once in {1, min(n_runs, 4)}:
                seconds = _run_step_s(pack, device, at_once)
                layouts.append(Layout(n_threads=n_threads, at_once=at_once, step_s=seconds))
    return min(layouts, key=lambda layout: layout.step_s)


def _measure_stacks(cost: dict[int, float], pack: Pack, device: torch.device, n_runs: int) -> None:
    """Time stacks that so many runs fall into evenly, one after the other until it gets worse."""
    is_long = min(cost.values()) > LONG_STEP_S
    limit = GAIN if is_long else WORSE
    even = {math.ceil(n_runs / math.ceil(n_runs / at_once)) for at_once in STACKS}
    best = math.inf
    for at_once in sorted(even, reverse=not is_long):
        if at_once not in cost:
            cost[at_once] = _run_step_s(pack, device, at_once)
        if cost[at_once] > limit * best:
            return
        best = min(best, cost[at_once])


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use so many threads, and leave torch's setting as it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_step_s(pack: Pack, device: torch.device, at_once: int) -> float:
    """Seconds of one step of one run in a stack of so many, with the largest batch of the run."""
    stack = Stack(replace(pack, cells=pack.cells[:at_once]), device)
    start = pack.recipes()[0].largest_from
    warm = start + 1
    _timed_steps(stack, start, warm)
    once = _timed_steps(stack, warm, warm + 1)
    n = max(MEASURE_STEPS, min(50, math.ceil(MEASURE_S / max(once, 1e-6))))
    if once > MEASURE_S:
        return once / at_once
    return _timed_steps(stack, warm + 1, warm + 1 + n) / n / at_once


def _timed_steps(stack: Stack, start: int, stop: int) -> float:
    began = time.perf_counter()
    stack.advance(start, stop)
    return time.perf_counter() - began


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take denormal numbers for 0 in this thread, where the processor can; then as it was.

    A processor adds them many times slower. Moments of units that stopped learning decay into
    them: of the default study at width 128 they cost a tenth to nearly half of the time of a
    step, more the longer it trains and the higher the rate.
    """
    before = (torch.full((1,), DENORMAL) * 1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
