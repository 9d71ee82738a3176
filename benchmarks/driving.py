"""A driver in a process of its own, for `benchmarks.soak` to kill, freeze and cut off.

    python -m benchmarks.driving URL --study NAME --cells N [--on CLUSTER]

Its own training is a loss that is computed and a sleep. Each run that is begun is a line in the
file that an environment variable names, so that runs trained twice can be counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from extrap.errors import StudyError
from extrap.records import Cell, OnEval, Recipe, RunResult, StudySpec, TunedRange, Workload
from extrap.study import tune
from extrap.study.executors import LocalExecutor
from extrap.study.pack_requests import PackRequest, Trained, train_pack
from extrap.study.progress import TuneEvent
from extrap.study.trainers import PackedTrainer
from extrap.training.cores import n_cores
from extrap.training.preemption import Preemption

LOG, PAUSE, STEPS = "EXTRAP_SOAK_LOG", "EXTRAP_SOAK_PAUSE", "EXTRAP_SOAK_STEPS"
RAY = "ray"
TEACHERS = ("teacher", "alone")
SPEC = StudySpec(
    name="soak",
    question="Is anything lost or trained twice?",
    workload=Workload(name="mine"),
    sizes={"width": (2, 4, 8, 16, 32, 64)},
    tune={"lr": TunedRange(low=2**-6, high=1.0, n=24)},
    seeds=(0, 1, 2),
    growth=0,
)
"""432 cells."""
TEACHER = Workload(
    name=f"{Path(__file__).parents[1]}/studies/teacher_workload.py:Teacher",
    options={"n_features": 64, "n_examples": 500},
)
CHECKPOINT_S = 0.1
"""Seconds between two checkpoints: packs of the teacher take seconds."""


def spec_of(study: str, n_cells: int) -> StudySpec:
    """A study by name: `grid`, `tpe`; extrap's own training: `teacher`, `alone` on one core."""
    spec = SPEC
    if n_cells < len(SPEC.grid_cells()):
        few = TunedRange(low=2**-6, high=1.0, n=n_cells // 6)
        spec = replace(SPEC, sizes={"width": (2, 4)}, tune={"lr": few})
    if study == "tpe":
        return replace(spec, sampler="tpe", pruner="none")
    if study in TEACHERS:
        # minutes, so that little of it is trained since the last checkpoint
        steps = int(os.environ.get(STEPS, "80000")) if study == "alone" else 800
        recipe = Recipe(steps=steps, batch_size=16, n_evals=min(800, steps // 10))
        return replace(spec, workload=TEACHER, recipe=recipe)
    return spec


def sleeping(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """A loss near a power law of the width, after a sleep."""
    if log := os.environ.get(LOG):
        _append(log, f"{size['width']:g} {tuned['lr']!r} {seed}")
    time.sleep(float(os.environ.get(PAUSE, "0")))
    width, lr = size["width"], tuned["lr"]
    rng = np.random.default_rng([int(width), int(1e9 * lr), seed])
    octaves = np.log2(lr / (0.02 * (width / 8) ** -0.4))
    clean = (1.5 + 2.0 * (width / 8) ** -0.4) * (1 + 0.01 * octaves**2)
    return float(clean * np.exp(0.002 * rng.normal()))


def packs_log(log: str | Path) -> Path:
    """The file with a line for each pack that is finished."""
    return Path(f"{log}.packs")


def steps_log(log: str | Path) -> Path:
    """The file with the steps at which runs of extrap's own training were evaluated."""
    return Path(f"{log}.steps")


def _append(path: str | Path, line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _notes_packs(event: TuneEvent) -> None:
    if event.is_finished and (log := os.environ.get(LOG)):
        _append(packs_log(log), str(event.n_runs))


def noted(pack: PackRequest, folder: str | None) -> Trained:
    """Train a pack in a worker that writes down how many runs it evaluates, and at which step."""
    _notes_steps()
    return train_pack(pack, folder)


class _Noting(LocalExecutor):
    """The workers of this machine, which write down what they train."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        return super().submit(noted, *args)


@cache
def _notes_steps() -> None:
    plain, log = PackedTrainer.train, os.environ.get(LOG)

    def train(
        self: PackedTrainer,
        cells: Sequence[Cell],
        on_eval: OnEval,
        say: Callable[[str], None],
        **options: Any,
    ) -> Sequence[RunResult]:
        def heard(step: int, losses: tuple[float, ...]) -> Sequence[bool] | None:
            if log:
                _append(steps_log(log), f"{step} {int(np.isfinite(losses).sum())}")
            return on_eval(step, losses)

        return plain(self, cells, heard, say, **options)

    PackedTrainer.train = train  # type: ignore[method-assign]


@contextmanager
def _executor(place: str) -> Iterator[Executor | None]:
    """Where packs train: here, or on a cluster that is started unless its address is given."""
    if not place:
        yield None
        return
    from extrap.study.clusters import executor_on

    if place == RAY:
        import ray

        ray.init(
            address="local",
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
    with executor_on(place) as executor:
        yield executor


def main() -> None:
    """Run a study; exit code 2 where it is refused, as that of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--study", required=True)
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--on", default="")
    parser.add_argument("--checkpoints", type=Path)
    given = parser.parse_args()
    is_teacher = given.study in TEACHERS
    if given.study == "alone":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from benchmarks import driving  # which a worker can import, unlike a main module

    with_notes = driving._Noting(n_cores()) if is_teacher and not given.on else None
    try:
        with with_notes or _executor(given.on) as executor:
            tune(
                spec_of(given.study, given.cells),
                given.url,
                train=None if is_teacher else sleeping,
                notify=_notes_packs,
                executor=executor,
                preemption=Preemption(given.checkpoints, every_s=CHECKPOINT_S),
            )
    except StudyError as error:
        sys.stderr.write(f"extrap: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
