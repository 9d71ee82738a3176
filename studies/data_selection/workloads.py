"""Data of which a run keeps some examples: a plane to learn, and digits to label round by round.

A run with the size column `examples` trains on that many different ones, however long it trains.
Its seed draws the pool that they are chosen from. Shapes: B examples, F features; a leading run
axis M may precede them.

References:
    Sorscher, Geirhos, Shekhar, Ganguli, Morcos 2022, arXiv 2206.14486, Section 2 and Appendix A;
    their student is the separating plane of largest margin, to which gradient descent on the
    logistic loss tends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from extrap import choose_next
from extrap.workloads import Batch, TensorWorkload
from extrap.workloads.layers import cross_entropy
from extrap.workloads.mlp import MLP

DIMENSION, N_EXAMPLES = 100, 65_536
N_HELD_OUT = 599
CHOICES = ("random", "hard", "easy")
FIRST_LABELS, GROWTH = 20, 1.25
"""Examples an active learner takes at random, and by what the labelled ones grow per round."""


class Perceptron(TensorWorkload):
    """A student that learns the plane of a teacher; the only size is `examples`.

    Features are Gaussian, x ~ N(0, I), and the label is y = sign(t · x) with |t| = 1. A student
    w, 0 at the start, is trained on the logistic loss of y w · x. Its held-out loss is *not* nats
    but its error on new examples, known exactly from its angle to the teacher:
    ε(w) = arccos(w · t / |w|) / π, and 1 for w = 0, which names no class. So the one held-out
    example is the teacher itself.

    Args:
        select: `"random"`, `"hard"`, the nearest to the plane, or `"easy"`, the farthest.
        keep: Part of the pool that is kept, in (0, 1].
    """

    has_run_axis = True

    def __init__(self, *, select: str = "random", keep: float = 1.0) -> None:
        if select not in CHOICES or not 0 < keep <= 1:
            raise ValueError(
                f"select must be one of {', '.join(CHOICES)} and keep lie in (0, 1], got "
                f"{select!r} and {keep:g}."
            )
        self._select, self._keep = select, keep
        rng = np.random.default_rng(0)
        teacher = np.linalg.qr(rng.standard_normal((DIMENSION, 2)))[0][:, 0].astype(np.float32)
        x = rng.standard_normal((N_EXAMPLES, DIMENSION), dtype=np.float32)
        self._margins = np.abs(x @ teacher)
        y = np.where(x @ teacher > 0, 1.0, -1.0).astype(np.float32)
        super().__init__(
            training=(torch.from_numpy(x), torch.from_numpy(y)),
            validation=(torch.from_numpy(teacher)[None], torch.ones(1)),
        )
        # options give the data; a hash of them would differ in the last bits between processors
        self.fingerprint = {"dimension": DIMENSION, "n_examples": N_EXAMPLES}
        self.fingerprint |= {"select": select, "keep": keep}

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A student at 0."""
        plane = nn.Linear(DIMENSION, 1, bias=False)
        nn.init.zeros_(plane.weight)
        return plane

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean logistic loss while it trains; in evaluation mode the error, see the class."""
        x_BF, y_B = batch
        (weight,) = module.parameters()
        if module.training:
            margin_B = y_B * (x_BF @ weight.transpose(-1, -2)).squeeze(-1)
            pair_B2 = torch.stack((margin_B, torch.zeros_like(margin_B)), -1)
            return -pair_B2.log_softmax(-1)[..., 0].mean(-1)
        along_B = (weight * x_BF).sum(-1)
        across_B = (weight - along_B.unsqueeze(-1) * x_BF).norm(dim=-1)
        # an arctangent keeps the digits of small angles, which an arccosine loses
        error_B = torch.atan2(across_B, along_B) / math.pi
        is_zero_B = (across_B == 0) & (along_B == 0)
        return torch.where(is_zero_B, torch.ones_like(error_B), error_B).mean(-1)

    def kept_rows(self, n_examples: int | None, seed: int) -> np.ndarray | None:
        """Rows of the examples that a run has: all of its pool, or one end of it."""
        if n_examples is None or self._select == "random":
            return super().kept_rows(n_examples, seed)
        pool = super().kept_rows(round(n_examples / self._keep), seed)
        assert pool is not None
        order = np.argsort(self._margins[pool] * (1 if self._select == "hard" else -1))
        return pool[np.sort(order[:n_examples])]


class Digits(TensorWorkload):
    """Names a digit of scikit-learn's 1,797 ones, a third of them held out; MLPs of one width.

    They are labelled at random or round by round: the ones that a linear model doubts most. It is
    a logistic regression of the pixels of those labelled so far; its doubt is minus the margin
    between the two likeliest digits.

    Args:
        select: `"random"` or `"active"`.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, *, select: str = "random") -> None:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(pixels))
        x = torch.from_numpy((pixels[order] / 8).astype(np.float32))
        y = torch.from_numpy(labels[order].astype(np.int64))
        super().__init__(
            training=(x[:-N_HELD_OUT], y[:-N_HELD_OUT]),
            validation=(x[-N_HELD_OUT:], y[-N_HELD_OUT:]),
            options={"select": select},
        )
        self._select = select
        self._rounds: dict[int, np.ndarray] = {}

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network."""
        return MLP(64, 10, width=64, depth=2)

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the digit, in nats."""
        x_BF, y_B = batch
        return cross_entropy(module(x_BF), y_B, packed=x_BF.dim() == 3)

    def kept_rows(self, n_examples: int | None, seed: int) -> np.ndarray | None:
        """What the learner has labelled, the first first; of more it is the beginning."""
        if n_examples is None or self._select == "random":
            return super().kept_rows(n_examples, seed)
        pool = super().kept_rows(len(self.training[0]), seed)
        assert pool is not None
        labelled = self._rounds.get(seed, np.arange(FIRST_LABELS))
        while len(labelled) < n_examples:
            n = min(round(len(labelled) * GROWTH), len(pool)) - len(labelled)
            doubts = self._doubts(pool[labelled], pool)
            chosen = choose_next(None, labelled=labelled, n=n, difficulty=doubts)
            labelled = np.concatenate([labelled, chosen])
        self._rounds[seed] = labelled
        return pool[labelled[:n_examples]]

    def _doubts(self, labelled: np.ndarray, pool: np.ndarray) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        x, y = (t.numpy() for t in self.training)
        if len(np.unique(y[labelled])) < 3:
            return np.zeros(len(pool))
        probe = LogisticRegression(max_iter=1000).fit(x[labelled], y[labelled])
        shares = np.sort(probe.predict_proba(x[pool]), axis=1)
        return shares[:, -2] - shares[:, -1]
