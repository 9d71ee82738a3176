"""A multilayer perceptron that takes a leading run axis.

Shapes: B examples, I features in, H width, O features out; a leading run axis M may precede them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

import torch
from torch import nn

from extrap.workloads.layers import linear


class MLP(nn.Module):
    """`depth` hidden ReLU layers of one width and a linear one; PyTorch's own initialisation."""

    def __init__(self, n_in: int, n_out: int, *, width: int, depth: int) -> None:
        super().__init__()
        widths = [n_in, *[width] * depth]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.output = nn.Linear(width, n_out)

    def forward(self, x_BI: torch.Tensor) -> torch.Tensor:
        """(B, I) to (B, O), or (M, B, I) to (M, B, O) with stacked parameters."""
        h_BH = x_BI
        for layer in cast(Iterable[nn.Linear], self.hidden):
            h_BH = linear(h_BH, layer.weight, layer.bias).relu_()
        return linear(h_BH, self.output.weight, self.output.bias)
