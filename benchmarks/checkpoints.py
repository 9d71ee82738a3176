"""Preemption: what a stop in mid-pack costs, and what checkpoints cost without one.

Runs of the byte MLP in one process with one thread. Training is counted in seconds of the
processor, which others on the machine do not change; saving, which waits for a disk, by the clock.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.rows import Row
from extrap.records import RunResult
from extrap.training import Layout, Pack, train
from extrap.training.checkpoints import Checkpoint, Checkpoints
from extrap.training.preemption import EVERY_S, StopAsked

WIDTH, N_RUNS, STEPS = 128, 18, 600
LAYOUT = Layout(n_threads=1, at_once=6)
SHARE = 0.02
"""Most of the time that checkpoints may take."""


class Timed(Checkpoints):
    """Checkpoints that count the seconds and bytes that they take."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.seconds, self.n_saves = 0.0, 0

    def save(self, found: Iterable[tuple[Any, Checkpoint]], place: Any) -> None:
        """Save, by the clock."""
        began = time.perf_counter()
        super().save(found, place)
        self.seconds += time.perf_counter() - began
        self.n_saves += 1


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """One pack: undisturbed, with checkpoints at every evaluation, and stopped half-way.

    Attributes:
        whole_s: Seconds of the processor without a checkpoint.
        saving_s: Of saving all runs at every evaluation, all together.
        n_saves: Times that they were saved.
        run_bytes: Of a run's checkpoint.
        before_s, after_s: The same until it was stopped half-way, and from there to the end.
        leaving_s: Seconds by the clock from the request until all is saved.
        redone: Updates of runs made twice, as part of all.
        n_equal: Runs of which losses, curves and gradients are those of the undisturbed ones.
        n_runs: Runs.
    """

    whole_s: float
    saving_s: float
    n_saves: int
    run_bytes: float
    before_s: float
    after_s: float
    leaving_s: float
    redone: float
    n_equal: int
    n_runs: int

    @property
    def share_always(self) -> float:
        """Part of the time that checkpoints at every evaluation take."""
        return self.saving_s / self.whole_s

    @property
    def share(self) -> float:
        """The same of checkpoints as they come by default: a pack saved once a minute."""
        return self.saving_s / self.n_saves / EVERY_S


def measure(*, width: int = WIDTH, n_runs: int = N_RUNS, steps: int = STEPS) -> Stopped:
    """Train a pack three times."""
    from benchmarks.loops import SOURCE, bench_pack
    from extrap.workloads import load_workload

    pack = bench_pack(load_workload(SOURCE), width=width, first=0, last=n_runs, steps=steps)
    whole, whole_s = _timed(pack, Checkpoints(None, ""))
    with tempfile.TemporaryDirectory() as folder:
        often = Timed(Path(folder) / "often", "study", every_s=0.0)
        _timed(pack, often)
        n_bytes = [path.stat().st_size for path in (Path(folder) / "often").iterdir()]
        asked: list[float] = []
        half = Checkpoints(Path(folder), "half", every_s=math.inf, is_asked=lambda: bool(asked))
        began = time.process_time()
        before_step = _stop_half_way(pack, half, asked)
        before_s, leaving_s = time.process_time() - began, time.perf_counter() - asked[0]
        seen: list[int] = []
        again, after_s = _timed(pack, Checkpoints(Path(folder), "half"), seen)
    return Stopped(
        whole_s=whole_s,
        saving_s=often.seconds,
        n_saves=often.n_saves,
        run_bytes=sum(n_bytes) / len(n_bytes),
        before_s=before_s,
        after_s=after_s,
        leaving_s=leaving_s,
        redone=max(0, before_step - seen[0]) / steps,
        n_equal=sum(one == other for one, other in zip(_bare(whole), _bare(again), strict=True)),
        n_runs=n_runs,
    )


def checkpoint_rows(found: Stopped | None = None) -> list[Row]:
    """The figures, from a pack that is trained for them unless one is given."""
    found = found or measure()
    lost_s = found.before_s + found.after_s - found.whole_s
    part = f"{found.n_runs} runs, byte MLP"
    return [
        Row(
            part=part,
            figure="training done again after a stop half-way",
            beat=f"without checkpoints {found.before_s / found.whole_s:.0%} of the pack",
            target="none",
            reached=f"{found.redone:.0%}; {lost_s:+.1f} s of {found.whole_s:.0f} s",
            met=found.redone == 0,
            note=f"all is saved {found.leaving_s:.1f} s after the request",
        ),
        Row(
            part=part,
            figure="runs equal to undisturbed ones to the last bit",
            target="all",
            reached=f"{found.n_equal} of {found.n_runs}",
            met=found.n_equal == found.n_runs,
        ),
        Row(
            part=part,
            figure="time that checkpoints take, once a minute",
            beat=f"at every evaluation {found.share_always:.1%}",
            target=f"at most {SHARE:.0%}",
            reached=f"{found.share:.2%}",
            met=found.share <= SHARE,
            note=f"{found.run_bytes / 1e6:.2f} MB a run; packs of less than a minute leave none",
        ),
    ]


def _stop_half_way(pack: Pack, checkpoints: Checkpoints, asked: list[float]) -> int:
    """Train until asked at the middle evaluation; the step at which that was."""
    recipe = pack.recipes()[0]
    steps: list[int] = []

    def ask(step: int, losses: Sequence[float]) -> None:
        steps.append(step)
        if 2 * step >= recipe.n_updates:
            asked.append(time.perf_counter())

    try:
        train(pack, on_eval=ask, device="cpu", layout=LAYOUT, checkpoints=checkpoints)
    except StopAsked:
        return steps[-1]
    raise AssertionError("it was not stopped")


def _timed(
    pack: Pack, checkpoints: Checkpoints, seen: list[int] | None = None
) -> tuple[tuple[RunResult, ...], float]:
    steps = [] if seen is None else seen
    began = time.process_time()
    results = train(
        pack,
        on_eval=lambda step, losses: steps.append(step),
        device="cpu",
        layout=LAYOUT,
        checkpoints=checkpoints,
    )
    return results, time.process_time() - began


def _bare(results: Sequence[RunResult]) -> list[RunResult]:
    return [replace(result, wall_s=0.0) for result in results]
