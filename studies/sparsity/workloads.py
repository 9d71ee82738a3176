"""A byte MLP that computes with few of its weights and keeps few of its activations.

Sparse weight activation training: forward and the gradients by the inputs take the largest weights
of every matrix alone, the weights' gradients the largest part of each example's activations. The
gradient is that of all weights, kept or not: all are updated. The network's own input, the table
of embeddings and the biases stay whole.

    python studies/sparsity/workloads.py

prints what that saves by count. Nothing here skips a zero: it is what hardware that does would
compute and keep. Shapes: B examples, C bytes of context, I and O features in and out; a leading
run axis M may precede them.

References:
    Raihan, Aamodt 2020, "Sparse weight activation training", arXiv 2001.01969, SWAT-U; Zhu, Gupta
    2017, "To prune, or not to prune", arXiv 1710.01878, Eq. 1, for the way to the density.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from extrap.training import flops_6nd
from extrap.workloads import BytesMLP

HALVINGS = 15
"""Of the interval in which a threshold lies: 3e-5 of the largest weight is left."""
VALUE_BYTES, BIT, INDEX_BYTES = 4.0, 1 / 8, 8.0


class SparseBytesMLP(BytesMLP):
    """`bytes-mlp` with a share of its weights and of its activations; the size is `width`.

    Args:
        density: Share of every weight matrix that is kept, in (0, 1].
        activations: Share of each example's hidden activations that is kept, in (0, 1].
        updates: Of a run, which the way to the density needs.
        fall: Fraction of them over which the density falls from 1, steeply at first.
    """

    shares_inputs = False

    def __init__(
        self, *, density: float, activations: float = 0.15, updates: int = 1000, fall: float = 0.25
    ) -> None:
        if not (0 < density <= 1 and 0 < activations <= 1):
            raise ValueError(
                "density and activations are shares that are kept, in (0, 1], got "
                f"{density} and {activations}; write 0.1 for 90 % sparse."
            )
        super().__init__({})
        self.density, self.activations, self.updates = density, activations, updates
        self.falls_for = fall * updates
        # updates and fall are known from the options, and no columns
        self.fingerprint = {**self.fingerprint, "density": density, "activations": activations}

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one width."""
        return _Sparse(super().build(size), self)

    def density_after(self, updates: torch.Tensor) -> torch.Tensor:
        """Share of the weights that is kept after so many updates, of their shape."""
        left = (1 - updates / self.falls_for).clamp_min(0.0) if self.falls_for else 0.0 * updates
        return self.density + (1 - self.density) * left**3

    @property
    def mean_density(self) -> float:
        """Of the updates of a run."""
        return float(self.density_after(torch.arange(self.updates)).mean())

    def flops(self, size: Mapping[str, float], n_tokens: int) -> float:
        """Training compute of a run: 6 N D, each product of a matrix by what is kept of it."""
        inner = sum(math.prod(shape) for shape in self._shapes(size)[1:])
        first = math.prod(self._shapes(size)[0])  # its input stays whole
        by_weights = 2 * self.mean_density * (first + inner)
        kept = (by_weights + first + self.activations * inner) / 3
        return flops_6nd(self.n_params(size) - first - inner, n_tokens) + 6 * kept * n_tokens

    def weight_bytes(self, size: Mapping[str, float]) -> float:
        """What a pass reads, mean over the run: kept values and a bit for which they are."""
        matrices = sum(math.prod(shape) for shape in self._shapes(size))
        rest = self.n_params_total(size) - matrices
        return VALUE_BYTES * rest + matrices * _bytes_of_value(self.mean_density, n_bits=1)

    def activation_bytes(self, size: Mapping[str, float]) -> float:
        """What the backward pass of one example keeps.

        Of hidden units kept values, a bit for which they are and one for the sign that ReLU asks
        for; the input, the probabilities and the bytes themselves are whole.
        """
        (n_in, width), *inner, (_, n_out) = self._shapes(size)
        whole = VALUE_BYTES * (n_in + n_out) + INDEX_BYTES * (self.options.context + 1)
        hidden = width * (1 + len(inner))
        return whole + hidden * _bytes_of_value(self.activations, n_bits=2)

    def _shapes(self, size: Mapping[str, float]) -> list[tuple[int, int]]:
        options, width = self.options, int(size["width"])
        ends = [options.context * options.embedding, *[width] * options.depth, 256]
        return list(itertools.pairwise(ends))


