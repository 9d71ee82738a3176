from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from extrap.records import Cell, Recipe
from extrap.training import Pack, memory
from extrap.training.memory import most_runs
from extrap.workloads import LoadedWorkload

CPU = torch.device("cpu")
STATUS = Path("/proc/self/status")
GROWTH = """
import sys
from pathlib import Path
import torch
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack
from extrap.training.memory import run_bytes
from extrap.training.stacks import Stack
from extrap.workloads import load_workload

torch.set_num_threads(1)
name, width, n_runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sparse = {"density": 0.1, "activation_density": 0.2} if sys.argv[4] == "sparse" else {}
options = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 64}
size, place = {"width": width}, torch.device("cpu")
cells = tuple(Cell.of(size, {"lr": 2**-9}, seed) for seed in range(n_runs))
pack = Pack(
    workload=load_workload(Workload(name=name, options=options)),
    size=size, recipe=Recipe(batch_size=64, **sparse), cells=cells,
)
predicted = run_bytes(pack, place)
Stack(pack, place).advance(0, 3)
# not getrusage: its peak outlives the exec and is the parent's
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(predicted, int(peak) * 1024)
"""


@pytest.mark.skipif(not STATUS.exists(), reason="reads the peak of a process from /proc")
@pytest.mark.parametrize(
    ("name", "width", "n_runs", "recipe"),
    [
        ("bytes-mlp", 64, 257, "dense"),
        ("bytes-mlp", 512, 17, "dense"),
        ("bytes-transformer", 32, 13, "dense"),
        ("bytes-mlp", 512, 17, "sparse"),
    ],
)
def test_memory_is_predicted_within_a_quarter(
    name: str, width: int, n_runs: int, recipe: str
) -> None:
    """Against what a process of many runs takes beyond one of a single run.

    A single run takes libraries, data and buffers that differ by machine; further runs do not.
    """
    predicted, many = _predicted_and_peak(name, width, n_runs, recipe)
    _, one = _predicted_and_peak(name, width, 1, recipe)
    assert 0.75 < (n_runs - 1) * predicted / (many - one) < 1.25


def _predicted_and_peak(name: str, width: int, n_runs: int, recipe: str) -> tuple[float, float]:
    command = [sys.executable, "-c", GROWTH, name, str(width), str(n_runs), recipe]
    # the allocator's own settings, not those that make training faster
    env = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    predicted, peak = done.stdout.split()
    return float(predicted), float(peak)


def pack_of(workload: LoadedWorkload, n_runs: int) -> Pack:
    size = {"width": 8}
    cells = tuple(Cell.of(size, {"lr": 0.01}, seed) for seed in range(n_runs))
    return Pack(workload=workload, size=size, recipe=Recipe(batch_size=4), cells=cells)


def test_a_pack_takes_no_more_than_its_share_of_what_is_free(
    tiny: Callable[..., LoadedWorkload], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = pack_of(tiny("bytes-mlp"), 40)
    one = memory.run_bytes(pack, CPU)
    monkeypatch.setattr(memory, "_free_bytes", lambda place: int(20.5 * one))
    assert most_runs(pack, CPU) == 10
    monkeypatch.setattr(memory, "_free_bytes", lambda place: 0)
    assert most_runs(pack, CPU) == 1
    monkeypatch.setattr(memory, "_free_bytes", lambda place: int(1e12))
    assert most_runs(pack, CPU) == 40
    assert most_runs(pack_of(tiny("bytes-mlp"), 200), CPU) == 128


def test_memory_is_that_of_the_largest_batch(tiny: Callable[..., LoadedWorkload]) -> None:
    pack = pack_of(tiny("bytes-mlp"), 1)
    grows = replace(
        pack.recipe, steps=64, schedule="steps", drops=(0.5,), drop_factor=8, decay_by="batch"
    )
    found = {
        name: memory.run_bytes(replace(pack, recipe=recipe), CPU)
        for name, recipe in (
            ("grown", grows),
            ("small", replace(grows, decay_by="rate")),
            ("large", replace(pack.recipe, batch_size=32)),
        )
    }
    assert found["grown"] == found["large"] > found["small"]


def test_the_state_of_the_optimiser_is_counted(tiny: Callable[..., LoadedWorkload]) -> None:
    pack = pack_of(tiny("bytes-mlp"), 1)
    sizes = {
        name: memory.run_bytes(
            Pack(
                workload=pack.workload,
                size=pack.size,
                recipe=Recipe(batch_size=4, optimizer=name),
                cells=pack.cells,
            ),
            CPU,
        )
        for name in ("sgd", "adam")
    }
    n = pack.workload.n_params_total({"width": 8})
    assert sizes["adam"] - sizes["sgd"] == pytest.approx(1.2 * 4 * n)


def test_a_gpu_that_two_runs_do_not_fit_takes_one(
    tiny: Callable[..., LoadedWorkload], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(pack: Pack, place: torch.device) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(memory, "run_bytes", fail)
    assert most_runs(pack_of(tiny("bytes-mlp"), 4), CPU) == 1
