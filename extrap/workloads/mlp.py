"""A multilayer perceptron that takes a leading run axis.

Shapes: B examples, I features in, H width, O features out; a leading run axis M may precede them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

import torch
from torch import nn

from extrap.workloads.layers import BatchNorm, linear


class MLP(nn.Module):
    """`depth` hidden ReLU layers of one width and a linear one; PyTorch's own initialisation.

    Args:
        n_in: Features in.
        n_out: Features out.
        width: Of every hidden layer.
        depth: Hidden layers.
        ghost: Batch normalisation before every ReLU, with ghosts of so many examples (0: of the
            whole batch), which has the bias of its layer; None for no normalisation.
    """

    def __init__(
        self, n_in: int, n_out: int, *, width: int, depth: int, ghost: int | None = None
    ) -> None:
        super().__init__()
        widths = [n_in, *[width] * depth]
        biased = ghost is None
        self.hidden = nn.ModuleList(
            nn.Linear(a, b, bias=biased) for a, b in itertools.pairwise(widths)
        )
        self.output = nn.Linear(width, n_out)
        n_norms = 0 if ghost is None else depth
        self.norms = nn.ModuleList(BatchNorm(width, ghost=ghost or 0) for _ in range(n_norms))

    def forward(self, x_BI: torch.Tensor) -> torch.Tensor:
        """(B, I) to (B, O), or (M, B, I) to (M, B, O) with stacked parameters."""
        h_BH = x_BI
        for i, layer in enumerate(cast(Iterable[nn.Linear], self.hidden)):
            h_BH = linear(h_BH, layer.weight, layer.bias, is_input=i == 0)
            h_BH = (self.norms[i](h_BH) if self.norms else h_BH).relu_()
        return linear(h_BH, self.output.weight, self.output.bias)
