"""How much memory a pack needs, predicted before it starts."""

from __future__ import annotations

import gc
import math
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from torch.autograd.graph import saved_tensors_hooks

from extrap.training.packs import Pack
from extrap.training.stacks import Stack

OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "StreamCaptureInvalidated",
)
"""What other errors say of it: the CPU's allocator, cuBLAS, and a recording that it broke off."""

# A kill loses what is in training: no more runs than that at a time; beyond, none gets cheaper.
MOST_RUNS = {"cpu": 128, "cuda": 1024}
# Part of the free memory that the runs of one pack may take.
SHARE = {"cpu": 0.5, "cuda": 0.9}
# Resident over allocated: with it, predictions were .85 to 1.14 of what further runs took (glibc).
ALLOCATOR = 1.2
GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def most_runs(
    pack: Pack, place: torch.device, *, known: dict[Hashable, RunBytes] | None = None
) -> int:
    """How many of a pack's runs fit into the free memory together, at least one.

    Args:
        pack: The runs.
        place: Where they are to be trained.
        known: By kind of pack, what was found for packs of this workload; it is added to.
    """
    most = min(len(pack.cells), MOST_RUNS.get(place.type, MOST_RUNS["cuda"]))
    if most == 1:
        return 1
    known = {} if known is None else known
    free = SHARE.get(place.type, SHARE["cuda"]) * _free_bytes(place)
    if place.type == "cuda":
        free -= _data_bytes(pack)
    found = known.get(pack.kind())
    if found is None or (found.is_bound and most * found.n > free):
        found = known[pack.kind()] = run_bytes(pack, place, enough=free / most)
    return max(1, min(most, int(free / found.n)))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it was raised for want of memory, or while such an error was handled."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, torch.OutOfMemoryError) or any(
            w in str(found) for w in OUT_OF_MEMORY
        ):
            return True
        found = found.__context__
    return False


def free_cached(place: torch.device) -> None:
    """Give the memory of what is no longer used back to the device; call it outside `except`.

    An exception that is being handled keeps all that its frames name.
    """
    gc.collect()
    if place.type == "cuda":
        torch.cuda.empty_cache()


class RunBytes(NamedTuple):
    """Memory of each further run in a stack, or a bound on it."""

    n: float
    is_bound: bool = False


def run_bytes(pack: Pack, place: torch.device, *, enough: float = 0.0) -> RunBytes:
    """Predicted memory of each further run in a stack, with the largest batch of the run.

    On a CPU, counted in one step of one run: parameters, gradient, optimiser state, what the
    backward pass keeps, and once more its largest tensor. On a GPU, what two runs took beyond one
    in the allocator's own books; infinite if two do not fit.

    Args:
        pack: The runs.
        place: Where they are to be trained.
        enough: Bytes for each run that are there; if one run and all that runs share take no more
            on a GPU, that bound is the answer.
    """
    if place.type == "cuda":
        return _run_bytes_of_gpu(pack, place, enough)
    stack = Stack(replace(pack, cells=pack.cells[:1]), place)
    state, start = stack.state_bytes(), pack.recipes()[0].largest_from
    own = {tensor.untyped_storage().data_ptr() for tensor in stack.parameters().values()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        stack.advance(start, start + 1)
    return RunBytes(ALLOCATOR * (state + sum(kept.values()) + max(kept.values(), default=0)))


def _run_bytes_of_gpu(pack: Pack, place: torch.device, enough: float) -> RunBytes:
    try:
        one = _peak_bytes(pack, place, 1)
        if one <= enough:
            return RunBytes(one, is_bound=True)
        return RunBytes(max(1.0, float(_peak_bytes(pack, place, 2) - one)))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    free_cached(place)
    return RunBytes(math.inf)


def _peak_bytes(pack: Pack, place: torch.device, n_runs: int) -> int:
    """The most memory that some steps and an evaluation of so many runs take on a GPU."""
    cells = (pack.cells * n_runs)[:n_runs]
    torch.cuda.synchronize(place)
    before = torch.cuda.memory_allocated(place)
    torch.cuda.reset_peak_memory_stats(place)
    start = pack.recipes()[0].largest_from
    stack = Stack(replace(pack, cells=cells), place)
    stack.advance(start, start + 5)
    stack.evaluate(stack.n_evaluated_at_once)
    return torch.cuda.max_memory_allocated(place) - before


def _data_bytes(pack: Pack) -> int:
    """Of the data that all stacks of a pack share; on a CPU it is there already."""
    tensors = (*pack.workload.training, *pack.workload.validation)
    return sum(t.numel() * t.element_size() for t in tensors)


def _free_bytes(place: torch.device) -> float:
    if place.type == "cuda":
        cached = torch.cuda.memory_reserved(place) - torch.cuda.memory_allocated(place)
        return int(torch.cuda.mem_get_info(place)[0]) + cached
    return min(int(psutil.virtual_memory().available), _left_of_the_group())


def _left_of_the_group() -> float:
    """Bytes that a container or a batch job may still take; infinite where nobody says.

    References:
        Linux, "Control Group v2", "Memory Interface Files".
    """
    try:
        (own,) = (line[3:] for line in GROUP.read_text().splitlines() if line.startswith("0::"))
        place = GROUPS / own.lstrip("/")
        limit, used = ((place / f"memory.{name}").read_text() for name in ("max", "current"))
        stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
        return max(0, int(limit) - int(used) + int(stat["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no such group, no limit, another system
        return math.inf
