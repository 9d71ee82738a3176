"""The state of the pretended device: its memory, what it counted, and the recording under way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch

if TYPE_CHECKING:
    from tests.pretended_cuda.recordings import Recording

MEMORY = 80 * 2**30
BLOCK = 512
"""Bytes that memory is given out in, as by PyTorch's allocator."""


class Card:
    """What the device holds and has done.

    Attributes:
        limit: Bytes of its memory.
        allocated: Bytes that tensors and recordings hold.
        peak: The most bytes held at a time since the last reset.
        kernels: Kernels launched one by one, by the name of the operation.
        recorded: Kernels recorded, by the name of the operation.
        captures: Recordings begun.
        replays: Recordings replayed.
        syncs: How often the CPU waited for the device, by the name of the operation.
        recording: The recording under way.
    """

    def __init__(self) -> None:
        self.allocated = 0
        self.recording: Recording | None = None
        self._memories: WeakValueDictionary[int, Memory] = WeakValueDictionary()
        self.reset()

    def reset(self) -> None:
        """Count from 0 again and lift the limit; what is allocated stays."""
        self.limit, self.peak = MEMORY, self.allocated
        self.kernels: Counter[str] = Counter()
        self.recorded: Counter[str] = Counter()
        self.captures = self.replays = 0
        self.syncs: Counter[str] = Counter()

    def wait(self, name: str) -> None:
        """The CPU waits for the device, which it must not while a graph is recorded."""
        if self.recording is not None:
            raise RuntimeError(
                f"CUDA error: operation not permitted when stream is capturing ({name})"
            )
        self.syncs[name] += 1

    def launch(self, name: str) -> None:
        """A kernel is launched, or recorded."""
        (self.kernels if self.recording is None else self.recorded)[name] += 1

    def memory_at(self, address: int) -> Memory | None:
        """The memory at an address of the CPU's memory, if a tensor holds it."""
        return self._memories.get(address)

    def memory_of(self, values: torch.Tensor) -> Memory:
        """The memory that a tensor's values take, shared by all tensors of one storage."""
        storage = values.untyped_storage()
        address = storage.data_ptr()
        memory = self._memories.get(address)
        if memory is None:
            memory = Memory(self, storage.nbytes())
            if address:
                self._memories[address] = memory
        return memory


class Memory:
    """A piece of the device's memory, held as long as this object is referred to."""

    def __init__(self, card: Card, n_bytes: int) -> None:
        self._card, self._n_bytes = card, 0
        n_bytes = -(-n_bytes // BLOCK) * BLOCK
        if card.allocated + n_bytes > card.limit:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {n_bytes} bytes; {card.allocated} of "
                f"{card.limit} are allocated (pretended)."
            )
        self._n_bytes = n_bytes
        card.allocated += n_bytes
        card.peak = max(card.peak, card.allocated)

    def __del__(self) -> None:
        self._card.allocated -= self._n_bytes


CARD = Card()
"""The one device of this process."""
