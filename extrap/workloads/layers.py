"""Layers that take a leading run axis: parameters (M, …) and inputs (M, B, …) as one product.

With parameters of one run they are PyTorch's own. With stacked ones they do in a few batched
operations, forward and backward, what `torch.func.vmap` would do in many: on two cores a pack of
small models trains about a third faster. A workload whose module and loss use only these and
elementwise operations can declare `has_run_axis`.

Shapes: M runs, B examples, I and O features in and out, V classes, G ghosts of a batch; `…` any
axes of an example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

__all__ = [
    "BatchNorm",
    "Product",
    "batch_norm",
    "cross_entropy",
    "embedding",
    "layer_norm",
    "linear",
    "noted_products",
    "sparse_activations",
]

TINY = torch.finfo(torch.float32).tiny


class Product(NamedTuple):
    """One call of `linear` with the parameters of one run.

    Attributes:
        n_rows: Rows of its input: examples times positions.
        n_in: I.
        n_out: O.
        is_input: Whether it reads the network's own input.
        passes_gradient: Whether the backward pass needs the gradient by its input.
    """

    n_rows: int
    n_in: int
    n_out: int
    is_input: bool
    passes_gradient: bool


_kept_share: ContextVar[float] = ContextVar("kept_share", default=1.0)
_noted: ContextVar[list[Product] | None] = ContextVar("noted", default=None)


@contextmanager
def sparse_activations(density: float) -> Iterator[None]:
    """Let `linear` keep the largest share of each row of its stacked input for the backward pass.

    The forward product is that of all inputs.

    Args:
        density: The share, in (0, 1].
    """
    token = _kept_share.set(density)
    try:
        yield
    finally:
        _kept_share.reset(token)


@contextmanager
def noted_products() -> Iterator[list[Product]]:
    """A list to which every call of `linear` with the parameters of one run is added."""
    found: list[Product] = []
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    is_input: bool = False,
) -> torch.Tensor:
    """X Wᵀ + b.

    Args:
        x: (B, …, I), or (M, B, …, I) if the weight is stacked.
        weight: (O, I) or (M, O, I).
        bias: (O,) or (M, O).
        is_input: Whether x is the network's own input, which stays whole where activations are
            sparse.
    """
    if weight.dim() == 2:
        products = _noted.get()
        if products is not None:
            n_out, n_in = weight.shape
            n_rows = x.numel() // n_in
            products.append(Product(n_rows, n_in, n_out, is_input, x.requires_grad))
        return functional.linear(x, weight, bias)
    density = 1.0 if is_input else _kept_share.get()
    if x.dim() == 3:  # no view: an operation in place on one costs copies in the backward pass
        return _Linear.apply(x, weight, bias, density)
    rows = x.reshape(len(weight), -1, x.shape[-1])
    flat: torch.Tensor = _Linear.apply(rows, weight, bias, density)
    return flat.view(*x.shape[:-1], weight.shape[1])


def embedding(indices: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Rows of a table.

    Args:
        indices: (B, …), or (M, B, …) if the table is stacked.
        weight: (V, O) or (M, V, O).
    """
    if weight.dim() == 2:
        return functional.embedding(indices, weight)
    return _Embedding.apply(indices, weight)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Layer normalisation over the last axis.

    Args:
        x: (B, …, O), or (M, B, …, O) if the weight is stacked.
        weight: (O,) or (M, O).
        bias: Likewise.
        eps: Added to the variance.
    """
    if weight.dim() == 1:
        return functional.layer_norm(x, weight.shape, weight, bias, eps)
    shape = (len(weight), *[1] * (x.dim() - 2), weight.shape[1])
    normal = functional.layer_norm(x, x.shape[-1:], eps=eps)
    return torch.addcmul(bias.view(shape), normal, weight.view(shape))


class BatchNorm(nn.Module):
    """Batch normalisation with ghosts; its running statistics are buffers.

    They move in training mode alone, in place, and are all that counts in evaluation mode.

    Args:
        n_features: O.
        ghost: Examples whose statistics are taken together; 0 for the whole batch.
    """

    def __init__(self, n_features: int, *, ghost: int = 0) -> None:
        super().__init__()
        self.ghost = ghost
        self.weight = nn.Parameter(torch.ones(n_features))
        self.bias = nn.Parameter(torch.zeros(n_features))
        self.register_buffer("running_mean", torch.zeros(n_features))
        self.register_buffer("running_var", torch.ones(n_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, O) or (M, B, O), normalised."""
        running = self.get_buffer("running_mean"), self.get_buffer("running_var")
        ghost = self.ghost if self.training else None
        return batch_norm(x, self.weight, self.bias, running, ghost=ghost)


