"""A student perceptron that learns a teacher perceptron: where pruning data has a theory.

Features are Gaussian, x ~ N(0, I) in d dimensions, and the teacher's label is y = sign(t · x),
with |t| = 1. A student w, 0 at the start, is trained on the logistic loss of y w · x. Its held-out
loss is *not* nats but its error on new examples, known exactly from its angle to the teacher:

    ε(w) = arccos(w · t / |w|) / π,  1 for w = 0, which names no class.

The difficulty of an example is how near it lies to the plane of a probe: −|p · x|, where the probe
p is the teacher turned by `probe_angle`. Shapes: B examples, F features; a leading run axis M may
precede them.

References:
    Sorscher, Geirhos, Shekhar, Ganguli, Morcos 2022, arXiv 2206.14486, Section 2 and Appendix A;
    their student is the separating plane of largest margin, to which gradient descent on the
    logistic loss tends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from extrap.workloads.kept import Choice, SelectOptions
from extrap.workloads.layers import linear
from extrap.workloads.options import read_options
from extrap.workloads.protocol import Batch, TensorWorkload
from extrap.workloads.sizes import whole_sizes

NAME = "perceptron"
Array = np.ndarray
INVERSE_PENALTY = 100.0
"""Of the probe of an active learner: next to no penalty on its weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(SelectOptions):
    """The options of `perceptron`; see also `SelectOptions`.

    Attributes:
        dimension: Features d of an example.
        n_examples: Training examples there are.
        probe_angle: Degrees between the teacher and the probe that tells difficulty, in [0, 90].
        data_seed: Seed of teacher and training examples, which are the same for all runs' seeds.
    """

    dimension: int = 100
    n_examples: int = 65_536
    probe_angle: float = 0.0
    data_seed: int = 0


class _Student(nn.Module):
    """A plane through 0; it sees the first features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.plane = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.plane.weight)

    def forward(self, x_BF: torch.Tensor) -> torch.Tensor:
        weight = self.plane.weight
        return linear(x_BF[..., : weight.shape[-1]], weight).squeeze(-1)


def _logistic_loss(margin_B: torch.Tensor) -> torch.Tensor:
    """log(1 + exp(−margin)), of each by itself: torch's softplus rounds by the place in a pack."""
    pair_B2 = torch.stack((margin_B, torch.zeros_like(margin_B)), -1)
    return -pair_B2.log_softmax(-1)[..., 0]


class Perceptron(TensorWorkload):
    """Learns a plane; sizes are `examples` and maybe `width`, the features seen (all of them).

    The one held-out example is the teacher itself: in evaluation mode the loss of a student on a
    vector t is its error where t is the teacher.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, given: Mapping[str, object]) -> None:
        self.options = options = read_options(NAME, Options, given)
        if options.probe_angle > 90:
            raise ValueError(
                f"probe_angle of {NAME} must be at most 90 degrees, got {options.probe_angle:g}."
            )
        rng = np.random.default_rng(options.data_seed)
        teacher, aside = np.linalg.qr(rng.standard_normal((options.dimension, 2)))[0].T
        x = rng.standard_normal((options.n_examples, options.dimension), dtype=np.float32)
        y = np.where(x @ teacher.astype(np.float32) > 0, 1.0, -1.0).astype(np.float32)
        angle = math.radians(options.probe_angle)
        self._probe = (math.cos(angle) * teacher + math.sin(angle) * aside).astype(np.float32)
        held_out = torch.from_numpy(teacher.astype(np.float32))
        super().__init__(
            training=(torch.from_numpy(x), torch.from_numpy(y)),
            validation=(held_out[None], torch.ones(1)),
        )
        # options give the data; a hash of them would differ in the last bits between processors
        self.fingerprint = asdict(options)
        self._choice = Choice(
            NAME,
            options,
            n_training=options.n_examples,
            difficulty=self._difficulty,
            doubts=self._doubts,
        )

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A student at 0."""
        dimension = self.options.dimension
        width = whole_sizes(NAME, size, {"width": None})["width"] if size else dimension
        if width > dimension:
            raise ValueError(
                f"the width of {NAME} must be at most its dimension, {dimension}, got "
                f"{width}; raise the option dimension."
            )
        return _Student(width)

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean logistic loss while it trains; in evaluation mode the error, see the class."""
        x_BF, y_B = batch
        if module.training:
            margin_B = y_B * module(x_BF)
            return _logistic_loss(margin_B).mean(-1)
        (weight,) = module.parameters()
        w_1F = functional.pad(weight, (0, x_BF.shape[-1] - weight.shape[-1]))
        along_B = (w_1F * x_BF).sum(-1)
        across_B = (w_1F - along_B.unsqueeze(-1) * x_BF).norm(dim=-1)
        # an arctangent keeps the digits of small angles, which an arccosine loses
        error_B = torch.atan2(across_B, along_B) / math.pi
        is_zero_B = (across_B == 0) & (along_B == 0)
        return torch.where(is_zero_B, torch.ones_like(error_B), error_B).mean(-1)

    def kept_rows(self, n_examples: int | None, seed: int) -> Array | None:
        """Rows of the examples a run has, see `SelectingWorkload`."""
        return self._choice.rows(n_examples, seed)

    def _difficulty(self, pool: Array, seed: int) -> Array:
        return -np.abs(self.training[0].numpy()[pool] @ self._probe)

    def _doubts(self, labelled: Array, pool: Array) -> Array:
        """How near each example of a pool is to the plane that the labelled ones give."""
        from sklearn.linear_model import LogisticRegression

        x, y = (t.numpy() for t in self.training)
        if len(np.unique(y[labelled])) < 2:
            return np.zeros(len(pool))
        probe = LogisticRegression(C=INVERSE_PENALTY, fit_intercept=False, max_iter=1000)
        plane = probe.fit(x[labelled], y[labelled]).coef_[0]
        return -np.abs(x[pool] @ plane)
