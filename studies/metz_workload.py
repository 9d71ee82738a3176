"""Classes of images, by the MLP of Metz' study.

Shapes: B examples, F channels times pixels; a leading run axis M may precede them.

References:
    Luke Metz 2022, "On the difficulty of extrapolation with NN scaling": 3 hidden layers of one
    width, Adam, batches of 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from extrap.errors import DataError
from extrap.workloads import Batch, TensorWorkload
from extrap.workloads.layers import cross_entropy
from extrap.workloads.mlp import MLP
from extrap.workloads.options import read_options, whole_sizes

NAME = "images"
MOST_CLASSES = 99_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `Images`."""

    path: str = ""  # an .npz of images, as `read_images` describes it
    resolution: int = 0  # side in pixels to which images are made smaller; 0 for as they are
    held_out: float = 0.1  # fraction held out of data that come without a test split
    split_seed: int = 0  # which part that is
    depth: int = 3  # hidden layers, unless `depth` is a size
    n_validation: int = 10_000  # held-out images to use at most


class Images(TensorWorkload):
    """Names the class of an image; sizes are `width` and maybe `depth`.

    An MLP of `depth` hidden ReLU layers, PyTorch's default initialisation. Images stay bytes in
    memory; each channel is brought to mean 0 and sd 1 over the training images as a batch is
    drawn. One example is one image.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, **given: object) -> None:
        self.options = options = read_options(NAME, Options, given)
        if not 0 < options.held_out < 1:
            raise ValueError(
                f"held_out of {NAME} must lie in (0, 1), got {options.held_out:g}; write 0.1 "
                "for a tenth."
            )
        training, held_out = read_images(
            options.path,
            resolution=options.resolution,
            held_out=options.held_out,
            split_seed=options.split_seed,
        )
        self.n_classes = int(training.labels.max()) + 1
        # mixed, so that the first few, which curves are made of, speak for all
        rows = np.random.default_rng(0).permutation(len(held_out.images))[: options.n_validation]
        seen, unseen = _tensors(*training[:2]), _tensors(*(part[rows] for part in held_out[:2]))
        super().__init__(
            training=seen,
            validation=unseen,
            options={k: v for k, v in asdict(options).items() if k != "path"},
        )
        scales = _channel_scales(training.images)
        self.training = (*seen, *scales)
        self.validation = self.examples((*unseen, *scales), torch.arange(len(rows)))

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one size."""
        whole = whole_sizes(NAME, size, {"width": None, "depth": self.options.depth})
        return MLP(self.training[0][0].numel(), self.n_classes, **whole)

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


class Split(NamedTuple):
    """One part of the data."""

    images: np.ndarray  # (n, height, width, channels), uint8
    labels: np.ndarray  # (n,), classes from 0
    source: str  # where they come from, for messages


def read_images(
    path: str, *, resolution: int, held_out: float, split_seed: int
) -> tuple[Split, Split]:
    """Images to train on and images held out, from `x_train`, `y_train`, `x_test` and `y_test`.

    Images are uint8 of shape (n, height, width) or (n, height, width, channels). The test parts
    may be missing: then a fraction is held out. Images become smaller by averaging over boxes
    (Chrabaszcz et al. 2017, arXiv 1707.08819).

    Raises:
        DataError: Something is missing, corrupt, or does not fit together.
    """
    try:
        with (
            Path(path).expanduser().open("rb") as file,
            np.load(file, allow_pickle=False) as arrays,
        ):
            parts = [
                Split(arrays[f"x_{part}"], arrays[f"y_{part}"], f"{path} ({part})")
                for part in ("train", "test")
                if part == "train" or {"x_test", "y_test"} & set(arrays)
            ]
    except Exception as error:  # a broken file raises anything
        raise DataError(
            "images are an .npz of the arrays x_train and y_train, and perhaps x_test and y_test, "
            f"got {path!r}, which cannot be read: {error}; write it with numpy.savez."
        ) from error
    training, *test = (_smaller(_sound(part), resolution) for part in parts)
    training, validation = (training, *test) if test else _parts(training, held_out, split_seed)
    shapes = [part.images.shape[1:] for part in (training, validation)]
    n_classes, n_held_out = (part.labels.max() + 1 for part in (training, validation))
    if shapes[0] != shapes[1] or n_classes < 2 or n_held_out > n_classes:
        raise DataError(
            "training and held-out images must have the same shape, and the training ones at "
            "least 2 classes and every class of the held-out ones, got "
            f"{shapes[0]} with {n_classes} in {training.source} and {shapes[1]} with "
            f"{n_held_out} in {validation.source}."
        )
    return training, validation


def _sound(split: Split) -> Split:
    images, labels, source = split
    images = images[..., None] if images.ndim == 3 else images
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if images.dtype != np.uint8 or images.ndim != 4 or not images.size:
        raise DataError(
            "images must be whole numbers from 0 to 255 (uint8) of shape (n, height, width) "
            f"or (n, height, width, channels), got {images.dtype} {images.shape} in {source}."
        )
    is_fine = labels.dtype.kind in "iu" and labels.shape == images.shape[:1]
    if not is_fine or labels.min() < 0 or labels.max() > MOST_CLASSES:
        span = f"{labels.min()} to {labels.max()}" if labels.size else "none"
        raise DataError(
            f"{len(images)} images need as many labels, whole numbers from 0 to {MOST_CLASSES} at "
            f"most, got {labels.dtype} {labels.shape}, {span}, in {source}."
        )
    return Split(images, labels, source)


def _parts(split: Split, fraction: float, seed: int) -> list[Split]:
    """A training and a held-out part, both in the order of the files."""
    images, labels, source = split
    n_held_out = round(fraction * len(images))
    if not 0 < n_held_out < len(images):
        raise DataError(
            f"a fraction of {fraction:g} of {len(images)} images in {source} leaves one part "
            "empty; give more images or another held_out."
        )
    chosen = np.zeros(len(images), dtype=bool)
    chosen[np.random.default_rng(seed).permutation(len(images))[:n_held_out]] = True
    return [Split(images[at], labels[at], source) for at in (~chosen, chosen)]


def _smaller(split: Split, resolution: int) -> Split:
    """Means over equal boxes, rounded."""
    n_images, height, width, channels = split.images.shape
    if resolution in (0, height) and resolution in (0, width):
        return split
    if height % resolution or width % resolution:
        raise DataError(
            f"resolution must divide the sides of the images, got {resolution} for {height} × "
            f"{width} pixels in {split.source}; choose a divisor, or 0 to keep the size."
        )
    small = np.empty((n_images, resolution, resolution, channels), dtype=np.uint8)
    boxes = (-1, resolution, height // resolution, resolution, width // resolution, channels)
    for start in range(0, n_images, 1024):  # the means are floats; only so many at once
        part = slice(start, start + 1024)
        small[part] = split.images[part].reshape(boxes).mean((2, 4)).round()
    return split._replace(images=small)
