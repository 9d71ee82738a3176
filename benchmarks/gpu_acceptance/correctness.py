"""Whether a card trains what a CPU trains in float64: in graphs as eagerly, in any pack."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from benchmarks.gpu_acceptance.packs import RATES, WORKLOADS, difference, pack_of, small_workload
from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import CUDA, ROOT, Setting
from extrap.training.packs import Pack
from extrap.training.stacks import Stack

PART = "correctness"
OPTIMIZERS = ("sgd", "adam", "adamw", "muon")
LIMITS = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2}
"""Precision → largest relative difference of a held-out loss after 40 steps."""
CPU = torch.device("cpu")
ROUNDED = "muon"
"""Its iteration is in bf16 whatever the precision, so it is held to the limit of bf16."""
N_RUNS, WIDTH, STEPS = 3, 32, 40
SMALLER = {"digits": 4}
"""Workload → divisor of its rates: its norms over few examples amplify every rounding."""
TEST_PACKAGES = ("pytest", "pytest_timeout", "hypothesis")
TESTS_S = 400
"""Seconds after which the tests are ended."""
GROWING = {
    "schedule": "steps",
    "drops": (0.25, 0.5),
    "drop_factor": 2,
    "decay_by": "batch",
    "steps": 64,
}
EXTRAS: dict[str, tuple[str, dict[str, Any], bool | None]] = {
    "clipped gradients": ("bytes-mlp", {"optimizer": "adam", "clip": 0.1}, None),
    "noise of the gradients": ("bytes-mlp", {"optimizer": "adam", "noise_every": 4}, None),
    "sparse weights": ("bytes-mlp", {"optimizer": "sgd", "density": 0.5}, None),
    "sparse activations": ("bytes-mlp", {"optimizer": "sgd", "activation_density": 0.5}, None),
    "a batch that grows": ("digits", {"optimizer": "sgd", **GROWING}, None),
    "vmap instead of a run axis, MLP": ("bytes-mlp", {"optimizer": "adam"}, False),
    "vmap instead of a run axis, transformer": (
        "bytes-transformer",
        {"optimizer": "adamw"},
        False,
    ),
}
"""Name → workload, recipe, and whether to use the workload's run axis."""
MOMENTS_WITHIN = 1e-2
PACKS = (1, 4, 36)
PACKS_WITHIN = 1e-3
"""What the documentation states."""


class EagerStack(Stack):
    """A stack that records nothing."""

    is_recorded = False


def measure_correctness(setting: Setting) -> Iterator[Result]:
    """The tests, the grid of workloads, optimisers and precisions, and what else a recipe has."""
    yield _tests(setting)
    for name in WORKLOADS:
        for precision, limit in LIMITS.items():
            yield _grid_row(setting, name, precision, limit)
    for what, (name, recipe, run_axis) in EXTRAS.items():
        yield _extra(setting, what, name, recipe, run_axis)
    if setting.is_gpu:
        for name, limit in (("digits", 1e-5), ("bytes-mlp", 1e-4)):
            yield _graph_against_eager(setting, name, limit)
    for name in ("bytes-mlp", "digits"):
        yield _packs(setting, name)


def _tests(setting: Setting) -> Result:
    what = "pytest -m gpu tests/training"
    if not setting.is_gpu:
        return Result(part=PART, what=what, measured="not measured: they need a GPU")
    missing = [name for name in TEST_PACKAGES if not importlib.util.find_spec(name)]
    if missing:
        words = f"not measured: {', '.join(missing)} is not installed"
        return Result(part=PART, what=what, measured=words)
    few = setting.pick([], ["-k", "grows and digits"])
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--device", setting.device]
    command += ["-p", "no:cacheprovider", *few, "tests/training"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=setting.environment(),
        capture_output=True,
        text=True,
        timeout=TESTS_S,
    )
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return Result(
        part=PART,
        what=what,
        measured="; ".join([*(lines[-1:] or ["no output"]), *failures])[:1500],
        pass_at="all pass",
        passed=done.returncode == 0,
        note="" if setting.device == CUDA else "One of the tests.",
    )


