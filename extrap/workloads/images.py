"""Classes of images, by the MLP of Metz' study.

Shapes: B examples, F channels times pixels; a leading run axis M may precede them.

References:
    Luke Metz 2022, "On the difficulty of extrapolation with NN scaling": 3 hidden layers of one
    width, Adam, batches of 128.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from extrap.workloads.image_files import read_images
from extrap.workloads.layers import cross_entropy
from extrap.workloads.mlp import MLP
from extrap.workloads.options import read_options, whole_sizes
from extrap.workloads.protocol import Batch, TensorWorkload

NAME = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `images`.

    Attributes:
        path: An .npz of images, as `read_images` describes it.
        resolution: Side length in pixels to which images are made smaller; 0 leaves them as they
            are.
        held_out: Fraction held out of data that come without a test split.
        split_seed: Which part that is.
        depth: Hidden layers, unless `depth` is a size.
        n_validation: Held-out images to use at most.
    """

    path: str = ""
    resolution: int = 0
    held_out: float = 0.1
    split_seed: int = 0
    depth: int = 3
    n_validation: int = 10_000


class Images(TensorWorkload):
    """Names the class of an image; sizes are `width` and maybe `depth`.

    An MLP of `depth` hidden ReLU layers, PyTorch's default initialisation. Images stay bytes in
    memory; each channel is brought to mean 0 and sd 1 over the training images as a batch is
    drawn. One example is one image.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, given: Mapping[str, object]) -> None:
        self.options = options = read_options(NAME, Options, given)
        if not 0 < options.held_out < 1:
            raise ValueError(
                f"held_out of {NAME} must lie in (0, 1), got {options.held_out:g}; write 0.1 "
                "for a tenth."
            )
        images = read_images(
            options.path,
            resolution=options.resolution,
            held_out=options.held_out,
            split_seed=options.split_seed,
        )
        self.n_classes = images.n_classes
        self.shape = images.training.shape[1:]
        # mixed, so that the first few, which curves are made of, speak for all
        rows = np.random.default_rng(0).permutation(len(images.validation))[: options.n_validation]
        held_out = _tensors(images.validation[rows], images.validation_labels[rows])
        training = _tensors(images.training, images.training_labels)
        super().__init__(
            training=training,
            validation=held_out,
            options={k: v for k, v in asdict(options).items() if k != "path"},
        )
        self.training = (*training, *_channel_scales(images.training))
        self.validation = self.examples((*held_out, *self.training[2:]), torch.arange(len(rows)))

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one size."""
        whole = whole_sizes(NAME, size, {"width": None, "depth": self.options.depth})
        return MLP(math.prod(self.shape), self.n_classes, **whole)

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """Normalised images (…, B, F) and their classes (…, B)."""
        pixels, labels, mean, sd = training
        x = (pixels[rows].to(mean.dtype) - mean) / sd
        return x.flatten(-2), labels[rows]

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the class, in nats."""
        x_BF, y_B = batch
        return cross_entropy(module(x_BF), y_B, packed=x_BF.dim() == 3)


def _tensors(images: np.ndarray, labels: np.ndarray) -> Batch:
    """Bytes of shape (n, pixels, channels) and classes (n,)."""
    pixels = images.reshape(len(images), -1, images.shape[-1])
    return torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64))


def _channel_scales(images: np.ndarray) -> Batch:
    """Mean and sd of each channel, from whole-numbered counts, so that they are exact."""
    values = np.arange(256)
    counts = [
        np.bincount(images[..., channel].reshape(-1), minlength=256)
        for channel in range(images.shape[-1])
    ]
    means = np.array([values @ count / count.sum() for count in counts])
    squares = np.array([values**2 @ count / count.sum() for count in counts])
    sds = np.sqrt(squares - means**2)
    sds[sds == 0] = 1.0  # a channel of one single value carries nothing
    return torch.tensor(means, dtype=torch.float32), torch.tensor(sds, dtype=torch.float32)
