"""What stands for the parts of PyTorch that a CPU build lacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from tests.pretended_cuda.device import CARD, run
from tests.pretended_cuda.graphs import Capture, Graph

# Their kernels for all devices call one that only a CUDA build has, or resize an empty tensor.
OWN = ("copy_", "arange", "arange.start", "arange.start_step", "eye", "linspace", "randperm")
KERNELS = [torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")]


class Stream:
    """Stands for `torch.cuda.Stream`: everything happens in the order in which it is asked for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to do: operations run in the order in which they are called."""

    def synchronize(self) -> None:
        """Wait for the card."""
        CARD.wait("synchronize")


def stand_in(exchange_device: Callable[[int], int]) -> None:
    """Put it in place, for the rest of this process.

    Args:
        exchange_device: As `guard.cpp` has it.
    """
    every, aten = KERNELS
    every.fallback(run, "CUDA")
    for name in OWN:
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
        aten.impl(name, partial(run, operation), "CUDA")
    # a parameter of the CPU cannot take the data of a tensor of another class, only its place
    torch.__future__.set_swap_module_params_on_conversion(True)
    stand_ins: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": lambda: None,
        "is_bf16_supported": lambda *_, **__: True,
        "get_device_name": lambda *_: "pretended device",
        "device_count": lambda: 2,
        "current_device": lambda: exchange_device(-1),
        "_exchange_device": exchange_device,
        "_maybe_exchange_device": exchange_device,
        "CUDAGraph": Graph,
        "graph": Capture,
        "Stream": Stream,
        "current_stream": Stream,
        "stream": nullcontext,
        "set_stream": lambda _: None,
        "synchronize": lambda *_: CARD.wait("synchronize"),
        "empty_cache": lambda: None,
        "memory_allocated": lambda *_: CARD.allocated,
        "memory_reserved": lambda *_: CARD.allocated,
        "max_memory_allocated": lambda *_: CARD.peak,
        "reset_peak_memory_stats": lambda *_: setattr(CARD, "peak", CARD.allocated),
        "mem_get_info": lambda *_: (CARD.limit - CARD.allocated, CARD.limit),
    }
    for name, replacement in stand_ins.items():
        setattr(torch.cuda, name, replacement)
