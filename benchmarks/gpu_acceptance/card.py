"""The card itself: versions, clocks, rates, Triton, one CUDA graph; and how to time it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

import torch

from benchmarks.gpu_acceptance.results import Result, versions
from benchmarks.gpu_acceptance.settings import Setting
from extrap.records import Recipe
from extrap.training.optimizers import Way, build_optimizer

PART = "card"
QUERY = (
    "driver_version,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,"
    "power.limit,memory.total,memory.used"
)
TRIES = 5


def measure_card(setting: Setting) -> Iterator[Result]:
    """What the card is, and that it can do what training needs."""
    found = ", ".join(f"{name} {version}" for name, version in versions().items())
    cuda = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    yield Result(part=PART, what="versions", measured=f"{setting.name()}; {found}; {cuda}")
    yield Result(part=PART, what="nvidia-smi", measured=_nvidia_smi(setting))
    limits = card_limits(setting)
    for name, value in limits.items():
        unit = "GB/s" if name == "bandwidth" else "TFLOP/s"
        scaled = value / (1e9 if name == "bandwidth" else 1e12)
        measured = f"{scaled:.3g} {unit}" + ("" if setting.is_card else ", not of a card")
        yield Result(part=PART, what=_TITLES[name], measured=measured)
    yield from _triton(setting)
    if setting.is_gpu:
        yield _graph(setting)


_TITLES = {
    "fp32": "matrix products in fp32",
    "tf32": "matrix products in TF32",
    "bf16": "matrix products in bf16",
    "bandwidth": "bytes read and written by a copy",
}


def card_limits(setting: Setting) -> Mapping[str, float]:
    """FLOP/s of matrix products in fp32, TF32 and bf16, and bytes/s of a copy, measured."""
    place = setting.place
    side, n_bytes = setting.pick((8192, 2**32), (64, 2**16))
    a, b = (torch.randn(side, side, device=place) for _ in range(2))
    before = torch.get_float32_matmul_precision()
    limits = {}
    try:
        for name, precision in (("fp32", "highest"), ("tf32", "high")):
            torch.set_float32_matmul_precision(precision)
            limits[name] = 2 * side**3 / _least(lambda: a @ b, setting)
    finally:
        torch.set_float32_matmul_precision(before)
    a_bf16, b_bf16 = a.bfloat16(), b.bfloat16()
    limits["bf16"] = 2 * side**3 / _least(lambda: a_bf16 @ b_bf16, setting)
    x = torch.zeros(n_bytes // 4, device=place)
    y = torch.empty_like(x)
    limits["bandwidth"] = 2 * n_bytes / _least(lambda: y.copy_(x), setting)
    return limits


def seconds(work: Callable[[], object], setting: Setting) -> float:
    """Seconds of some work, after one untimed time."""
    work()
    wait(setting)
    began = time.perf_counter()
    work()
    wait(setting)
    return time.perf_counter() - began


def wait(setting: Setting) -> None:
    """Until the device has done what it was asked for."""
    if setting.is_gpu:
        torch.cuda.synchronize(setting.place)


def _least(work: Callable[[], object], setting: Setting) -> float:
    return min(seconds(work, setting) for _ in range(TRIES))


def _nvidia_smi(setting: Setting) -> str:
    if not setting.is_card:
        return "not measured: no card"
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not measured: {error}"
    values = (done.stdout.strip().splitlines() or [""])[0].split(", ")
    return ", ".join(f"{k} {v}" for k, v in zip(QUERY.split(","), values, strict=False))


def _triton(setting: Setting) -> Iterator[Result]:
    """Our kernels of the optimisers against PyTorch's own in float64."""
    for kind in ("adam", "adamw", "sgd"):
        what = f"10 steps of {kind} in one Triton kernel against float64, 36 runs"
        if not setting.is_card:
            yield Result(part=PART, what=what, measured="not measured: no card")
            continue
        try:
            error = _kernel_error(setting.place, kind)
        except Exception as failure:  # a compiler fails in many ways; training does without Triton
            words = f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}"
            yield Result(part=PART, what=what, measured=words, pass_at="≤ 1e-5", passed=False)
            continue
        yield Result(
            part=PART,
            what=what,
            measured=f"largest relative difference {error:.1e}",
            pass_at="≤ 1e-5",
            passed=error <= 1e-5,
        )


def _kernel_error(place: torch.device, kind: str) -> float:
    """Largest relative difference of a tensor after ten steps."""
    recipes = [Recipe(optimizer=kind, weight_decay=0.01 * (i % 3)) for i in range(36)]
    drawn = torch.Generator().manual_seed(0)
    tensors = {
        dtype: [
            torch.randn(36, *shape, generator=drawn.manual_seed(1)).to(place, dtype)
            for shape in ((256, 16), (100,))
        ]
        for dtype in (torch.float32, torch.float64)
    }
    ways: tuple[Way, Way] = ("triton", "flat")
    optimizers = [
        (own, build_optimizer(own, recipes, way=way))
        for own, way in zip(tensors.values(), ways, strict=True)
    ]
    rates = torch.logspace(-4, -2, 36, dtype=torch.float64, device=place)
    for _ in range(10):
        gradients = [
            torch.randn(t.shape, generator=drawn).to(place) for t in tensors[torch.float32]
        ]
        for own, optimizer in optimizers:
            optimizer.step([g.to(own[0].dtype) for g in gradients], rates)
    pairs = zip(*tensors.values(), strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def _graph(setting: Setting) -> Result:
    given, total = torch.ones(3, device=setting.place), torch.zeros((), device=setting.place)
    graph = torch.cuda.CUDAGraph()
    (2 * given).sum()  # loads the kernels, which must not happen during capture
    torch.cuda.synchronize(setting.place)
    with torch.cuda.graph(graph):
        total += (2 * given).sum()
    for _ in range(3):
        graph.replay()
    found = float(total)
    return Result(
        part=PART,
        what="a CUDA graph adds 6 in each of three replays",
        measured=f"{found:g}",
        pass_at="18",
        passed=found == 18,
    )