def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    running: tuple[torch.Tensor, torch.Tensor],
    *,
    ghost: int | None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Batch normalisation over ghosts: parts of a batch with statistics of their own.

    Gain and bias are shared by all ghosts. The running statistics r go through the ghosts one
    after the other, r ← (1 − η) r + η s, with the unbiased variance as PyTorch has it.

    Args:
        x: (B, O), or (M, B, O) if the weight is stacked.
        weight: (O,) or (M, O).
        bias: Likewise.
        running: Mean and variance, likewise; changed in place unless `ghost` is None.
        ghost: Examples of a ghost; a batch of no more is one, and 0 makes it one. None takes the
            running statistics, as in evaluation.
        momentum: η, the part of a new statistic.
        eps: Added to the variance.

    Raises:
        ValueError: A batch does not consist of whole ghosts, or a ghost has a single example.

    References:
        Hoffer, Hubara, Soudry 2017, arXiv 1705.08741, Alg. 1. Change from the paper: there the
        weights (1 − η)^i of the ghosts start at i = 1 and do not add up to 1; here at 0.
    """
    n = x.shape[-2]
    size = min(ghost, n) if ghost else n
    mean, var = running
    if ghost is None:
        scale = weight * torch.rsqrt(var + eps)
        return torch.addcmul((bias - mean * scale).unsqueeze(-2), x, scale.unsqueeze(-2))
    if n % size or size < 2:
        raise ValueError(
            f"a batch consists of whole ghosts of at least 2 examples, got {n} examples and "
            f"ghosts of {size}; take a batch size that is a multiple of the ghosts'."
        )
    x_G = x.unflatten(-2, (n // size, size)).to(mean.dtype)  # sums of bf16 lose too much
    var_G, mean_G = torch.var_mean(x_G, dim=-2, correction=0, keepdim=True)
    with torch.no_grad():
        age = torch.arange(n // size - 1, -1, -1, device=x.device, dtype=mean.dtype).unsqueeze(-1)
        part_G = momentum * (1 - momentum) ** age
        kept = (1 - momentum) ** (n // size)
        mean.mul_(kept).add_((part_G * mean_G.squeeze(-2)).sum(-2))
        var.mul_(kept).add_((part_G * var_G.squeeze(-2)).sum(-2) * (size / (size - 1)))
    normal = ((x_G - mean_G) * torch.rsqrt(var_G + eps)).flatten(-3, -2)
    return torch.addcmul(bias.unsqueeze(-2), normal, weight.unsqueeze(-2))


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, *, packed: bool) -> torch.Tensor:
    """Mean cross-entropy, a scalar or one value a run.

    Args:
        logits: (B, …, V) or (M, B, …, V).
        targets: Classes, int64, shaped like the logits without their last axis.
        packed: Whether the first axis counts runs.
    """
    if logits.dtype == torch.bfloat16:
        logits = logits.float()  # a loss of 8 bits says nothing
    if not packed:
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
    return _CrossEntropy.apply(logits.reshape(len(logits), -1, logits.shape[-1]), targets)


class _Linear(torch.autograd.Function):
    """Batched products whose weight gradient comes contiguous, as the fused optimisers need."""

    @staticmethod
    def forward(
        ctx: Any,
        x_MBI: torch.Tensor,
        weight_MOI: torch.Tensor,
        bias_MO: torch.Tensor | None,
        density: float,
    ) -> torch.Tensor:
        kept_MBI = x_MBI if density == 1 else _largest_of_rows(x_MBI, density)
        x_MBI, kept_MBI, weight_MOI = _as_multiplied(x_MBI, kept_MBI, weight_MOI)
        ctx.save_for_backward(kept_MBI, weight_MOI)
        y_MBO = torch.bmm(x_MBI, weight_MOI.transpose(1, 2))
        return y_MBO if bias_MO is None else y_MBO.add_(bias_MO.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, g_MBO: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_MBI, weight_MOI = ctx.saved_tensors
        needs_x, _, needs_bias, _ = ctx.needs_input_grad
        g_MBI = torch.bmm(g_MBO, weight_MOI) if needs_x else None
        g_MOI = torch.bmm(g_MBO.transpose(1, 2), x_MBI)
        return g_MBI, g_MOI, g_MBO.sum(1) if needs_bias else None, None


def _as_multiplied(*factors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Factors in the precision in which autocast, where it is on, multiplies."""
    kind = factors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return factors
    return tuple(factor.to(torch.get_autocast_dtype(kind)) for factor in factors)


