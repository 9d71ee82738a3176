"""Training speed on a GPU: packs against single runs, and against what the card can do.

| way | is |
|---|---|
| ours | 36 runs in stacks as they are cut in a study |
| one by one | an ordinary PyTorch loop, one run at a time |
| one graph a run | one run at a time, its step recorded as a CUDA graph |
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.gpu_acceptance.card import card_limits, seconds
from benchmarks.gpu_acceptance.correctness import EagerStack
from benchmarks.gpu_acceptance.packs import small_workload
from benchmarks.gpu_acceptance.results import Result
from benchmarks.gpu_acceptance.settings import CUDA, PRETENDED, ROOT, Setting
from extrap.records import Cell, Recipe, StudySpec, Workload
from extrap.study import open_study
from extrap.training import Pack, most_runs
from extrap.training.memory import free_cached, run_bytes
from extrap.training.stacks import Stack
from extrap.workloads import LoadedWorkload, load_workload

PART = "speed"
PEERS = (16, 64)
WARM_UP = 10
"""Steps that are not timed: the recording is made in them."""
MINUTES = 15
TARGETS = {
    "total": f"≤ {MINUTES} minutes",
    "transformer": "≥ 1×",
}
N_TRANSFORMER, TRANSFORMER_BATCH = 32, 32
# Bytes that a step must move for each parameter of each run: read it forward and backward, write
# its gradient, read four numbers and write three in Adam.
BYTES_PER_PARAMETER = 4 * (2 + 1 + 4 + 3)
FLOPS_PER_PARAMETER = 6
GPU_HOUR = 3.0
"""Dollars, a common price of a rented H100 or H200."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """All runs of one width.

    Attributes:
        n_runs: Runs.
        at_once: Runs in one stack.
        step_s: Seconds of one step of all runs.
        evaluations_s: Seconds of all evaluations of all runs in a whole training.
        n_kernels: Kernels of one step of one stack; None if nobody counted.
        n_bytes: The least that a step of all runs moves.
        floor_s, roofline_s: Seconds in which the card moves that; and computes the products too.
    """

    n_runs: int
    at_once: int
    step_s: float
    evaluations_s: float
    n_kernels: float | None
    n_bytes: float
    floor_s: float
    roofline_s: float


def measure_speed(setting: Setting) -> Iterator[Result]:
    """Every width of the study, the peers, a transformer, and the predicted time of the study."""
    limits = card_limits(setting)
    spec = open_study(ROOT / "studies" / "metz_full.py", symbol="STUDY").study
    workload = load_workload(spec.workload) if setting.is_card else small_workload("bytes-mlp")
    widths = [int(width) for width in spec.sizes["width"]]
    found = {}
    for width in setting.pick(widths, [16, 64]):
        pack = _pack(workload, spec, width)
        found[width] = _speed(setting, pack, limits, n_steps=setting.pick(300, 4))
        yield _speed_row(setting, width, found[width])
        if width in PEERS:
            yield from _peers(setting, pack, found[width].step_s)
    yield _transformer(setting)
    yield _total(setting, spec, found)


def measure_if_any() -> list[Result] | None:
    """The rows on a card, or None without one."""
    if not torch.cuda.is_available():
        return None
    with tempfile.TemporaryDirectory() as folder:
        return list(measure_speed(Setting(device=CUDA, out=Path(folder))))


def unmeasured() -> list[Result]:
    """What stands for the rows where there is no card."""
    wanted = {
        "12 widths of studies/metz_full.py, 36 runs each": "",
        "transformer of width 512, a pack against single runs": TARGETS["transformer"],
        "432 runs of studies/metz_full.py": TARGETS["total"],
    }
    return [
        Result(part=PART, what=what, measured="not measured: no GPU here", pass_at=target)
        for what, target in wanted.items()
    ]


def _pack(workload: LoadedWorkload, spec: StudySpec, width: int) -> Pack:
    size = {"width": width}
    cells = tuple(
        Cell.of(size, {"lr": lr}, seed) for seed in spec.seeds for lr in spec.tune["lr"].values()
    )
    return Pack(workload=workload, size=size, recipe=spec.recipe, cells=cells)


def _speed(setting: Setting, pack: Pack, limits: Mapping[str, float], *, n_steps: int) -> Speed:
    place, recipe, n_runs = setting.place, pack.recipes()[0], len(pack.cells)
    at_once = most_runs(pack, place)
    cut = [pack.cells[first : first + at_once] for first in range(0, n_runs, at_once)]
    step_s = evaluations_s = 0.0
    n_kernels = None
    for n, times in Counter(len(cells) for cells in cut).items():
        free_cached(place)
        stack = Stack(replace(pack, cells=pack.cells[:n]), place)
        stack.advance(0, WARM_UP)
        step_s += times * _timed(stack, WARM_UP, WARM_UP + n_steps) / n_steps
        evaluations_s += times * _evaluations_s(setting, stack, recipe)
        n_kernels = n_kernels or _n_kernels(setting, pack, stack, WARM_UP + n_steps)
        del stack
    n_params = pack.workload.n_params_total(pack.model_size())
    n_bytes = float(BYTES_PER_PARAMETER * n_params * n_runs)
    floor_s = n_bytes / limits["bandwidth"]
    products_s = FLOPS_PER_PARAMETER * n_params * recipe.batch_size * n_runs / limits["tf32"]
    return Speed(
        n_runs=n_runs,
        at_once=at_once,
        step_s=step_s,
        evaluations_s=evaluations_s,
        n_kernels=n_kernels,
        n_bytes=n_bytes,
        floor_s=floor_s,
        roofline_s=max(floor_s, products_s),
    )


def _timed(stack: Stack, start: int, stop: int) -> float:
    """Seconds of some steps; `advance` ends by reading the losses, so it waits for the device."""
    began = time.perf_counter()
    stack.advance(start, stop)
    return time.perf_counter() - began


def _evaluations_s(setting: Setting, stack: Stack, recipe: Recipe) -> float:
    """Of a whole training: points of the curve, and all examples at the beginning and the end."""
    few = seconds(lambda: stack.evaluate(1024), setting)
    return (recipe.n_evals - 1) * few + 2 * seconds(stack.evaluate, setting)


def _n_kernels(setting: Setting, pack: Pack, stack: Stack, start: int) -> float | None:
    """Kernels of a step: the profiler's on a card, the pretended device's own count there."""
    if setting.device == PRETENDED:
        from benchmarks.pretended_cuda.device import CARD

        n_recorded, n_captures = CARD.recorded.total(), CARD.captures
        stack.keep(list(range(len(stack))))  # recorded anew
        stack.advance(start, start + WARM_UP)
        return (CARD.recorded.total() - n_recorded) / (CARD.captures - n_captures)
    if not setting.is_card:
        return None
    for counted in (stack, EagerStack(replace(pack, cells=pack.cells[:2]), setting.place)):
        few, many = (_n_profiled(counted, start, start + n) for n in (10, 30))
        if many > few:  # some versions do not see what a graph launches
            return (many - few) / 20
    return None


def _n_profiled(stack: Stack, start: int, stop: int) -> int:
    """Kernels that the profiler saw; 0 where it cannot look into the card."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    try:
        with torch.profiler.profile(activities=activities) as profile:
            stack.advance(start, stop)
        events = profile.key_averages()
    except RuntimeError:
        return 0
    return sum(
        event.count
        for event in events
        if event.device_type.name == "CUDA" and not event.key.startswith(("Memcpy", "Memset"))
    )


