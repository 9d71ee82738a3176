"""Layers that take a leading run axis: parameters (M, …) and inputs (M, B, …) as one product.

With parameters of one run they are PyTorch's own. With stacked ones they do in a few batched
operations, forward and backward, what `torch.func.vmap` would do in many: on two cores a pack of
small models trains about a third faster. A workload whose module and loss use only these and
elementwise operations can declare `has_run_axis`.

Consecutive runs that see the same examples may share the input of the network: S inputs, each for
M / S runs. `linear` and `embedding` accept such an input.

Shapes: M runs, S inputs, B examples, I and O features in and out, V classes, P places in all
examples of a batch; `…` any axes of an example.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

SMALLEST_PROBABILITY = torch.finfo(torch.float32).tiny
"""Keeps the logarithm of a probability that is rounded to 0 finite."""


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """X Wᵀ + b.

    Args:
        x: (B, …, I), or (M, B, …, I) or (S, B, …, I) if the weight is stacked.
        weight: (O, I) or (M, O, I).
        bias: (O,) or (M, O).
    """
    if weight.dim() == 2:
        return functional.linear(x, weight, bias)
    if len(x) < len(weight) and x.device.type == "cpu":
        # one product for several runs would round by their number
        x = x.unsqueeze(1).expand(-1, len(weight) // len(x), *x.shape[1:]).flatten(0, 1)
    if x.dim() == 3:  # no view: an operation in place on one costs copies in the backward pass
        return _Linear.apply(x, weight, bias)
    rows = x.reshape(len(x), -1, x.shape[-1])
    flat: torch.Tensor = _Linear.apply(rows, weight, bias)
    return flat.view(len(weight), *x.shape[1:-1], weight.shape[1])


def embedding(indices: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Rows of a table.

    Args:
        indices: (B, …), or (M, B, …) or (S, B, …) if the table is stacked.
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
    """Mean cross-entropy, a scalar or one value per run.

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
        x_SBI: torch.Tensor,
        weight_MOI: torch.Tensor,
        bias_MO: torch.Tensor | None,
    ) -> torch.Tensor:
        x_SBI, weight_MOI = _as_multiplied(x_SBI, weight_MOI)
        ctx.save_for_backward(x_SBI, weight_MOI)
        n_runs, n_out, _ = weight_MOI.shape
        y_SBN = torch.bmm(x_SBI, _as_one_matrix(weight_MOI, len(x_SBI)).transpose(1, 2))
        y_MBO = _swapped(y_SBN, n_runs, n_out)
        return y_MBO if bias_MO is None else y_MBO.add_(bias_MO.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, g_MBO: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_SBI, weight_MOI = ctx.saved_tensors
        needs_x, _, needs_bias = ctx.needs_input_grad
        g_SBN = _swapped(g_MBO, len(x_SBI), len(g_MBO) // len(x_SBI) * g_MBO.shape[2])
        g_SBI = torch.bmm(g_SBN, _as_one_matrix(weight_MOI, len(x_SBI))) if needs_x else None
        g_MOI = torch.bmm(g_SBN.transpose(1, 2), x_SBI).view(weight_MOI.shape)
        return g_SBI, g_MOI, g_MBO.sum(1) if needs_bias else None


def _as_one_matrix(weight_MOI: torch.Tensor, n_inputs: int) -> torch.Tensor:
    """The weights of the runs that share an input as one matrix, (S, M / S · O, I)."""
    if n_inputs == len(weight_MOI):
        return weight_MOI
    return weight_MOI.reshape(n_inputs, -1, weight_MOI.shape[2])


def _swapped(t: torch.Tensor, n_first: int, n_last: int) -> torch.Tensor:
    """(S, B, M / S · O) to (M, B, O), or back; `n_first` and `n_last` are those of the result."""
    if n_first == len(t):
        return t
    out = t.new_empty(n_first, t.shape[1], n_last)  # no view: see `linear`
    if n_first > len(t):
        out.unflatten(0, (len(t), -1)).copy_(t.unflatten(2, (-1, n_last)).transpose(1, 2))
    else:
        out.unflatten(2, (-1, t.shape[2])).copy_(t.unflatten(0, (n_first, -1)).transpose(1, 2))
    return out


def _as_multiplied(*factors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Factors in the precision in which autocast, where it is on, multiplies."""
    kind = factors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return factors
    return tuple(factor.to(torch.get_autocast_dtype(kind)) for factor in factors)


class _Embedding(torch.autograd.Function):
    """Rows of each run's table."""

    @staticmethod
    def forward(ctx: Any, indices: torch.Tensor, weight_MVO: torch.Tensor) -> torch.Tensor:
        n_runs, n_rows, n_out = weight_MVO.shape
        rows_SP = indices.flatten(1)
        ctx.save_for_backward(rows_SP)
        ctx.n_rows = n_rows
        table_SRVO = weight_MVO.reshape(len(rows_SP), -1, n_rows, n_out)
        if weight_MVO.device.type == "cpu":
            e_SRPO = weight_MVO.new_empty(*table_SRVO.shape[:2], rows_SP.shape[1], n_out)
            for rows_P, table_RVO, e_RPO in zip(rows_SP, table_SRVO, e_SRPO, strict=True):
                torch.index_select(table_RVO, 1, rows_P, out=e_RPO)
        else:
            e_SRPO = table_SRVO.gather(2, _spread(rows_SP, n_runs, n_out))
        return e_SRPO.view(n_runs, *indices.shape[1:], n_out)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[None, torch.Tensor]:
        (rows_SP,) = ctx.saved_tensors
        n_runs, n_out = len(g), g.shape[-1]
        if g.device.type == "cpu":
            return None, _sums_by_row(g.reshape(n_runs, -1, n_out), rows_SP, ctx.n_rows)
        total = g.new_zeros(len(rows_SP), n_runs // len(rows_SP), ctx.n_rows, n_out)
        at_SRPO = _spread(rows_SP, n_runs, n_out)
        total.scatter_add_(2, at_SRPO, g.reshape(at_SRPO.shape))
        return None, total.view(n_runs, ctx.n_rows, n_out)


def _spread(rows_SP: torch.Tensor, n_runs: int, n_out: int) -> torch.Tensor:
    """The rows as an index of shape (S, M / S, P, O), without copies."""
    n_inputs, n_places = rows_SP.shape
    return rows_SP.view(n_inputs, 1, n_places, 1).expand(-1, n_runs // n_inputs, -1, n_out)


def _sums_by_row(g_MPO: torch.Tensor, rows_SP: torch.Tensor, n_rows: int) -> torch.Tensor:
    """The sum of the gradients of all places that read a row, (M, V, O).

    Sums the places in order, as `index_add_` does, in a quarter of the time: it sorts the places
    of every run, this function those of every input.
    """
    n_runs, n_places, n_out = g_MPO.shape
    rows, kind = rows_SP.numpy(), np.min_scalar_type(n_rows - 1)  # short ones sort faster
    order_SP = np.argsort(rows.astype(kind), axis=1, kind="stable").astype(np.int32)
    counts_SV = np.stack([np.bincount(row, minlength=n_rows) for row in rows])
    starts_SV = (counts_SV.cumsum(1) - counts_SV).astype(np.int32)
    first_SR1 = np.arange(0, n_runs * n_places, n_places, dtype=np.int32).reshape(len(rows), -1, 1)
    places, offsets = (
        torch.from_numpy((indices[:, None] + first_SR1).reshape(-1))
        for indices in (order_SP, starts_SV)
    )
    sums = functional.embedding_bag(places, g_MPO.view(-1, n_out), offsets, mode="sum")
    return sums.view(n_runs, n_rows, n_out)


class _CrossEntropy(torch.autograd.Function):
    """One pass of exponentials for loss and gradient; the gradient reuses its memory."""

    @staticmethod
    def forward(ctx: Any, logits_MBV: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        at_MB1 = targets.reshape(*logits_MBV.shape[:2], 1)
        if not ctx.needs_input_grad[0]:
            log_p_MBV = torch.log_softmax(logits_MBV, -1)
            return -log_p_MBV.gather(-1, at_MB1).mean((1, 2))
        p_MBV = torch.softmax(logits_MBV, -1)
        loss_M = -p_MBV.gather(-1, at_MB1).clamp_min(SMALLEST_PROBABILITY).log().mean((1, 2))
        ctx.save_for_backward(p_MBV, at_MB1)
        return loss_M

    @staticmethod
    def backward(ctx: Any, g_M: torch.Tensor) -> tuple[torch.Tensor, None]:
        p_MBV, at_MB1 = ctx.saved_tensors
        # in place, so backward runs once, as training does
        g_MBV = p_MBV.scatter_(-1, at_MB1, -1.0, reduce="add")
        return g_MBV.mul_((g_M / p_MBV.shape[1]).view(-1, 1, 1)), None
