"""Handwritten digits that come with scikit-learn, learned with batch normalisation over ghosts.

1,797 images of 8 × 8 pixels with 17 shades; a fixed third is held out. `batch_norm.py`,
`batch_ablations.py` and `noise_scale.py` share this file. Shapes: B examples, F pixels, O units, G
ghosts of a batch; a leading run axis M may precede them.

References:
    Alpaydin and Kaynak 1998, "Optical recognition of handwritten digits", UCI Machine Learning
    Repository; its test part. Hoffer, Hubara, Soudry 2017, arXiv 1705.08741, Alg. 1. Change from
    the paper: there the weights (1 − η)^i of the ghosts start at i = 1 and do not add up to 1;
    here at 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from extrap.workloads import Batch, TensorWorkload
from extrap.workloads.layers import cross_entropy, linear

N_CLASSES, N_PIXELS, N_HELD_OUT, DEPTH = 10, 64, 599, 2
HALF_SHADES = 8.0
"""Shades go from 0 to twice that; 0 stays 0, so that a pixel nobody writes on has no gradient."""
MOMENTUM, EPS = 0.1, 1e-5


class Digits(TensorWorkload):
    """Names the digit of an image, by an MLP; the size is `width`.

    Args:
        ghost: Examples of the ghost batches that batch normalisation takes its statistics over, 0
            for the whole batch; None for no normalisation.
        label_noise: Fraction of the training labels that are replaced by one drawn from all
            classes, in [0, 1]; held-out labels are right.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, *, ghost: int | None = None, label_noise: float = 0.0) -> None:
        if not 0 <= label_noise <= 1:
            raise ValueError(f"label_noise must be a fraction in [0, 1], got {label_noise:g}.")
        rng = np.random.default_rng(0)
        pixels, labels = load_digits(return_X_y=True)
        order = rng.permutation(len(pixels))
        x = torch.from_numpy((pixels[order] / HALF_SHADES).astype(np.float32))
        y = labels[order].astype(np.int64)
        n_training = len(y) - N_HELD_OUT
        wrong = rng.permutation(n_training)[: round(label_noise * n_training)]
        y[wrong] = rng.integers(N_CLASSES, size=len(wrong))
        targets = torch.from_numpy(y)
        self._ghost = ghost
        super().__init__(
            training=(x[:n_training], targets[:n_training]),
            validation=(x[n_training:], targets[n_training:]),
            options={
                "norm": "none" if ghost is None else "batch",
                "ghost": ghost or 0,
                "label_noise": label_noise,
            },
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one width."""
        return Net(int(size["width"]), self._ghost)

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the digit, in nats."""
        x_BF, y_B = batch
        return cross_entropy(module(x_BF), y_B, packed=x_BF.dim() == 3)


class Net(nn.Module):
    """Hidden ReLU layers of one width, normalised or not, and a linear one."""

    def __init__(self, width: int, ghost: int | None) -> None:
        super().__init__()
        widths = [N_PIXELS, *[width] * DEPTH]
        self.hidden = nn.ModuleList(
            nn.Linear(a, b, bias=ghost is None) for a, b in itertools.pairwise(widths)
        )
        self.output = nn.Linear(width, N_CLASSES)
        n_norms = 0 if ghost is None else DEPTH
        self.norms = nn.ModuleList(BatchNorm(width, ghost=ghost or 0) for _ in range(n_norms))

    def forward(self, x_BF: torch.Tensor) -> torch.Tensor:
        """Images (B, F) to logits (B, 10), or (M, B, F) to (M, B, 10)."""
        h_BO = x_BF
        for i, layer in enumerate(cast(Iterable[nn.Linear], self.hidden)):
            h_BO = linear(h_BO, layer.weight, layer.bias)
            h_BO = (self.norms[i](h_BO) if self.norms else h_BO).relu_()
        return linear(h_BO, self.output.weight, self.output.bias)


class BatchNorm(nn.Module):
    """Batch normalisation over ghosts, parts of a batch with statistics of their own.

    Gain and bias are shared by all ghosts. The running statistics r are buffers: in training they
    go through the ghosts one after the other, r ← (1 − η) r + η s, with the unbiased variance as
    PyTorch has it; in evaluation they are all that counts.

    Args:
        n_features: O.
        ghost: Examples of a ghost; a batch of no more is one, and 0 makes it one.
    """

    def __init__(self, n_features: int, *, ghost: int = 0) -> None:
        super().__init__()
        self.ghost = ghost
        self.weight = nn.Parameter(torch.ones(n_features))
        self.bias = nn.Parameter(torch.zeros(n_features))
        self.register_buffer("running_mean", torch.zeros(n_features))
        self.register_buffer("running_var", torch.ones(n_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, O) or (M, B, O), normalised.

        Raises:
            ValueError: A batch does not consist of whole ghosts, or a ghost has a single example.
        """
        mean, var = self.get_buffer("running_mean"), self.get_buffer("running_var")
        if not self.training:
            scale = self.weight * torch.rsqrt(var + EPS)
            bias = (self.bias - mean * scale).unsqueeze(-2)
            return torch.addcmul(bias, x, scale.unsqueeze(-2))
        n = x.shape[-2]
        size = min(self.ghost, n) if self.ghost else n
        if n % size or size < 2:
            raise ValueError(
                f"a batch must consist of whole ghost batches of at least 2 examples, got {n} "
                f"examples and ghost batches of {size}; use a batch size that is a multiple "
                "of theirs."
            )
        x_G = x.unflatten(-2, (n // size, size)).to(mean.dtype)  # sums of bf16 lose too much
        var_G, mean_G = torch.var_mean(x_G, dim=-2, correction=0, keepdim=True)
        with torch.no_grad():
            n_ghosts = n // size
            age = torch.arange(n_ghosts - 1, -1, -1, device=x.device, dtype=mean.dtype)
            part_G = (MOMENTUM * (1 - MOMENTUM) ** age).unsqueeze(-1)
            kept = (1 - MOMENTUM) ** n_ghosts
            mean.mul_(kept).add_((part_G * mean_G.squeeze(-2)).sum(-2))
            unbiased_G = var_G.squeeze(-2) * (size / (size - 1))
            var.mul_(kept).add_((part_G * unbiased_G).sum(-2))
        normal = ((x_G - mean_G) * torch.rsqrt(var_G + EPS)).flatten(-3, -2)
        return torch.addcmul(self.bias.unsqueeze(-2), normal, self.weight.unsqueeze(-2))
