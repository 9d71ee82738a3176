"""CUDA graphs on the pretended device: kernels are kept, and run again by every replay."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from tests.pretended_cuda.device import CARD, Memory, PretendedTensor

Call = tuple[torch._ops.OpOverload, Sequence[Any], dict[str, Any], Any]
"""An operation, its arguments by position and by name, and its result, all on the CPU."""


class Given(NamedTuple):
    """Memory that the recorded operations read and did not make."""

    memory: weakref.ref[Memory]
    shape: torch.Size
    storage: torch.UntypedStorage
    before: torch.UntypedStorage


class Recording:
    """What a graph holds."""

    def __init__(self) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._calls: list[Call] = []
        self._given: dict[int, Given] = {}
        self._made: dict[int, torch.Tensor] = {}
        self._pool: list[Memory | None] = []
        self._peak, CARD.peak = CARD.peak, CARD.allocated

    def read(self, tensors: Sequence[PretendedTensor], device: torch.device) -> None:
        """Remember what an operation on a device is about to read, and write."""
        if device != self._device:
            raise RuntimeError(f"recording on {self._device}, operation on {device}")
        for tensor in tensors:
            storage = tensor.on_cpu.untyped_storage()
            address = storage.data_ptr()
            if address and address not in self._made and address not in self._given:
                before, memory = storage.clone(), weakref.ref(tensor.memory)
                self._given[address] = Given(memory, tensor.shape, storage, before)

    def add(self, call: Call, *, is_kernel: bool) -> None:
        """Keep an operation, which was done for the shape of its result."""
        if is_kernel:
            self._calls.append(call)
        for made in _tensors(call[-1]):
            if (address := made.untyped_storage().data_ptr()) not in self._given:
                self._made.setdefault(address, made)

    def end(self) -> None:
        """Undo what was computed, and hold the memory that the operations took together."""
        for given in self._given.values():
            given.storage.copy_(given.before)
        for made in self._made.values():
            if made.is_floating_point():
                made.fill_(math.nan)
        self._pool = [CARD.memories.get(address) for address in self._made]
        self._pool.append(Memory(CARD, CARD.peak - CARD.allocated))
        CARD.peak = max(self._peak, CARD.peak)

    def replay(self) -> None:
        """Do what was recorded; an error where it would read memory that was freed."""
        freed = [given.shape for given in self._given.values() if given.memory() is None]
        if freed:
            raise RuntimeError(f"a replay reads freed memory, of tensors of shapes {freed}")
        for operation, args, kwargs, result in self._calls:
            again = operation(*args, **kwargs)
            for kept, value in zip(_tensors(result), _tensors(again), strict=True):
                if kept.untyped_storage().data_ptr() != value.untyped_storage().data_ptr():
                    kept.copy_(value)


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


class Graph:
    """Stands for `torch.cuda.CUDAGraph`."""

    recording: Recording | None = None

    def replay(self) -> None:
        """Do what was recorded."""
        assert self.recording is not None, "nothing is recorded"
        CARD.replays += 1
        self.recording.replay()


class Capture:
    """Stands for `torch.cuda.graph`."""

    def __init__(self, cuda_graph: Graph, *_: Any, **__: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        CARD.wait("capture")
        CARD.captures += 1
        CARD.recording = Recording()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert CARD.recording is not None
        recording, CARD.recording = CARD.recording, None
        recording.end()
        if kind is not None:
            raise RuntimeError(
                "CUDA error: operation failed due to a previous error during capture "
                "(StreamCaptureInvalidated)"
            )
        self._graph.recording = recording