def _speed_row(setting: Setting, width: int, speed: Speed) -> Result:
    kernels = "not counted" if speed.n_kernels is None else f"{speed.n_kernels:.0f}"
    rate = speed.n_bytes / speed.step_s
    return Result(
        part=PART,
        what=f"width {width}, {speed.n_runs} runs in stacks of {speed.at_once}",
        measured=f"{1e3 * speed.step_s:.3f} ms a step of all runs; {kernels} kernels a step; "
        f"{rate / 1e9:.3g} GB/s; {100 * speed.floor_s / speed.step_s:.2g} % of the memory floor, "
        f"{100 * speed.roofline_s / speed.step_s:.2g} % of the roofline",
        note=_note(setting),
    )


def _note(setting: Setting) -> str:
    if setting.is_card:
        return (
            f"The memory floor is {BYTES_PER_PARAMETER} bytes for each parameter and step at the "
            "measured rate of a copy; the roofline is the larger of that and of the time of the "
            "matrix products in TF32."
        )
    return "Times are not those of a card."


def _peers(setting: Setting, pack: Pack, step_s: float) -> Iterator[Result]:
    """One run at a time, as an ordinary loop and as a graph, against all together."""
    single = replace(pack, cells=pack.cells[:1])
    n_steps = setting.pick(200, 4)
    peers = {"one by one": _eager_step_s(setting, single, n_steps)}
    if setting.is_gpu:
        peers["one graph a run"] = _stack_step_s(setting, single, n_steps)
    for name, run_s in peers.items():
        ratio = run_s * len(pack.cells) / step_s
        yield Result(
            part=PART,
            what=f"width {pack.size['width']:g}, {len(pack.cells)} runs, against {name}",
            measured=f"{ratio:.1f}×: {1e6 * run_s:.1f} µs a step and run one at a time, "
            f"{1e6 * step_s / len(pack.cells):.2f} µs together",
            note=_note(setting),
        )


