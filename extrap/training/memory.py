"""How many runs of a pack fit into memory, and which errors mean that it is full."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import psutil
import torch

from extrap.training.cores import n_cores
from extrap.training.packs import Pack
from extrap.workloads.workload import build_without_memory

OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "StreamCaptureInvalidated",
)
"""What other errors say of it: the CPU's allocator, cuBLAS, and a recording that it broke off."""
MOST_RUNS_TOGETHER = {"cpu": 128, "cuda": 1024}
"""A kill loses what is in training; beyond so many runs at a time, none gets cheaper."""
FREE_MEMORY_SHARE = 0.9
"""Part of the free memory that the runs of one pack may take; on a CPU, of a core's part of it."""
GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The file that names the control group of this process, and the folder of all groups."""
PARAMETER_COPIES, OUTPUT_COPIES = 6, 4
"""Tensors as large as the parameters: these, gradients, two moments, two of the update; and as
large as the output of a layer, forward and backward."""


def most_runs(pack: Pack, device: torch.device) -> int:
    """How many of a pack's runs fit into the free memory together, at least one.

    It is an estimate; a pack that runs out of memory is halved, on a CPU when it was lost twice.
    """
    most = min(len(pack.cells), MOST_RUNS_TOGETHER.get(device.type, MOST_RUNS_TOGETHER["cuda"]))
    free = FREE_MEMORY_SHARE * _free_bytes(device)
    if device.type == "cuda":
        tensors = (*pack.workload.training, *pack.workload.validation)
        free -= sum(t.numel() * t.element_size() for t in tensors)
    return max(1, min(most, int(free / run_bytes(pack))))


def run_bytes(pack: Pack) -> int:
    """Estimated memory of each run in a stack, with the largest batch of the run.

    A parameter of k outputs makes k numbers per predicted token; in a convolution, which has more
    than two axes, per number of an input.
    """
    workload, recipe = pack.workload, pack.recipes()[0]
    module = build_without_memory(workload.build, pack.model_size())
    shapes = [p.shape for p in module.parameters()]
    n_tokens, n_inputs = workload.tokens_per_example, workload.validation[0][0].numel()
    outputs = sum(s[0] * (n_inputs if len(s) > 2 else n_tokens) for s in shapes if len(s) > 1)
    batch = recipe.phase_at(recipe.largest_from).batch_size
    return 4 * (PARAMETER_COPIES * sum(map(math.prod, shapes)) + OUTPUT_COPIES * batch * outputs)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it was raised for want of memory, or while such an error was handled."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, torch.OutOfMemoryError) or any(
            w in str(cause) for w in OUT_OF_MEMORY
        ):
            return True
        cause = cause.__context__
    return False


def free_cached(device: torch.device) -> None:
    """Give the memory of what is no longer used back to the device; call it outside `except`.

    An exception that is being handled keeps all that its frames name.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _free_bytes(device: torch.device) -> float:
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return int(min(psutil.virtual_memory().available, _left_of_the_group()) / n_cores())


def _left_of_the_group() -> float:
    """Bytes that a container or a batch job may still take; infinite where nobody says.

    References:
        Linux, "Control Group v2", "Memory Interface Files".
    """
    try:
        (group,) = (line[3:] for line in GROUP.read_text().splitlines() if line.startswith("0::"))
        folder = GROUPS / group.lstrip("/")
        limit, used = ((folder / f"memory.{name}").read_text() for name in ("max", "current"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, int(limit) - int(used) + int(stat["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no such group, no limit, another system
        return math.inf
