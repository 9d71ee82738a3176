"""Regression on a teacher whose laws are known: here stands what a whole study must find.

Features are Gaussian and independent, x_j = √λ_j z_j with z_j ~ N(0, 1) and λ_j = j^-s. The
teacher is y = Σ_j c_j z_j + ε over infinitely many features, ε ~ N(0, σ²), with c_1 = 1 and
c_j² = (j - 1)^-α - j^-α for j ≥ 2, so that the features beyond the n-th explain exactly n^-α of
the variance of y. A student of width n is linear in the first n features: ŷ = Σ_{j≤n} θ_j x_j.
Loss is *half* the mean squared error, not nats:

    L(θ) = ½ (|δ|² + τ),  δ_j = √λ_j θ_j - c_j (j ≤ n),  τ = n^-α + σ²,

    min L = ½ σ² + ½ n^-α.

Shapes: B examples, F features, n student features; a leading run axis M may precede them.

References:
    Ours. With s = 1 + α and one pass of SGD it is the problem of Lin et al. 2024, "Scaling Laws in
    Linear Regression: Compute, Parameters, and Data", arXiv 2406.08466, whose loss falls with the
    data D as D^(-α / s).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from extrap.workloads import Batch, TensorWorkload
from extrap.workloads.layers import linear
from extrap.workloads.options import read_options, whole_sizes

NAME = "teacher"
Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `Teacher`.

    A spectrum of 0 makes all features alike, an easy problem that SGD and Adam solve in some
    hundred steps; with larger ones they learn feature after feature.
    """

    alpha: float = 0.5  # exponent α of the loss in the width
    noise: float = 0.5  # standard deviation σ of what no feature explains; 0 for no floor
    spectrum: float = 0.0  # exponent s of the features' variances
    n_features: int = 256  # of an example, the largest width
    n_examples: int = 65_536  # to train on
    data_seed: int = 0  # of the training examples


class _Student(nn.Module):
    """A linear function of the first features, 0 at the start."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, x_BF: torch.Tensor) -> torch.Tensor:
        width = self.output.weight.shape[-1]
        if width > x_BF.shape[-1]:
            raise _too_wide(width, x_BF.shape[-1])
        return linear(x_BF[..., :width], self.output.weight).squeeze(-1)


class Teacher(TensorWorkload):
    """Fits a linear teacher with a power-law spectrum; the size is `width`, the features seen.

    The held-out examples are as many as there are features and one more, rotated so that their
    mean loss *is* the loss over the whole distribution: held-out losses carry no sampling error.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, **given: object) -> None:
        self.options = options = read_options(NAME, Options, given)
        if not options.alpha:
            raise ValueError(f"alpha of {NAME} must be above 0, got 0; 0.5 is usual.")
        j = np.arange(1, options.n_features + 1, dtype=float)
        self._scales = j ** (-options.spectrum / 2)
        powers = np.append(2.0, j**-options.alpha)  # so that c_1² = 2 - 1
        self._teacher = np.sqrt(-np.diff(powers))
        self._beyond = math.sqrt(self._residual(options.n_features))
        super().__init__(training=self._training(), validation=self._held_out())
        # options give the data; a hash of them would differ in the last bits between processors
        self.fingerprint = asdict(options)

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A student of one width, at 0."""
        return _Student(whole_sizes(NAME, size, {"width": None})["width"])

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Half the mean squared error."""
        x_BF, y_B = batch
        return 0.5 * (module(x_BF) - y_B).square().mean(-1)

    def _residual(self, width: int) -> float:
        """τ: the variance of y that the first features leave."""
        return float(width) ** -self.options.alpha + self.options.noise**2

    def _training(self) -> Batch:
        """Features (n, F) and targets (n,). What lies beyond the last feature is one Gaussian."""
        options = self.options
        rng = np.random.default_rng(options.data_seed)
        shape = (options.n_examples, options.n_features)
        z = rng.standard_normal(shape, dtype=np.float32)
        beyond = rng.standard_normal(options.n_examples, dtype=np.float32)
        y = z @ self._teacher.astype(np.float32) + np.float32(self._beyond) * beyond
        z *= self._scales.astype(np.float32)
        return torch.from_numpy(z), torch.from_numpy(y)

    def _held_out(self) -> Batch:
        """Rows whose second moments are those of the distribution: √R times an orthogonal matrix.

        Any part of them is a fair sample, which the rotation sees to.
        """
        n_rows = self.options.n_features + 1
        square = np.random.default_rng(0).standard_normal((n_rows, n_rows))
        z = math.sqrt(n_rows) * np.linalg.qr(square)[0]
        y = z[:, :-1] @ self._teacher + self._beyond * z[:, -1]
        x = z[:, :-1] * self._scales
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32))


def _too_wide(width: int, n_features: int) -> ValueError:
    return ValueError(
        f"the width of {NAME} must be at most n_features={n_features}, got {width}; raise the "
        "option n_features."
    )
