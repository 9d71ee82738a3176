"""Handwritten digits that come with scikit-learn: small enough to learn by heart, found offline.

1,797 images of 8 × 8 pixels with 17 shades; a fixed third is held out. Shapes: B examples, F
pixels; a leading run axis M may precede them.

References:
    Alpaydin and Kaynak 1998, "Optical recognition of handwritten digits", UCI Machine Learning
    Repository; its test part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from extrap.workloads.layers import cross_entropy
from extrap.workloads.mlp import MLP
from extrap.workloads.options import read_options
from extrap.workloads.protocol import Batch, TensorWorkload
from extrap.workloads.sizes import whole_sizes

NAME = "digits"
NORMS = ("none", "batch")
N_CLASSES, N_PIXELS, N_HELD_OUT = 10, 64, 599
HALF_SHADES = 8.0
"""Shades go from 0 to twice that; 0 stays 0, so that a pixel nobody writes on has no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `digits`.

    Attributes:
        width: Units of a hidden layer where `width` is not a size; 0 where it is.
        depth: Hidden layers, unless `depth` is a size.
        norm: `"none"`, or `"batch"`: batch normalisation before every ReLU.
        ghost: Examples of the ghost batches it takes its statistics over; 0 for the whole batch.
        label_noise: Fraction of the training labels that are replaced by one drawn from all
            classes, in [0, 1]; held-out labels are right.
        split_seed: Which third is held out, and which labels are wrong.
    """

    width: int = 0
    depth: int = 2
    norm: str = "none"
    ghost: int = 0
    label_noise: float = 0.0
    split_seed: int = 0


class Digits(TensorWorkload):
    """Names the digit of an image; sizes are `width` and maybe `depth`.

    An MLP of `depth` hidden ReLU layers, PyTorch's default initialisation, pixels from 0 to 2.
    One example is one image; there are 1,198 to train on, drawn with replacement.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, given: Mapping[str, object]) -> None:
        self.options = options = read_options(NAME, Options, given)
        if options.norm not in NORMS:
            raise ValueError(
                f"norm of {NAME} must be one of {', '.join(NORMS)}, got {options.norm!r}."
            )
        if options.ghost and options.norm == "none":
            raise ValueError(
                f"ghost of {NAME} needs batch normalisation, got ghost={options.ghost} "
                "without; set norm='batch'."
            )
        if options.label_noise > 1:
            raise ValueError(
                f"label_noise of {NAME} must be a fraction of at most 1, got "
                f"{options.label_noise:g}."
            )
        from sklearn.datasets import load_digits  # two seconds that no other workload waits for

        rng = np.random.default_rng(options.split_seed)
        pixels, labels = load_digits(return_X_y=True)
        order = rng.permutation(len(pixels))
        x = torch.from_numpy((pixels[order] / HALF_SHADES).astype(np.float32))
        y = labels[order].astype(np.int64)
        n_training = len(y) - N_HELD_OUT
        wrong = rng.permutation(n_training)[: round(options.label_noise * n_training)]
        y[wrong] = rng.integers(N_CLASSES, size=len(wrong))
        targets = torch.from_numpy(y)
        super().__init__(
            training=(x[:n_training], targets[:n_training]),
            validation=(x[n_training:], targets[n_training:]),
            options=asdict(options),
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one size."""
        options = self.options
        whole = whole_sizes(NAME, size, {"width": options.width or None, "depth": options.depth})
        ghost = None if options.norm == "none" else options.ghost
        return MLP(N_PIXELS, N_CLASSES, **whole, ghost=ghost)

    def answers(self, module: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, V) and the right classes (B,)."""
        x_BF, y_B = batch
        return module(x_BF), y_B

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the digit, in nats."""
        x_BF, y_B = batch
        return cross_entropy(module(x_BF), y_B, packed=x_BF.dim() == 3)
