"""Tensors on the pretended device, and what every operation on them does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.pretended_cuda.card import CARD

CPU = torch.device("cpu")
COPIES = {"copy_", "_to_copy"}
READS = {"_local_scalar_dense", "equal", "is_nonzero"}
"""Operations whose result is a number, which the CPU waits for."""
SHAPED_BY_VALUES = {"masked_select", "nonzero", "repeat_interleave", "_unique2"}
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
NO_KERNEL = {
    *("_fused_sdp_choice", "_unsafe_view", "empty", "empty_like", "empty_strided", "new_empty"),
    *("new_empty_strided", *READS),
}


class PretendedTensor(torch.Tensor):
    """A tensor that says it is on a CUDA device, around one on the CPU."""

    values: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor, device: torch.device) -> PretendedTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=device,
        )
        made.values = values
        made.memory = CARD.memory_of(values)
        return made

    def __repr__(self) -> str:
        return f"{self.values}, on {self.device}"

    def tolist(self) -> Any:
        """Through a copy on the CPU: the original reads memory that this tensor does not have."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls,
        operation: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return run(operation, *args, **kwargs or {})


def run(operation: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Do one operation that has a tensor on the device, or makes one.

    Raises:
        RuntimeError: It breaks a rule of CUDA.
        torch.OutOfMemoryError: There is no memory for the result.
    """
    name = operation._schema.name.removeprefix("aten::")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    own = [tensor for tensor in tensors if isinstance(tensor, PretendedTensor)]
    device = own[0].device if own else _device_of(kwargs["device"])
    to = _device_of(kwargs.get("device") or device)
    indices = args[1] if name in INDEXING else ()
    if name not in COPIES:
        _require_one_device(name, device, tensors, indices)
    elif CPU in (to, *(tensor.device for tensor in tensors)):
        CARD.wait(name)
    if name in READS or name in SHAPED_BY_VALUES or any(map(_is_awaited, indices)):
        CARD.wait(name)
    is_kernel = not _is_view(operation) and name not in NO_KERNEL
    if is_kernel:
        CARD.launch(name)
    values = tree_map_only(PretendedTensor, lambda tensor: tensor.values, args)
    named = tree_map_only(PretendedTensor, lambda tensor: tensor.values, kwargs)
    named.update({"device": CPU} if "device" in named else {})
    named.update({"pin_memory": False} if "pin_memory" in named else {})
    if CARD.recording is None:
        result = operation(*values, **named)
    else:
        result = CARD.recording.run(
            operation, values, named, own=own, device=to, is_kernel=is_kernel
        )
    if any(tensor.values.shape != tensor.shape for tensor in own):
        raise NotImplementedError(f"{name} resizes a tensor, which is not pretended")
    if to == CPU:
        return result
    known = {id(tensor.values): tensor for tensor in own}  # an operation in place returns its own

    def wrap(made: torch.Tensor) -> PretendedTensor:
        return known[id(made)] if id(made) in known else PretendedTensor(made, to)

    return tree_map_only(torch.Tensor, wrap, result)


def _device_of(given: Any) -> torch.device:
    device = torch.device(given)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _is_view(operation: torch._ops.OpOverload) -> bool:
    aliases = [result.alias_info for result in operation._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _is_awaited(index: torch.Tensor | None) -> bool:
    """Whether an index has to be copied to the device, or be counted."""
    return index is not None and (index.device == CPU or index.dtype == torch.bool)


def _require_one_device(
    name: str,
    device: torch.device,
    tensors: Sequence[torch.Tensor],
    indices: Sequence[torch.Tensor | None],
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
