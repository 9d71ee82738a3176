from __future__ import annotations

import torch
from torch import nn

from extrap.workloads.mlp import MLP


def test_it_is_linear_layers_with_relu_between() -> None:
    torch.manual_seed(0)
    mlp = MLP(3, 5, width=4, depth=2)
    plain = nn.Sequential(mlp.hidden[0], nn.ReLU(), mlp.hidden[1], nn.ReLU(), mlp.output)
    x = torch.randn(7, 3)
    assert torch.equal(mlp(x), plain(x))
    assert [tuple(p.shape) for p in mlp.parameters() if p.dim() == 2] == [(4, 3), (4, 4), (5, 4)]
