import math

import pytest
import torch

from extrap.records import Cell, Recipe
from extrap.training import Pack, memory
from extrap.training.memory import most_runs

CPU = torch.device("cpu")


def pack_of(workload, n_runs, width=8, **recipe):
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": 2**-9}, seed) for seed in range(n_runs))
    return Pack(
        workload=workload, size=size, recipe=Recipe(**{"batch_size": 4, **recipe}), cells=cells
    )


def test_a_pack_takes_no_more_than_its_share_of_what_is_free(tiny, monkeypatch):
    workload = tiny("bytes-mlp")
    pack = pack_of(workload, 40)
    one = memory.run_bytes(pack)
    for free, expected in ((20.5 * one, 18), (0, 1), (1e12, 40)):
        monkeypatch.setattr(memory, "_free_bytes", lambda place, free=free: int(free))
        assert most_runs(pack, CPU) == expected
    assert most_runs(pack_of(workload, 200), CPU) == 128


@pytest.mark.parametrize(
    ("limit", "left"), [("1000", 1000 - 700 + 200), ("600", 100), ("100", 0), ("max", math.inf)]
)
def test_a_container_may_take_less_than_the_machine_has(limit, left, tmp_path, monkeypatch):
    (tmp_path / "own").write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    told = {"max": limit, "current": "700", "stat": "anon 500\ninactive_file 200"}
    for name, text in told.items():
        (tmp_path / "job" / f"memory.{name}").write_text(text)
    monkeypatch.setattr(memory, "GROUP", tmp_path / "own")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory._left_of_the_group() == left
    assert memory._free_bytes(CPU) <= left


def test_memory_is_that_of_the_largest_batch(tiny):
    workload = tiny("bytes-mlp")
    grows = {"steps": 64, "schedule": "steps", "drops": (0.5,), "drop_factor": 8}
    grown, small, large = (
        memory.run_bytes(pack_of(workload, 1, **recipe))
        for recipe in (
            {**grows, "decay_by": "batch"},
            {**grows, "decay_by": "rate"},
            {"batch_size": 32},
        )
    )
    assert grown == large > small


def test_errors_for_want_of_memory_are_told_from_others():
    hidden = RuntimeError("operation failed during capture")
    hidden.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    for error in (
        hidden,
        torch.OutOfMemoryError("?"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: StreamCaptureInvalidated"),
    ):
        assert memory.is_out_of_memory(error)
    assert not memory.is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
