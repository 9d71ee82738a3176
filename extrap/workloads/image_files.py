"""Labelled images from an .npz."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from extrap.errors import DataError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
MOST_CLASSES = 99_999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledImages:
    """Images to train on and images held out.

    Attributes:
        training: Shape (n, height, width, channels), uint8.
        training_labels: Shape (n,), classes from 0.
        validation: Like `training`.
        validation_labels: Like `training_labels`.
        n_classes: Classes among the training labels, gaps counted.
    """

    training: np.ndarray
    training_labels: np.ndarray
    validation: np.ndarray
    validation_labels: np.ndarray
    n_classes: int


UNREADABLE = (
    OSError,
    EOFError,
    MemoryError,  # its header may promise more than there is
    OverflowError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading an .npz raises that is none."""


class _Split(NamedTuple):
    images: np.ndarray
    labels: np.ndarray
    source: str


def read_images(path: str, *, resolution: int, held_out: float, split_seed: int) -> LabelledImages:
    """Read the arrays `x_train`, `y_train`, `x_test` and `y_test`.

    Images are uint8 of shape (n, height, width) or (n, height, width, channels). The test parts
    may be missing: then a fraction is held out. Images become smaller by averaging over boxes
    (Chrabaszcz et al. 2017, arXiv 1707.08819).

    Raises:
        DataError: Something is missing, corrupt, or does not fit together.
    """
    file = Path(path).expanduser()
    if not path or not file.is_file():
        raise DataError(f"the path of images must be an .npz, got {path!r}; check the path.")
    parts = [_smaller(_sound(part), resolution) for part in _read_npz(file)]
    training, validation = parts if len(parts) == 2 else _held_out(parts[0], held_out, split_seed)
    return LabelledImages(
        training=training.images,
        training_labels=training.labels,
        validation=validation.images,
        validation_labels=validation.labels,
        n_classes=_count_classes(training, validation),
    )


def _sound(split: _Split) -> _Split:
    images, labels, source = split
    if images.dtype != np.uint8 or images.ndim != 4 or not images.size:
        raise DataError(
            "images must be whole numbers from 0 to 255 (uint8) of shape (n, height, width) "
            f"or (n, height, width, channels), got {images.dtype} {images.shape} in "
            f"{source}; convert them."
        )
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise DataError(
            f"{len(images)} images need as many labels, whole numbers, got {labels.dtype} "
            f"{labels.shape} in {source}; check that the files belong together."
        )
    if labels.min() < 0 or labels.max() > MOST_CLASSES:
        raise DataError(
            f"labels must number the classes from 0 to {MOST_CLASSES} at most, got "
            f"{labels.min()} to {labels.max()} in {source}; renumber them."
        )
    return split


def _count_classes(training: _Split, validation: _Split) -> int:
    n_classes, n_held_out = (int(part.labels.max()) + 1 for part in (training, validation))
    if training.images.shape[1:] != validation.images.shape[1:]:
        raise DataError(
            "training and held-out images must have the same shape, got "
            f"{training.images.shape[1:]} in {training.source} and "
            f"{validation.images.shape[1:]} in {validation.source}; resize them."
        )
    if n_classes < 2 or n_held_out > n_classes:
        raise DataError(
            "the training images need at least 2 classes and every class of the held-out ones, "
            f"got {n_classes} in {training.source} and {n_held_out} in {validation.source}; check "
            "the labels."
        )
    return n_classes


def _held_out(split: _Split, fraction: float, seed: int) -> list[_Split]:
    """A training and a held-out part, both in the order of the files."""
    n_images = len(split.images)
    n_held_out = round(fraction * n_images)
    if not 0 < n_held_out < n_images:
        raise DataError(
            f"a fraction of {fraction:g} of {n_images} images in {split.source} leaves one part "
            "empty; give more images or another held_out."
        )
    chosen = np.zeros(n_images, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(n_images)[:n_held_out]] = True
    return [_Split(split.images[at], split.labels[at], split.source) for at in (~chosen, chosen)]


def _smaller(split: _Split, resolution: int) -> _Split:
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


def _read_npz(path: Path) -> list[_Split]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ARRAYS if name in file}
    except UNREADABLE as error:
        raise DataError(
            f"an .npz must hold plain arrays, {path} cannot be read: {error}; write it with "
            "numpy.savez."
        ) from error
    missing = [name for name in ARRAYS[:2] if name not in arrays]
    if missing or ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(
            f"an .npz of images must hold {', '.join(ARRAYS)}, or the first two, got "
            f"{', '.join(arrays) or 'none of them'} in {path}; rename the arrays."
        )

    def split(part: str) -> _Split:
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        images = images[..., None] if images.ndim == 3 else images
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        return _Split(images, labels, f"{path} ({part})")

    return [split(part) for part in ("train", "test") if f"x_{part}" in arrays]
