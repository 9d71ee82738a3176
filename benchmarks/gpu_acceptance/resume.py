"""Interruptions: SIGTERM and SIGKILL in mid-pack; how long checkpoints take to write."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_acceptance.packs import SAME, difference, losses, pack_of, small_workload
from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import Setting
from benchmarks.gpu_acceptance.training_job import N_EVALS, STOPPED
from extrap.records import Workload
from extrap.training import train
from extrap.training.checkpoints import Checkpoint, Checkpoints
from extrap.training.memory import free_cached
from extrap.training.packs import Pack
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

PART = "resume"
JOB = "benchmarks.gpu_acceptance.training_job"
INTERRUPTED_AT = 5
"""Evaluations before the signal, of `N_EVALS`."""
LIMIT_S = 240
"""Seconds after which a process that does not end is killed."""
WITHIN = 1e-6
"""Of losses on a CPU."""


def measure_resume(setting: Setting) -> Iterator[Result]:
    """Both signals, and the checkpoints of large runs."""
    width, n_runs, steps = setting.pick((256, 12, 2000), (8, 4, 40))
    pack = pack_of(small_workload("bytes-mlp"), width, n_runs, steps=steps, n_evals=N_EVALS)
    expected = losses(train(pack, device=setting.place.type))
    free_cached(setting.place)
    for name in ("SIGTERM", "SIGKILL"):
        with tempfile.TemporaryDirectory(dir=setting.out) as folder:
            yield _interrupted(setting, Path(folder), pack, expected, name)
    yield _writing(setting)


def _interrupted(
    setting: Setting, folder: Path, pack: Pack, expected: list[float], name: str
) -> Result:
    """Interrupt a pack at an evaluation, start it again, and compare its losses."""
    sizes = {"width": pack.size["width"], "runs": len(pack.cells), "steps": pack.recipe.steps}
    options = [word for key, value in sizes.items() for word in (f"--{key}", f"{value:g}")]
    command = setting.command(JOB, str(folder), "--device", setting.place.type, *options)
    code, heard = _run(setting, command, interrupt=getattr(signal, name))
    again, after = _run(setting, command, interrupt=None)
    found: list[float] = next((words["losses"] for words in after if "losses" in words), [])
    resumed = next((words["step"] for words in after if "step" in words), 0)
    last = heard[-1]["step"]
    apart = difference(found, expected) if len(found) == len(expected) else float("inf")
    limit = SAME if setting.is_gpu else WITHIN
    wanted = STOPPED if name == "SIGTERM" else -signal.SIGKILL
    # it saves before it says the step, and goes on with the evaluation that comes next
    went_on = resumed > pack.recipe.steps // N_EVALS
    return Result(
        part=PART,
        what=f"{name} at step {last} of {pack.recipe.steps}, {len(pack.cells)} runs of width "
        f"{pack.size['width']:g}, started again",
        measured=f"exit codes {code}, {again}; first evaluation after it at step {resumed}; "
        f"losses within {apart:.1e} of an undisturbed pack",
        pass_at=f"exit codes {wanted}, 0; goes on; ≤ {limit:g}",
        passed=(code, again) == (wanted, 0) and went_on and apart <= limit,
    )


def _run(
    setting: Setting, command: list[str], *, interrupt: int | None
) -> tuple[int, list[dict[str, Any]]]:
    """Run the job, perhaps with a signal at an evaluation; its exit code and what it said."""
    heard: list[dict[str, Any]] = []
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command,
            env=setting.environment(),
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        watchdog = threading.Timer(LIMIT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                heard.append(json.loads(line))
                if interrupt is not None and len(heard) == INTERRUPTED_AT:
                    process.send_signal(interrupt)
            code = process.wait()
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
        complaints.seek(0)
        if not heard:
            raise RuntimeError(f"the job ended with {code}: {complaints.read()[-1500:]}")
    return code, heard


def _writing(setting: Setting) -> Result:
    """Time to write the checkpoints of all runs of the largest width."""
    width, n_runs = setting.pick((4096, 36), (16, 4))
    name = "bytes-mlp"
    workload = load_workload(Workload(name=name)) if setting.is_card else small_workload(name)
    pack = pack_of(workload, width, n_runs)
    stack = Stack(pack, setting.place)
    stack.advance(0, 5)
    with tempfile.TemporaryDirectory(dir=setting.out) as folder:
        checkpoints = Checkpoints(folder, "acceptance", every_s=0)
        began = time.perf_counter()
        found = (
            (cell, Checkpoint(step=5, spent_s=0.0, record={}, tensors=stack.snapshot(i)))
            for i, cell in enumerate(pack.cells)
        )
        checkpoints.save(found, setting.place)
        took_s = time.perf_counter() - began
        sizes = [path.stat().st_size for path in Path(folder).glob("*.pt")]
    return Result(
        part=PART,
        what=f"checkpoints of {n_runs} runs of width {width}",
        measured=f"{len(sizes)} files, {sum(sizes) / 1e9:.3g} GB written in {took_s:.1f} s, "
        f"{sum(sizes) / 1e9 / took_s:.2g} GB/s",
        pass_at=f"{n_runs} files",
        passed=len(sizes) == n_runs,
        note="A kill loses the last minute, or fifty times this where that is longer.",
    )