def _largest_of_rows(x: torch.Tensor, density: float) -> torch.Tensor:
    """The values of largest magnitude of every row, zeros elsewhere."""
    size = x.abs()
    n_left = x.shape[-1] - math.ceil(density * x.shape[-1])
    return x * (size >= size.kthvalue(n_left + 1, dim=-1, keepdim=True).values)


class _Embedding(torch.autograd.Function):
    """All tables as one long one; the gradient is added row by row, three times faster."""

    @staticmethod
    def forward(ctx: Any, indices: torch.Tensor, weight_MVO: torch.Tensor) -> torch.Tensor:
        n_runs, n_rows, n_out = weight_MVO.shape
        first = torch.arange(0, n_runs * n_rows, n_rows, device=indices.device)
        rows = (indices + first.view(-1, *[1] * (indices.dim() - 1))).view(-1)
        ctx.save_for_backward(rows)
        ctx.shape = weight_MVO.shape
        table = weight_MVO.reshape(-1, n_out)
        return table.index_select(0, rows).view(*indices.shape, n_out)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[None, torch.Tensor]:
        (rows,) = ctx.saved_tensors
        n_runs, n_rows, n_out = ctx.shape
        total = g.new_zeros(n_runs * n_rows, n_out)
        total.index_add_(0, rows, g.reshape(-1, n_out))
        return None, total.view(ctx.shape)


class _CrossEntropy(torch.autograd.Function):
    """One pass of exponentials for loss and gradient; the gradient reuses its memory."""

    @staticmethod
    def forward(ctx: Any, logits_MBV: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        at_MB1 = targets.reshape(*logits_MBV.shape[:2], 1)
        if not ctx.needs_input_grad[0]:
            log_p_MBV = torch.log_softmax(logits_MBV, -1)
            return -log_p_MBV.gather(-1, at_MB1).mean((1, 2))
        p_MBV = torch.softmax(logits_MBV, -1)
        loss_M = -p_MBV.gather(-1, at_MB1).clamp_min(TINY).log().mean((1, 2))
        ctx.save_for_backward(p_MBV, at_MB1)
        return loss_M

    @staticmethod
    def backward(ctx: Any, g_M: torch.Tensor) -> tuple[torch.Tensor, None]:
        p_MBV, at_MB1 = ctx.saved_tensors
        less = p_MBV.new_full((), -1.0).expand(at_MB1.shape)
        g_MBV = p_MBV.scatter_add_(-1, at_MB1, less)  # so backward runs once, as training does
        return g_MBV.mul_((g_M / p_MBV.shape[1]).view(-1, 1, 1)), None