class _Sparse(nn.Module):
    """The layers of a dense network, with what is kept of them; counts its own updates."""

    def __init__(self, dense: Any, workload: SparseBytesMLP) -> None:
        super().__init__()
        self.embedding = dense.embedding
        self.layers = nn.ModuleList([*dense.mlp.hidden, dense.mlp.output])
        self.register_buffer("updates", torch.zeros(()))
        self._workload = workload

    def forward(self, x_BC: torch.Tensor) -> torch.Tensor:
        """Bytes (B, C) to logits (B, 256), or (M, B, C) to (M, B, 256)."""
        updates = self.get_buffer("updates")
        density = self._workload.density_after(updates)
        if self.training:
            updates.add_(1)
        h_BI = embed(x_BC, self.embedding.weight).flatten(-2)
        for i, layer in enumerate(self.layers):
            share = self._workload.activations if i else 1.0
            weight_OI: Any = layer.weight
            kept_OI = keep_largest(weight_OI, density)
            y_BO = _Product.apply(h_BI, weight_OI, kept_OI, share) + layer.bias.unsqueeze(-2)
            h_BI = y_BO.relu() if layer is not self.layers[-1] else y_BO
        return h_BI


class _Product(torch.autograd.Function):
    """X Wᵀ with the kept weights; of X the largest values are kept for the gradient by W."""

    @staticmethod
    def forward(
        ctx: Any, x_BI: torch.Tensor, _: torch.Tensor, kept_OI: torch.Tensor, share: float
    ) -> torch.Tensor:
        ctx.save_for_backward(largest_of_rows(x_BI, share), kept_OI)
        return x_BI @ kept_OI.transpose(-1, -2)

    @staticmethod
    def backward(ctx: Any, g_BO: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_BI, kept_OI = ctx.saved_tensors
        return g_BO @ kept_OI, g_BO.transpose(-1, -2) @ x_BI, None, None


@torch.no_grad()
def keep_largest(weight: torch.Tensor, density: torch.Tensor) -> torch.Tensor:
    """The largest values, zeros elsewhere; (O, I) and a scalar density, or (M, O, I) and (M,)."""
    size = weight.abs()
    low, high = torch.zeros_like(density), size.amax((-2, -1))
    wanted = density * weight.shape[-2] * weight.shape[-1]
    above = torch.empty_like(size)  # as numbers: a mask of truth values is slow to sum
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_low = torch.ge(size, middle[..., None, None], out=above).sum((-2, -1)) >= wanted
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return torch.ge(size, low[..., None, None], out=above).mul_(weight)


def largest_of_rows(x: torch.Tensor, share: float) -> torch.Tensor:
    """The values of largest magnitude of every row, zeros elsewhere."""
    n_left = x.shape[-1] - math.ceil(share * x.shape[-1])
    if n_left == 0:
        return x
    size = x.abs()
    return x * (size >= size.kthvalue(n_left + 1, dim=-1, keepdim=True).values)


def embed(x_BC: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows of a table (256, E), or of the table of each run, (M, 256, E)."""
    if table.dim() == 2:
        return table[x_BC]
    runs = torch.arange(len(table), device=table.device).view(-1, 1, 1)
    return table[runs, x_BC]


def _bytes_of_value(share: float, *, n_bits: int) -> float:
    return VALUE_BYTES * share + (n_bits * BIT if share < 1 else 0.0)


def main() -> None:
    """Print what each density saves at each width."""
    dense = SparseBytesMLP(density=1.0, activations=1.0)
    print("density  width  FLOPs  weights  activations")
    for density, width in itertools.product((0.5, 0.2, 0.1), (48, 384, 1024)):
        sparse, size = SparseBytesMLP(density=density), {"width": width}
        ratios = (
            sparse.flops(size, 1) / dense.flops(size, 1),
            sparse.weight_bytes(size) / dense.weight_bytes(size),
            sparse.activation_bytes(size) / dense.activation_bytes(size),
        )
        changes = "".join(f"  {100 * (ratio - 1):+4.0f} %" for ratio in ratios)
        print(f"{density:7g}  {width:5d}{changes}")


if __name__ == "__main__":
    main()
