"""How much memory a pack needs, predicted before it starts."""

from __future__ import annotations

from dataclasses import replace

import psutil
import torch
from torch.autograd.graph import saved_tensors_hooks

from extrap.training.packs import Pack
from extrap.training.stacks import Stack

__all__ = ["most_runs", "run_bytes"]

# A kill loses what is in training: no more runs than that at a time; beyond, none gets cheaper.
MOST_RUNS = {"cpu": 128, "cuda": 1024}
# Part of the free memory that the runs of one pack may take.
SHARE = {"cpu": 0.5, "cuda": 0.9}
# Resident over allocated: with it, predictions were .85 to 1.14 of what further runs took (glibc).
ALLOCATOR = 1.2


def most_runs(pack: Pack, place: torch.device) -> int:
    """How many of a pack's runs fit into the free memory together, at least one."""
    most = min(len(pack.cells), MOST_RUNS.get(place.type, MOST_RUNS["cuda"]))
    if most == 1:
        return 1
    room = SHARE.get(place.type, SHARE["cuda"]) * _free_bytes(place)
    if place.type == "cuda":
        room -= _data_bytes(pack)
    try:
        return max(1, min(most, int(room / run_bytes(pack, place))))
    except torch.OutOfMemoryError:  # two runs do not fit together
        torch.cuda.empty_cache()
        return 1


def run_bytes(pack: Pack, place: torch.device) -> float:
    """Predicted memory of each further run in a stack, with the largest batch of the run.

    On a CPU, counted in one step of one run: parameters, gradient, optimiser state, what the
    backward pass keeps, and once more its largest tensor. On a GPU, what two runs took beyond one
    in the allocator's own books.
    """
    if place.type == "cuda":
        return max(1.0, float(_peak_bytes(pack, place, 2) - _peak_bytes(pack, place, 1)))
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
    return ALLOCATOR * (state + sum(kept.values()) + max(kept.values(), default=0))


def _peak_bytes(pack: Pack, place: torch.device, n_runs: int) -> int:
    """The most memory that a few steps of so many runs take on a GPU."""
    cells = (pack.cells * n_runs)[:n_runs]
    torch.cuda.synchronize(place)
    before = torch.cuda.memory_allocated(place)
    torch.cuda.reset_peak_memory_stats(place)
    start = pack.recipes()[0].largest_from
    Stack(replace(pack, cells=cells), place).advance(start, start + 5)
    return torch.cuda.max_memory_allocated(place) - before


def _data_bytes(pack: Pack) -> int:
    """Of the data that all stacks of a pack share; on a CPU it is there already."""
    tensors = (*pack.workload.training, *pack.workload.validation)
    return sum(t.numel() * t.element_size() for t in tensors)


def _free_bytes(place: torch.device) -> int:
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[0])
    return int(psutil.virtual_memory().available)
