"""Digits drawn as curves of 40 points (MNIST-1D), by a small convolutional network.

The package `mnist1d` draws them by a seed; nothing is fetched. Shapes: B examples, P points, C
channels; a leading run axis M may precede them.

References:
    Greydanus and Kobak 2024, "Scaling down deep learning with MNIST-1D", arXiv 2011.14439: the
    data and the network, there of 25 channels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from extrap.errors import DataError
from extrap.workloads import Batch, TensorWorkload
from extrap.workloads.layers import cross_entropy, linear
from extrap.workloads.options import whole_sizes

NAME = "mnist1d"
N_CLASSES = 10
KERNELS = (5, 3, 3)
"""Points of the convolutions; each takes every other position and sees a zero at both ends."""
POINTS_LEFT = 5
"""Positions after the last one, of 40."""


class Curves(TensorWorkload):
    """Names the digit of a curve; the size is `width`, the channels of each convolution.

    Args:
        n_examples: Curves, a tenth of them held out.
        seed: Of the data.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, *, n_examples: int = 40_000, seed: int = 42) -> None:
        points, labels = draw_curves(n_examples, seed)
        x, y = torch.from_numpy(points.astype(np.float32)), torch.from_numpy(labels)
        n_training = n_examples - n_examples // 10
        super().__init__(
            training=(x[:n_training], y[:n_training]),
            validation=(x[n_training:], y[n_training:]),
            options={"n_examples": n_examples, "seed": seed},
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one width."""
        return Net(whole_sizes(NAME, size, {"width": None})["width"])

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the digit, in nats."""
        x_BP, y_B = batch
        return cross_entropy(module(x_BP), y_B, packed=x_BP.dim() == 3)


class Net(nn.Module):
    """Three convolutions of one width with ReLU, and a linear layer over all positions.

    A convolution is a linear layer over the windows of its input, which takes a run axis.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        channels = [1, *[width] * (len(KERNELS) - 1)]
        self.convolutions = nn.ModuleList(
            nn.Linear(n_in * kernel, width) for n_in, kernel in zip(channels, KERNELS, strict=True)
        )
        self.output = nn.Linear(POINTS_LEFT * width, N_CLASSES)

    def forward(self, x_BP: torch.Tensor) -> torch.Tensor:
        """(B, P) to logits (B, 10), or (M, B, P) to (M, B, 10) with stacked parameters."""
        h_BPC = x_BP.unsqueeze(-1)
        for layer, kernel in zip(self.convolutions, KERNELS, strict=True):
            windows = functional.pad(h_BPC, (0, 0, 1, 1)).unfold(-2, kernel, 2).flatten(-2)
            h_BPC = linear(windows, layer.weight, layer.bias).relu()
        return linear(h_BPC.flatten(-2), self.output.weight, self.output.bias)


def draw_curves(n_examples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Curves (n, 40) of mean 0 and sd 1, and their digits, mixed; the package's own defaults.

    The package draws from NumPy's global stream, which is put back.

    Raises:
        DataError: The package is not installed.
    """
    try:
        from mnist1d.data import get_dataset_args, make_dataset
    except ImportError as error:
        raise DataError(
            f"MNIST-1D is drawn by the package mnist1d, which cannot be imported ({error}); "
            "install its version in constraints.txt, as with `pip install -c constraints.txt "
            "mnist1d`."
        ) from error
    arguments = get_dataset_args()
    arguments.num_samples, arguments.seed, arguments.train_split = n_examples, seed, 1.0
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        drawn = make_dataset(arguments)
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
    return drawn["x"], drawn["y"].astype(np.int64)
