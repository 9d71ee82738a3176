"""The pretended device: its memory, its tensors, and what every operation on them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch.nn.attention import SDPBackend
from torch.utils._pytree import tree_leaves, tree_map_only

if TYPE_CHECKING:
    from tests.pretended_cuda.graphs import Recording

CPU = torch.device("cpu")
MEMORY = 80 * 2**30
BLOCK = 512
"""Bytes that memory is given out in, as by PyTorch's allocator."""
COPIES = {"copy_", "_to_copy"}
READS = {"_local_scalar_dense", "equal", "is_nonzero"}
SHAPED_BY_VALUES = {"masked_select", "nonzero", "repeat_interleave", "_unique2"}
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
NO_KERNEL = {*READS, *EMPTY, "_unsafe_view"}


class Card:
    """What the device holds and has done.

    Attributes:
        limit: Bytes of its memory.
        allocated: Bytes that tensors and recordings hold.
        peak: The most bytes held at a time since the last reset.
        memories: Address of the values on the CPU → memory of the device.
        kernels: Kernels launched one by one, by the name of the operation.
        recorded: Kernels recorded, by the name of the operation.
        captures: Recordings begun.
        replays: Recordings replayed.
        syncs: How often the CPU waited for the device, by the name of the operation.
        recording: The recording under way.
    """

    def __init__(self) -> None:
        self.allocated = 0
        self.memories: WeakValueDictionary[int, Memory] = WeakValueDictionary()
        self.recording: Recording | None = None
        self.reset()

    def reset(self) -> None:
        """Count from 0 again, with the usual limit; what is allocated stays."""
        self.limit, self.peak = MEMORY, self.allocated
        self.kernels, self.recorded, self.syncs = Counter[str](), Counter[str](), Counter[str]()
        self.captures = self.replays = 0

    def wait(self, name: str) -> None:
        """The CPU waits for the device, which it must not while a graph is recorded."""
        if self.recording is not None:
            raise RuntimeError(
                f"CUDA error: operation not permitted when stream is capturing ({name})"
            )
        self.syncs[name] += 1

    def memory_of(self, values: torch.Tensor) -> Memory:
        """The memory that values take, shared by all tensors of one storage."""
        storage = values.untyped_storage()
        memory = self.memories.get(storage.data_ptr())
        if memory is None:
            memory = Memory(self, storage.nbytes())
            if storage.data_ptr():
                self.memories[storage.data_ptr()] = memory
        return memory


class Memory:
    """A piece of the device's memory, held as long as something refers to this object."""

    def __init__(self, card: Card, n_bytes: int) -> None:
        self._card, self._n_bytes = card, 0
        n_bytes = -(-n_bytes // BLOCK) * BLOCK
        if card.allocated + n_bytes > card.limit:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory (pretended). Tried to allocate {n_bytes} bytes; "
                f"{card.allocated} of {card.limit} are allocated."
            )
        self._n_bytes = n_bytes
        card.allocated += n_bytes
        card.peak = max(card.peak, card.allocated)

    def __del__(self) -> None:
        self._card.allocated -= self._n_bytes


CARD = Card()
"""The pretended device of this process."""


class PretendedTensor(torch.Tensor):
    """A tensor that says it is on a CUDA device; its values are in a tensor on the CPU."""

    on_cpu: torch.Tensor
    memory: Memory
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, on_cpu: torch.Tensor, device: torch.device) -> PretendedTensor:
        made: PretendedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            on_cpu.size(),
            strides=on_cpu.stride(),
            storage_offset=on_cpu.storage_offset(),
            dtype=on_cpu.dtype,
            device=device,
        )
        made.on_cpu, made.memory = on_cpu, CARD.memory_of(on_cpu)
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{self.on_cpu}, on {self.device}"

    def data_ptr(self) -> int:
        """Address of its values."""
        return self.on_cpu.data_ptr()

    def tolist(self) -> Any:
        """Through a copy on the CPU: the original reads memory that this tensor does not have."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: torch._ops.OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return run(operation, *args, **kwargs or {})


def run(operation: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Do one operation that has a tensor on the device, or makes one.

    Raises:
        RuntimeError: It breaks a rule of CUDA.
        torch.OutOfMemoryError: There is no memory for the result.
    """
    name = operation._schema.name.removeprefix("aten::")
    if name == "_fused_sdp_choice":  # the other kernels are for CUDA, or for the CPU, alone
        return SDPBackend.MATH.value
    own = [t for t in tree_leaves((args, kwargs)) if isinstance(t, PretendedTensor)]
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    device = own[0].device if own else _device_of(kwargs["device"])
    to = args[0].device if name == "copy_" else _device_of(kwargs.get("device") or device)
    indices = args[1] if name in INDEXING else ()
    if name not in COPIES:
        _require_one_device(name, device, tensors, indices)
    elif CPU in (to, *(tensor.device for tensor in tensors)):
        CARD.wait(name)
    if name in READS | SHAPED_BY_VALUES or any(map(_is_awaited, indices)):
        CARD.wait(name)
    is_kernel = not _is_view(operation) and name not in NO_KERNEL
    if is_kernel:
        (CARD.kernels if CARD.recording is None else CARD.recorded)[name] += 1
    args, kwargs = tree_map_only(PretendedTensor, lambda tensor: tensor.on_cpu, (args, kwargs))
    kwargs |= {"device": CPU} if "device" in kwargs else {}
    kwargs |= {"pin_memory": False} if "pin_memory" in kwargs else {}
    if CARD.recording is None:
        result = operation(*args, **kwargs)
    else:
        CARD.recording.read(own, to)
        result = operation(*args, **kwargs)
        CARD.recording.add((operation, args, kwargs, result), is_kernel=is_kernel)
    if any(tensor.on_cpu.shape != tensor.shape for tensor in own):
        raise RuntimeError(f"{name} resizes a tensor, which is not pretended")
    known = {id(tensor.on_cpu): tensor for tensor in own}  # an operation in place returns its own

    def wrap(made: torch.Tensor) -> PretendedTensor:
        return known[id(made)] if id(made) in known else PretendedTensor(made, to)

    return result if to == CPU else tree_map_only(torch.Tensor, wrap, result)


def _device_of(given: Any) -> torch.device:
    device = torch.device(given)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _is_view(operation: torch._ops.OpOverload) -> bool:
    aliases = [result.alias_info for result in operation._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _is_awaited(index: torch.Tensor | None) -> bool:
    """Whether an index has to be copied to the device, or its values to be counted."""
    return index is not None and (index.device == CPU or index.dtype == torch.bool)


def _require_one_device(
    name: str, device: torch.device, tensors: Sequence[torch.Tensor], indices: Sequence[Any]
) -> None:
    """Numbers and indices may be on the CPU, all else must be on one device."""
    may_be_on_cpu = {id(index) for index in indices}
    for tensor in tensors:
        is_free = tensor.dim() == 0 or id(tensor) in may_be_on_cpu
        if tensor.device != device and not (tensor.device == CPU and is_free):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{device} and {tensor.device}! ({name}, {tuple(tensor.shape)})"
            )
