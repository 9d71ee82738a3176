"""Layers that take a leading run axis: parameters (M, …) and inputs (M, B, …) as one product.

With parameters of one run they are PyTorch's own. With stacked ones they do in a few batched
operations, forward and backward, what `torch.func.vmap` would do in many: on two cores a pack of
small models trains about a third faster. A workload whose module and loss use only these and
elementwise operations can declare `has_run_axis`.

Shapes: M runs, B examples, I and O features in and out, V classes; `…` any axes of an example.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

__all__ = ["cross_entropy", "embedding", "layer_norm", "linear"]

TINY = torch.finfo(torch.float32).tiny


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """X Wᵀ + b.

    Args:
        x: (B, …, I), or (M, B, …, I) if the weight is stacked.
        weight: (O, I) or (M, O, I).
        bias: (O,) or (M, O).
    """
    if weight.dim() == 2:
        return functional.linear(x, weight, bias)
    if x.dim() == 3:  # no view: an operation in place on one costs copies in the backward pass
        return _Linear.apply(x, weight, bias)
    flat: torch.Tensor = _Linear.apply(x.reshape(len(weight), -1, x.shape[-1]), weight, bias)
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


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, *, packed: bool) -> torch.Tensor:
    """Mean cross-entropy, a scalar or one value a run.

    Args:
        logits: (B, …, V) or (M, B, …, V).
        targets: Classes, int64, shaped like the logits without their last axis.
        packed: Whether the first axis counts runs.
    """
    if not packed:
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
    return _CrossEntropy.apply(logits.reshape(len(logits), -1, logits.shape[-1]), targets)


class _Linear(torch.autograd.Function):
    """Batched products whose weight gradient comes contiguous, as the fused optimisers need."""

    @staticmethod
    def forward(
        ctx: Any, x_MBI: torch.Tensor, weight_MOI: torch.Tensor, bias_MO: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x_MBI, weight_MOI)
        y_MBO = torch.bmm(x_MBI, weight_MOI.transpose(1, 2))
        return y_MBO if bias_MO is None else y_MBO.add_(bias_MO.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, g_MBO: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_MBI, weight_MOI = ctx.saved_tensors
        needs_x, _, needs_bias = ctx.needs_input_grad
        g_MBI = torch.bmm(g_MBO, weight_MOI) if needs_x else None
        g_MOI = torch.bmm(g_MBO.transpose(1, 2), x_MBI)
        return g_MBI, g_MOI, g_MBO.sum(1) if needs_bias else None


class _Embedding(torch.autograd.Function):
    """All tables as one long one; the gradient is added row by row, three times faster."""

    @staticmethod
    def forward(ctx: Any, indices: torch.Tensor, weight_MVO: torch.Tensor) -> torch.Tensor:
        n_runs, n_rows, n_out = weight_MVO.shape
        first = torch.arange(n_runs, device=indices.device) * n_rows
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
        ones = p_MBV.new_ones(()).expand(at_MB1.shape)
        g_MBV = p_MBV.scatter_add_(-1, at_MB1, -ones)  # so backward runs once, as training does
        return g_MBV.mul_((g_M / p_MBV.shape[1]).view(-1, 1, 1)), None
