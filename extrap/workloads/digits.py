"""Handwritten digits that come with scikit-learn: small enough to learn by heart, found offline.

1,797 images of 8 × 8 pixels with 17 shades; a fixed third is held out. Shapes: B examples, F
pixels; a leading run axis M may precede them.

References:
    Alpaydin and Kaynak 1998, "Optical recognition of handwritten digits", UCI Machine Learning
    Repository; its test part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from extrap.selection import prototype_distance
from extrap.workloads.kept import Choice, SelectOptions, known_options
from extrap.workloads.layers import cross_entropy
from extrap.workloads.mlp import MLP
from extrap.workloads.options import read_options
from extrap.workloads.protocol import Batch, TensorWorkload
from extrap.workloads.sizes import whole_sizes

NAME = "digits"
NORMS = ("none", "batch")
MEASURES = ("prototypes", "margin")
N_CLASSES, N_PIXELS, N_HELD_OUT = 10, 64, 599
HALF_SHADES = 8.0
"""Shades go from 0 to twice that; 0 stays 0, so that a pixel nobody writes on has no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(SelectOptions):
    """The options of `digits`; see also `SelectOptions`.

    An active learner doubts by logistic regression of the pixels.

    Attributes:
        width: Units of a hidden layer where `width` is not a size; 0 where it is.
        depth: Hidden layers, unless `depth` is a size.
        norm: `"none"`, or `"batch"`: batch normalisation before every ReLU.
        ghost: Examples of the ghost batches it takes its statistics over; 0 for the whole batch.
        label_noise: Fraction of the training labels that are replaced by one drawn from all
            classes, in [0, 1]; held-out labels are right.
        difficulty: What `select` goes by: `"prototypes"`, the distance of the pixels to the
            nearest of ten that k-means finds; or `"margin"`, minus that of a logistic regression
            which has seen all training labels.
        split_seed: Which third is held out, and which labels are wrong.
    """

    width: int = 0
    depth: int = 2
    norm: str = "none"
    ghost: int = 0
    label_noise: float = 0.0
    difficulty: str = "prototypes"
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
        if options.difficulty not in MEASURES:
            raise ValueError(
                f"difficulty of {NAME} must be one of {', '.join(MEASURES)}, got "
                f"{options.difficulty!r}."
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
            options=known_options(options),
        )
        self._all_doubts: np.ndarray | None = None
        self._choice = Choice(
            NAME,
            options,
            n_training=n_training,
            difficulty=self._difficulty,
            labels=y[:n_training],
            doubts=self._doubts,
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one size."""
        options = self.options
        whole = whole_sizes(NAME, size, {"width": options.width or None, "depth": options.depth})
        ghost = None if options.norm == "none" else options.ghost
        return MLP(N_PIXELS, N_CLASSES, **whole, ghost=ghost)

    def kept_rows(self, n_examples: int | None, seed: int) -> np.ndarray | None:
        """Rows of the examples a run has, see `SelectingWorkload`."""
        return self._choice.rows(n_examples, seed)

    def answers(self, module: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, V) and the right classes (B,)."""
        x_BF, y_B = batch
        return module(x_BF), y_B

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the digit, in nats."""
        x_BF, y_B = batch
        return cross_entropy(module(x_BF), y_B, packed=x_BF.dim() == 3)

    def _difficulty(self, pool: np.ndarray, seed: int) -> np.ndarray:
        if self.options.difficulty == "margin":
            return self._margins()[pool]
        pixels = self.training[0].numpy()[pool]
        n_clusters = min(N_CLASSES, len(pool))
        return prototype_distance(pixels, n_clusters=n_clusters, seed=seed)

    def _margins(self) -> np.ndarray:
        """Doubts about every training example of a model that has seen them all; fitted once."""
        if self._all_doubts is None:
            everyone = np.arange(len(self.training[0]))
            self._all_doubts = self._doubts(everyone, everyone)
        return self._all_doubts

    def _doubts(self, labelled: np.ndarray, pool: np.ndarray) -> np.ndarray:
        """Minus the margin between the two likeliest digits, by the labelled examples."""
        from sklearn.linear_model import LogisticRegression

        x, y = (t.numpy() for t in self.training)
        if len(np.unique(y[labelled])) < 3:
            return np.zeros(len(pool))
        probe = LogisticRegression(max_iter=1000).fit(x[labelled], y[labelled])
        shares = np.sort(probe.predict_proba(x[pool]), axis=1)
        return shares[:, -2] - shares[:, -1]
