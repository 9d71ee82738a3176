"""One Triton kernel that updates all parameters of all runs of a stack, each with its constants.

It is imported on a GPU alone, where a CUDA build of PyTorch brings Triton along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

BLOCK = 1024
SMALLEST = tl.constexpr(1e-300)
"""Keeps a β of 0 from a logarithm of 0."""


class Blocks(NamedTuple):
    """The numbers of all parameters, cut into blocks that one program of the kernel updates.

    Attributes:
        parameters: The tensors, which must stay where they are.
        places: Address of a block's first parameter, its place in the flat state, how many numbers
            it has, the run they are of; int64, (n_blocks, 4).
        scales: What the run's rate is multiplied by there, float64.
    """

    parameters: tuple[torch.Tensor, ...]
    places: torch.Tensor
    scales: torch.Tensor


def make_blocks(parameters: Sequence[torch.Tensor], scales: Sequence[float]) -> Blocks:
    """Blocks that each lie in one run of one tensor.

    Args:
        parameters: Stacked parameters, each (M, …) and contiguous, in the order of the flat state.
        scales: What each parameter's learning rate is multiplied by.
    """
    places, of_block, start = [], [], 0
    for parameter, scale in zip(parameters, scales, strict=True):
        assert parameter.is_contiguous()
        n_each = parameter[0].numel()
        for first in range(0, parameter.numel(), max(1, n_each)):
            for at in range(first, first + n_each, BLOCK):
                n = min(BLOCK, first + n_each - at)
                address = parameter.data_ptr() + at * parameter.element_size()
                places.append((address, start + at, n, first // n_each))
                of_block.append(scale)
        start += parameter.numel()
    device = parameters[0].device
    return Blocks(
        tuple(parameters),
        torch.tensor(places, dtype=torch.int64, device=device),
        torch.tensor(of_block, dtype=torch.float64, device=device),
    )


def update(
    blocks: Blocks,
    gradient: torch.Tensor,
    states: Sequence[torch.Tensor],
    rates_M: torch.Tensor,
    constants: torch.Tensor,
    n_updates: torch.Tensor,
    *,
    kind: str,
) -> None:
    """Update the parameters behind the blocks and the states in place.

    Args:
        blocks: From `make_blocks`.
        gradient: Of all parameters one after the other, (N,).
        states: Likewise; two for Adam, one for SGD.
        rates_M: Learning rate of every run, float64.
        constants: Of every run, float64: β₁, β₂, ε and weight decay; or momentum and weight decay.
        n_updates: Updates with this one, of one number.
        kind: `"adam"`, `"adamw"`, `"sgd"` or `"nesterov"`.
    """
    grid = (len(blocks.places),)
    if kind in ("adam", "adamw"):
        given = (*blocks[1:], gradient, *states, rates_M, constants, n_updates)
        _adam[grid](*given, IS_DECOUPLED=kind == "adamw", BLOCK=BLOCK)
    else:
        given = (*blocks[1:], gradient, *states, rates_M, constants)
        _sgd[grid](*given, IS_NESTEROV=kind == "nesterov", BLOCK=BLOCK)


def try_out(device: torch.device) -> None:
    """Compile the kernels and run them once.

    Raises:
        Exception: Triton cannot.
    """
    for kind, constants in (("adam", [0.9, 0.999, 1e-8, 0.0]), ("sgd", [0.9, 0.0])):
        parameter, gradient = (torch.ones(1, 1, device=device) for _ in range(2))
        states = [torch.zeros(1, device=device) for _ in range(len(constants) // 2)]
        rate, of_run = (
            torch.tensor(value, dtype=torch.float64, device=device)
            for value in ([1.0], [constants])
        )
        blocks, one = make_blocks([parameter], [1.0]), torch.ones((), device=device)
        update(blocks, gradient.view(-1), states, rate, of_run, one, kind=kind)
        if abs(float(parameter)) > 1e-6:  # the first step of both is the rate
            raise RuntimeError(f"a step of {kind} at rate 1 takes 1 to {float(parameter):g}")


@triton.jit
def _block(places: tl.tensor, kind: tl.constexpr, BLOCK: tl.constexpr) -> tuple[tl.tensor, ...]:
    """This program's block, its run, addresses of its parameters, their places in the state."""
    block, within = tl.program_id(0), tl.arange(0, BLOCK)
    own = places + 4 * block
    parameters = tl.load(own).to(tl.pointer_type(kind)) + within
    at, is_own = tl.load(own + 1) + within, within < tl.load(own + 2)
    return block, tl.load(own + 3), parameters, at, is_own


@triton.jit
def _adam(
    places: tl.tensor,
    scales: tl.tensor,
    gradient: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    rates: tl.tensor,
    constants: tl.tensor,
    n_updates: tl.tensor,
    IS_DECOUPLED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    kind = gradient.dtype.element_ty
    block, run, parameters, at, is_own = _block(places, kind, BLOCK)
    beta1, beta2 = tl.load(constants + 4 * run), tl.load(constants + 4 * run + 1)
    eps, decay = tl.load(constants + 4 * run + 2), tl.load(constants + 4 * run + 3)
    n_done, rate = tl.load(n_updates).to(tl.float64), tl.load(rates + run)
    correction1 = 1 - tl.exp(n_done * tl.log(tl.maximum(beta1, SMALLEST)))
    root2 = tl.sqrt(1 - tl.exp(n_done * tl.log(tl.maximum(beta2, SMALLEST))))
    step = rate * tl.load(scales + block) / correction1

    p = tl.load(parameters, mask=is_own, other=0.0)
    g = tl.load(gradient + at, mask=is_own, other=0.0)
    if IS_DECOUPLED:
        p -= (rate * decay).to(kind) * p
    else:
        g += decay.to(kind) * p
    m = tl.load(first + at, mask=is_own, other=0.0)
    v = tl.load(second + at, mask=is_own, other=0.0)
    m += (1 - beta1).to(kind) * (g - m)
    v += (1 - beta2).to(kind) * (g * g - v)
    tl.store(first + at, m, mask=is_own)
    tl.store(second + at, v, mask=is_own)
    p -= step.to(kind) * m / (tl.sqrt(v) / root2.to(kind) + eps.to(kind))
    tl.store(parameters, p, mask=is_own)


@triton.jit
def _sgd(
    places: tl.tensor,
    scales: tl.tensor,
    gradient: tl.tensor,
    momentum: tl.tensor,
    rates: tl.tensor,
    constants: tl.tensor,
    IS_NESTEROV: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    kind = gradient.dtype.element_ty
    block, run, parameters, at, is_own = _block(places, kind, BLOCK)
    mu, decay = tl.load(constants + 2 * run).to(kind), tl.load(constants + 2 * run + 1).to(kind)
    step = tl.load(rates + run) * tl.load(scales + block)

    p = tl.load(parameters, mask=is_own, other=0.0)
    g = tl.load(gradient + at, mask=is_own, other=0.0) + decay * p
    b = mu * tl.load(momentum + at, mask=is_own, other=0.0) + g
    tl.store(momentum + at, b, mask=is_own)
    if IS_NESTEROV:
        b = g + mu * b
    tl.store(parameters, p - step.to(kind) * b, mask=is_own)
