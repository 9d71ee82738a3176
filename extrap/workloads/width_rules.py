"""Width rules: how initialisation and learning rates scale with width, tensor by tensor.

| tensor | grows with width | initial sd under muP | rate under muP: Adam | Muon | SGD |
|---|---|---|---|---|---|
| hidden matrix | both sides | as PyTorch: 1 / √fan-in | 1 / m | 1 / √m | 1 |
| input matrix, embedding, bias, gain | the side of its outputs | constant | 1 | 1 | m |
| output matrix | the side of its inputs | 1 / fan-in | 1 / m | 1 / m | 1 / m |
| anything else | nothing | constant | 1 | 1 | 1 |

m is the width over the base width, where nothing changes. The standard rule changes nothing ever.
Muon's 1 / √m is for the matrices it orthogonalises: their update has a spectral norm of √width,
where Adam's has width, and muP wants it constant. Only an `nn.Embedding` is known for a table; one
that is a bare parameter passes for an output matrix.

References:
    Yang, Hu et al. 2022, "Tensor Programs V", arXiv 2203.03466, Table 3. Yang, Simon,
    Bernstein 2023, "A spectral condition for feature learning", arXiv 2310.17813, Condition 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import nn

from extrap.workloads.workload import build_without_memory, embedding_tables

WIDTH_COLUMN = "width"
"""The size column that width rules scale by."""
INPUT_ROLE, HIDDEN_ROLE, OUTPUT_ROLE, FIXED_ROLE = "input", "hidden", "output", "fixed"
"""What of a tensor grows with the width: its outputs, both sides, its inputs, nothing."""

Build = Callable[[Mapping[str, float]], nn.Module]


class TensorRule(NamedTuple):
    """What happens to one parameter tensor."""

    role: str  # "input", "hidden", "output" or "fixed"
    init: float = 1.0  # multiple of its initial values
    rate: float = 1.0  # multiple of its learning rate


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    is_table: bool
    weight: str  # of the same layer, if it is the bias of a linear or convolutional one


def tensor_roles(build: Build, size: Mapping[str, float]) -> dict[str, str]:
    """Parameter name → role, from the shapes at a size and at twice its width.

    A model without a `width` among its sizes has only fixed tensors.
    """
    here = _tensors(build, size)
    if WIDTH_COLUMN not in size:
        return dict.fromkeys(here, FIXED_ROLE)
    wider = _tensors(build, {**size, WIDTH_COLUMN: 2 * size[WIDTH_COLUMN]})
    return {name: _role(tensor, wider[name].shape) for name, tensor in here.items()}


def width_rules(
    build: Build,
    size: Mapping[str, float],
    *,
    parametrization: str,
    base_width: float,
    optimizer: str,
) -> dict[str, TensorRule]:
    """Parameter name → rule, in the order of the model's parameters.

    Args:
        build: Builds the model of a size; called on the meta device, so nothing is allocated.
        size: Size column → value.
        parametrization: `"standard"` or `"mup"`.
        base_width: Width at which muP changes nothing.
        optimizer: `"sgd"`, `"adam"`, `"adamw"` or `"muon"`.

    Raises:
        ValueError: muP is asked for, and the size has no `width`.
    """
    roles = tensor_roles(build, size)
    if parametrization == "standard":
        return {name: TensorRule(role) for name, role in roles.items()}
    if WIDTH_COLUMN not in size:
        raise ValueError(
            f"muP needs the size column {WIDTH_COLUMN!r}, got {sorted(size)}; rename it, or use "
            "parametrization='standard'."
        )
    m = size[WIDTH_COLUMN] / base_width
    rates = {
        INPUT_ROLE: m if optimizer == "sgd" else 1.0,
        HIDDEN_ROLE: 1.0 if optimizer == "sgd" else 1.0 / m,
        OUTPUT_ROLE: 1.0 / m,
        FIXED_ROLE: 1.0,
    }
    rules = {}
    for name, (shape, _, weight) in _tensors(build, size).items():
        role = roles[name]
        init = 1.0 / math.sqrt(m) if role == OUTPUT_ROLE else 1.0
        if roles.get(weight) in (HIDDEN_ROLE, OUTPUT_ROLE):
            # PyTorch draws weights and biases of a layer with an sd of 1 / √fan-in, which grows
            init = math.sqrt(m)
        by_muon = optimizer == "muon" and is_orthogonalized(role, len(shape))
        rules[name] = TensorRule(role, init, 1.0 / math.sqrt(m) if by_muon else rates[role])
    return rules


def is_orthogonalized(role: str, n_axes: int) -> bool:
    """Whether Muon takes a tensor: a matrix that grows on both sides; AdamW has the others."""
    return role == HIDDEN_ROLE and n_axes == 2


def _tensors(build: Build, size: Mapping[str, float]) -> dict[str, _Tensor]:
    module = build_without_memory(build, size)
    tables = embedding_tables(module)
    weight_of = {
        id(layer.bias): f"{name}.weight".lstrip(".")
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd)
    }
    return {
        name: _Tensor(tuple(p.shape), id(p) in tables, weight_of.get(id(p), ""))
        for name, p in module.named_parameters()
    }


def _role(tensor: _Tensor, wider: tuple[int, ...]) -> str:
    grows = [a != b for a, b in zip(tensor.shape, wider, strict=True)]
    if not any(grows):
        return FIXED_ROLE
    if sum(grows) > 1:
        return HIDDEN_ROLE
    return INPUT_ROLE if tensor.is_table or grows[0] else OUTPUT_ROLE
