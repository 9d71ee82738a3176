"""The model and the data of `own_model.py`: handwritten digits, a small convolutional network."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from extrap.workloads import Batch, TensorWorkload


class Net(nn.Module):
    """Two convolutions of `width` channels, the second over every other pixel, and a linear layer.

    Channels are normalised by groups, example by example: nothing but its parameters may tell one
    run of a pack from another.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, stride=2),
            nn.GroupNorm(1, width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * width, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (B, 1, 8, 8) to logits (B, 10)."""
        return self.layers(x)


class Digits(TensorWorkload):
    """scikit-learn's 1,797 digits of 8 × 8 pixels, every fourth one held out.

    Each image comes with several draws of noise, more than a short run can see twice: a law of
    the loss over size needs data that do not run out.

    Args:
        noise: Standard deviation of noise added to the pixels, whose own is .38.
        copies: Draws of noise an image.
    """

    def __init__(self, noise: float = 0.3, copies: int = 16) -> None:
        digits = load_digits()
        x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1).repeat(copies, 1, 1, 1)
        x = x / 16 + noise * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        y = torch.tensor(digits.target).repeat(copies)
        held_out = torch.arange(len(y)) % len(digits.target) % 4 == 0
        super().__init__(
            training=(x[~held_out], y[~held_out]),
            validation=(x[held_out], y[held_out]),
            options={"noise": noise, "copies": copies},
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A network of one width."""
        return Net(int(size["width"]))

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy, in nats."""
        x, y = batch
        return functional.cross_entropy(module(x), y)