def _eager_step_s(setting: Setting, pack: Pack, n_steps: int) -> float:
    """One run in an ordinary loop, data on the device, fused Adam on a card."""
    workload, recipe, place = pack.workload, pack.recipes()[0], setting.place
    torch.manual_seed(0)
    module = workload.build(pack.model_size()).to(place)
    fused = setting.device != PRETENDED
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=fused)
    training = tuple(t.to(place) for t in workload.training)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        rows = workload.draw(recipe.batch_size, generator).to(place, non_blocking=True)
        optimizer.zero_grad()
        workload.loss(module, workload.examples(training, rows)).backward()
        optimizer.step()

    def steps() -> None:
        for _ in range(n_steps):
            step()

    return seconds(steps, setting) / n_steps


def _stack_step_s(setting: Setting, pack: Pack, n_steps: int) -> float:
    """One step of one run of a stack, recorded on a GPU."""
    stack = Stack(pack, setting.place)
    stack.advance(0, WARM_UP)
    return _timed(stack, WARM_UP, WARM_UP + n_steps) / n_steps / len(pack.cells)


def _transformer(setting: Setting) -> Result:
    """A transformer of width 512, with the memory that was predicted for a run."""
    name = "bytes-transformer"
    width, n_runs = setting.pick((512, N_TRANSFORMER), (16, 4))
    workload = load_workload(Workload(name=name)) if setting.is_card else small_workload(name)
    recipe = Recipe(steps=30_000, batch_size=TRANSFORMER_BATCH, precision="tf32")
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": 2.0**-10}, seed) for seed in range(n_runs))
    pack = Pack(workload=workload, size=size, recipe=recipe, cells=cells)
    n_steps = setting.pick(50, 2)
    together = _stack_step_s(setting, pack, n_steps)
    single = _stack_step_s(setting, replace(pack, cells=cells[:1]), n_steps)
    memory = ""
    if setting.is_gpu:
        memory = f"; {run_bytes(pack, setting.place).n / 2**20:.0f} MiB a run predicted"
    return Result(
        part=PART,
        what=f"transformer of width {width}, {n_runs} runs, against single runs",
        measured=f"{single / together:.2f}×: {1e6 * together:.0f} µs a step and run{memory}",
        pass_at=TARGETS["transformer"],
        passed=setting.judged(single / together >= 1),
        note=_note(setting),
    )


def _total(setting: Setting, spec: StudySpec, found: Mapping[int, Speed]) -> Result:
    steps_s = sum(speed.step_s for speed in found.values()) * spec.recipe.steps
    evaluations_s = sum(speed.evaluations_s for speed in found.values())
    floor_s = sum(speed.floor_s for speed in found.values()) * spec.recipe.steps
    minutes = (steps_s + evaluations_s) / 60
    n_runs = sum(speed.n_runs for speed in found.values())
    return Result(
        part=PART,
        what=f"{n_runs} runs × {spec.recipe.steps:,} steps of studies/metz_full.py, predicted",
        measured=f"{minutes:.1f} minutes, ${minutes / 60 * GPU_HOUR:.2f}: steps "
        f"{steps_s / 60:.1f}, evaluations {evaluations_s / 60:.1f}; memory floor "
        f"{floor_s / 60:.1f}",
        pass_at=TARGETS["total"],
        passed=setting.judged(minutes <= MINUTES),
        note="Without start-up and the storage." if setting.is_card else _note(setting),
    )
