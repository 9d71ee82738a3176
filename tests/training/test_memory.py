import math
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from extrap.records import Cell, Recipe
from extrap.training import Pack, memory
from extrap.training.memory import most_runs
from extrap.training.stacks import Stack

CPU = torch.device("cpu")


def pack_of(workload, n_runs, width=8, **recipe):
    size = {"width": width}
    cells = tuple(Cell.of(size, {"lr": 2**-9}, seed) for seed in range(n_runs))
    return Pack(
        workload=workload, size=size, recipe=Recipe(**{"batch_size": 4, **recipe}), cells=cells
    )


class Counted(TorchDispatchMode):
    """Bytes of the tensors that are made in its block: held now, and the most at a time."""

    def __init__(self):
        super().__init__()
        self.held = self.most = 0
        self._known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return made

    def _add(self, storage):
        key, n_bytes = storage.data_ptr(), storage.nbytes()
        if n_bytes and key not in self._known:
            self._known.add(key)
            self.held += n_bytes
            self.most = max(self.most, self.held)
            weakref.finalize(storage, self._drop, key, n_bytes)

    def _drop(self, key, n_bytes):
        self._known.remove(key)
        self.held -= n_bytes


def peak_bytes(pack):
    """The most that tensors take at a time, from the start of a stack to its third update."""
    with Counted() as counted:
        Stack(pack, CPU).advance(0, 3)
    return counted.most


@pytest.mark.parametrize(
    ("name", "width", "recipe"),
    [
        ("bytes-mlp", 64, {}),
        ("bytes-mlp", 512, {}),
        ("bytes-transformer", 32, {}),
    ],
)
def test_bytes_of_further_runs_are_predicted_within_a_quarter(tiny, name, width, recipe):
    """Against the tensors of five runs beyond those of one; data and buffers are in both."""
    packs = [pack_of(tiny(name), n, width, batch_size=64, **recipe) for n in (1, 5)]
    one, five = map(peak_bytes, packs)
    predicted = memory.run_bytes(packs[0], CPU).n / memory.ALLOCATOR
    assert 0.8 < 4 * predicted / (five - one) < 1.25


def test_a_pack_takes_no_more_than_its_share_of_what_is_free(tiny, monkeypatch):
    workload = tiny("bytes-mlp")
    pack = pack_of(workload, 40)
    one = memory.run_bytes(pack, CPU).n
    for free, expected in ((20.5 * one, 10), (0, 1), (1e12, 40)):
        monkeypatch.setattr(memory, "_free_bytes", lambda place, free=free: int(free))
        assert most_runs(pack, CPU) == expected
    assert most_runs(pack_of(workload, 200), CPU) == 128


def test_memory_is_that_of_the_largest_batch_and_of_the_state_of_the_optimiser(tiny):
    workload = tiny("bytes-mlp")
    grows = {"steps": 64, "schedule": "steps", "drops": (0.5,), "drop_factor": 8}
    grown, small, large, sgd = (
        memory.run_bytes(pack_of(workload, 1, **recipe), CPU).n
        for recipe in (
            {**grows, "decay_by": "batch"},
            {**grows, "decay_by": "rate"},
            {"batch_size": 32},
            {"optimizer": "sgd"},
        )
    )
    assert grown == large > small
    n = workload.n_params_total({"width": 8})
    assert small - sgd == pytest.approx(memory.ALLOCATOR * 4 * n)  # Adam has one moment more


GPU = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch):
    """Books of a GPU's memory: a stack of n runs takes 100 + 10 n bytes; what was measured."""
    measured = []

    def peak(pack, place, n_runs):
        measured.append(n_runs)
        if 100 + 10 * n_runs > gpu.room:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")
        return 100 + 10 * n_runs

    gpu = SimpleNamespace(room=math.inf, measured=measured)
    monkeypatch.setattr(memory, "_peak_bytes", peak)
    monkeypatch.setattr(memory, "_data_bytes", lambda pack: 0)
    monkeypatch.setattr(memory, "_free_bytes", lambda place: int(min(gpu.room, 1e9) / 0.9 + 1))
    monkeypatch.setattr(memory, "free_cached", lambda place: None)
    return gpu


def test_a_gpu_that_two_runs_do_not_fit_takes_one(tiny, gpu):
    gpu.room = 110
    assert most_runs(pack_of(tiny("bytes-mlp"), 4), GPU) == 1
    assert gpu.measured == [1, 2]


def test_memory_of_a_kind_of_pack_is_measured_once_and_only_if_it_is_a_question(tiny, gpu):
    workload, known = tiny("bytes-mlp"), {}
    gpu.room = 110 * 8
    for n_runs, most, measured in (
        (8, 8, [1]),  # eight times all that one run takes fit
        (6, 6, [1]),
        (60, 60, [1, 1, 2]),
        (90, 88, [1, 1, 2]),
    ):
        assert most_runs(pack_of(workload, n_runs), GPU, known=known) == most
        assert gpu.measured == measured
    most_runs(pack_of(workload, 90, width=16), GPU, known=known)
    most_runs(pack_of(workload, 90, batch_size=8), GPU, known=known)
    assert gpu.measured == [1, 1, 2, 1, 2, 1, 2]


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
