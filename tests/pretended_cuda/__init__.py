"""A pretended CUDA device on a CPU build of PyTorch: the values are real, the rules are CUDA's.

`pytest --device pretended` runs the tests of the GPU path on a computer without a GPU. Tensors say
that they are on `cuda:0` or `cuda:1`; their values are in the memory of the CPU. The device
enforces that

* one operation does not mix devices,
* nothing waits for the device while a CUDA graph is recorded, and nothing is computed then,
* a graph is recorded on the device that its tensors are on,
* a replay does not read memory that was freed after the recording,
* tensors and recordings fit into the memory of the device, or `torch.OutOfMemoryError` is raised.

It counts kernels, those launched one by one apart from those recorded, replays, and how often the
CPU waits for the device (`Card`). One ATen operation that is not a view counts as one kernel.

It does not show what CUDA's own kernels compute, TF32, time, the order of streams, pinned memory,
the workspaces of cuBLAS or the cache of the allocator. Both devices share one memory, and every
copy from or to the CPU counts as a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.pretended_cuda.guard import GuardError, load_guard

if TYPE_CHECKING:
    from tests.pretended_cuda.device import Card

__all__ = ["GuardError", "begin_process", "install"]


def install() -> Card:
    """Pretend that there are CUDA devices, for the rest of this process.

    Raises:
        GuardError: There is no C++ compiler, or it fails, or PyTorch is imported already.
    """
    guard = load_guard()
    from tests.pretended_cuda.device import CARD
    from tests.pretended_cuda.stand_ins import stand_in

    stand_in(guard.exchange_device)
    return CARD


def begin_process() -> None:
    """Begin a worker: a device into which only three runs fit."""
    install()
    import torch

    from extrap.training import parts
    from extrap.training.stacks import Stack

    class SmallStack(Stack):
        def advance(self, start: int, stop: int) -> list[int | None]:
            if len(self) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
            return super().advance(start, stop)

    setattr(parts, "Stack", SmallStack)  # noqa: B010