def _grid_row(setting: Setting, name: str, precision: str, limit: float) -> Result:
    """One workload and precision: all optimisers."""
    apart: dict[str, float] = {}
    left_out = []
    for optimizer in OPTIMIZERS:
        try:
            expected = _reference(name, optimizer)
        except ValueError as error:
            if ROUNDED not in str(error):
                raise
            left_out.append(optimizer)
            continue
        pack = _pack(name, optimizer=optimizer, precision=precision)
        found = _trained(Stack(pack, setting.place)).evaluate()
        apart[optimizer] = difference(found, expected)
    words = ", ".join(f"{optimizer} {value:.1e}" for optimizer, value in apart.items())
    return Result(
        part=PART,
        what=f"{name} in {precision} against float64 on the CPU, {STEPS} steps, largest "
        "relative difference of a loss",
        measured=words + "".join(f"; {each} has no matrix here" for each in left_out),
        pass_at=f"≤ {limit:g}, {ROUNDED} ≤ {LIMITS['bf16']:g}",
        passed=all(v <= (LIMITS["bf16"] if k == ROUNDED else limit) for k, v in apart.items()),
        note="" if setting.is_gpu or precision != "tf32" else "A CPU has no TF32.",
    )


def _extra(
    setting: Setting, what: str, name: str, recipe: dict[str, Any], run_axis: bool | None
) -> Result:
    pack = _pack(name, **recipe)
    ours = _trained(Stack(pack, setting.place, run_axis=run_axis))
    expected = _trained(Stack(pack, CPU, dtype=torch.float64))
    apart, limit = difference(ours.evaluate(), expected.evaluate()), LIMITS["fp32"]
    measured, passed = f"{apart:.1e}", apart <= limit
    pass_at = f"≤ {limit:g}"
    if recipe.get("noise_every"):
        pairs = (np.ravel(np.array(stack.gradient_moments())) for stack in (ours, expected))
        moments = difference(*(pair.tolist() for pair in pairs))
        measured += f"; of |G|² and tr Σ {moments:.1e}"
        pass_at += f"; ≤ {MOMENTS_WITHIN:g}"
        passed = passed and moments <= MOMENTS_WITHIN
    return Result(
        part=PART,
        what=f"{what}, {name}, fp32 against float64 on the CPU",
        measured=measured,
        pass_at=pass_at,
        passed=passed,
    )


def _graph_against_eager(setting: Setting, name: str, limit: float) -> Result:
    pack = _pack(name, optimizer="adam")
    graph, eager = (_trained(kind(pack, setting.place)).evaluate() for kind in (Stack, EagerStack))
    apart = difference(graph, eager)
    return Result(
        part=PART,
        what=f"{name}, a recorded step against an eager one on the same device",
        measured=f"{apart:.1e}",
        pass_at=f"≤ {limit:g}",
        passed=apart <= limit,
    )


def _packs(setting: Setting, name: str) -> Result:
    """The first run in packs of several sizes."""
    found = {}
    for n_runs in PACKS:
        pack = pack_of(small_workload(name), WIDTH, n_runs, optimizer="adam", steps=STEPS)
        found[n_runs] = _trained(Stack(pack, setting.place)).evaluate()[:1]
    apart = {n: difference(loss, found[1]) for n, loss in found.items() if n > 1}
    return Result(
        part=PART,
        what=f"{name}, one run in packs of 4 and 36 against the run alone",
        measured=", ".join(f"{n} runs {value:.1e}" for n, value in apart.items()),
        pass_at=f"≤ {PACKS_WITHIN:g}",
        passed=max(apart.values()) <= PACKS_WITHIN,
    )


@cache
def _reference(name: str, optimizer: str) -> list[float]:
    """Held-out losses after 40 steps on the CPU in float64."""
    pack = _pack(name, optimizer=optimizer)
    return _trained(Stack(pack, CPU, dtype=torch.float64)).evaluate()


def _pack(name: str, **recipe: Any) -> Pack:
    settings = {"steps": STEPS, "weight_decay": 0.1, **recipe}
    rates = [rate / SMALLER.get(name, 1) for rate in RATES]
    return pack_of(small_workload(name), WIDTH, N_RUNS, rates=rates, **settings)


def _trained(stack: Stack) -> Stack:
    """After all its updates, with no run diverged."""
    n_updates = stack._recipes[0].n_updates
    broke = stack.advance(0, n_updates)
    if any(step is not None for step in broke):
        raise RuntimeError(f"runs diverged, at steps {broke}")
    return stack
