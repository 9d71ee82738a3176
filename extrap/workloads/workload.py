"""What a workload offers to the training loop: a model family and its data.

A workload of your own is a class with these members, most easily a `TensorWorkload` with two
methods, found by `Workload(name="path/to/file.py:ClassName", options={…})`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

Batch = tuple[torch.Tensor, ...]
POOL_STREAM = 2**32
"""Added to a run's seed where its examples are drawn: pools, starts and batches are apart."""
DRAWS = frozenset({"normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "kaiming_uniform_"})
"""Functions that draw the initial values of a tensor in place."""


class LoadedWorkload(Protocol):
    """A model family and its data, ready to train; anything with these members will do.

    A batch is a tuple of tensors whose first axis counts examples. All tensors are on the CPU;
    training moves what it needs. A module that draws random numbers while it trains, as dropout
    does, is the one exception to what a seed fixes: its draws come from torch's own generator,
    and follow the other runs of its pack.
    """

    @property
    def fingerprint(self) -> Mapping[str, str | int | float]:
        """What identifies data and model family: hashes, counts, options."""

    @property
    def tokens_per_example(self) -> int:
        """Predicted tokens in one example."""

    @property
    def n_training_tokens(self) -> int:
        """Different predicted tokens there are to train on: those of one epoch."""

    @property
    def has_run_axis(self) -> bool:
        """Whether `module` and `loss` also work with a leading run axis M.

        If so they are handed stacked parameters (M, …) and batches (M, B, …), and the loss has
        shape (M,). If not, `torch.func.vmap` adds the axis on a GPU; on a CPU runs are computed
        one by one, as batched operations may round by the number of runs.

        A workload with a run axis may also define `shares_inputs`. If it is true, the first
        tensor of a batch may have shape (S, B, …), where S divides M: each entry is the input of
        M / S consecutive runs. `linear` and `embedding` accept such an input.
        """

    @property
    def training(self) -> Batch:
        """The tensors that `examples` reads from."""

    @property
    def validation(self) -> Batch:
        """Every held-out example, mixed: points of a curve come from the first few."""

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised model, drawn from torch's global CPU generator."""

    def draw_batches(
        self, n_batches: int, n_examples: int, generator: torch.Generator
    ) -> torch.Tensor:
        """Rows of training examples of some batches, int64 of shape (n_batches, n_examples).

        They are drawn with a CPU generator; one call gives what a call for each batch would.
        """

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """The examples in given rows.

        Args:
            training: The tensors of `training`, perhaps on another device.
            rows: Rows as `draw_batches` gives them, on that device, with any leading axes: (…, B).

        Returns:
            Tensors of shape (…, B, …).
        """

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over a batch in nats, a scalar (or of shape (M,), see `has_run_axis`)."""

    def n_params(self, size: Mapping[str, float]) -> int:
        """Parameters without embeddings.

        A workload may also define `flops(size, n_tokens)`: the training compute of a run, where
        that is not 6 N D.
        """

    def n_params_total(self, size: Mapping[str, float]) -> int:
        """Parameters with embeddings."""


class TensorWorkload(ABC):
    """A workload whose examples are rows of tensors; a subclass adds `build` and `loss`.

    Args:
        training: Tensors whose first axis counts the training examples.
        validation: The held-out examples likewise.
        options: Whatever else determines the results; goes into the fingerprint.
    """

    tokens_per_example = 1
    has_run_axis = shares_inputs = False

    def __init__(
        self,
        *,
        training: Batch,
        validation: Batch,
        options: Mapping[str, str | int | float] | None = None,
    ) -> None:
        self.training = training
        self.validation = validation
        digest = hashlib.sha256()
        for tensor in (*training, *validation):
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        self.fingerprint: Mapping[str, str | int | float] = {
            "data_sha256": digest.hexdigest(),
            **(options or {}),
        }

    @abstractmethod
    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised model of one size."""

    @abstractmethod
    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over a batch."""

    @property
    def n_rows(self) -> int:
        """Training examples: rows that `examples` can be asked for."""
        return len(self.training[0])

    @property
    def n_training_tokens(self) -> int:
        """All of every training example."""
        return self.n_rows * self.tokens_per_example

    def draw_batches(
        self, n_batches: int, n_examples: int, generator: torch.Generator
    ) -> torch.Tensor:
        """Rows drawn uniformly, with replacement."""
        return torch.randint(self.n_rows, (n_batches, n_examples), generator=generator)

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """The rows of every tensor."""
        return tuple(tensor[rows] for tensor in training)

    def kept_rows(self, n_examples: int | None, seed: int) -> np.ndarray | None:
        """Rows of the examples a run with the size column `examples` has: any, by its seed.

        Those of a larger number have those of a smaller one among them; None is all of them.

        Raises:
            ValueError: More are asked for than there are.
        """
        if n_examples is None:
            return None
        if not 1 <= n_examples <= self.n_rows:
            raise ValueError(
                f"{type(self).__name__} has {self.n_rows} examples, got a request for "
                f"{n_examples}; ask for fewer."
            )
        return np.random.default_rng(seed + POOL_STREAM).permutation(self.n_rows)[:n_examples]

    def n_params(self, size: Mapping[str, float]) -> int:
        """Parameters without those of `nn.Embedding` layers."""
        module = build_without_memory(self.build, size)
        tables = embedding_tables(module)
        return sum(math.prod(p.shape) for p in module.parameters() if id(p) not in tables)

    def n_params_total(self, size: Mapping[str, float]) -> int:
        """All parameters."""
        module = build_without_memory(self.build, size)
        return sum(math.prod(p.shape) for p in module.parameters())


def take_rows(
    workload: LoadedWorkload, n_examples: int | None, seeds: list[int]
) -> list[np.ndarray] | None:
    """The rows of the examples that each seed has; None if every run has all of them.

    Raises:
        ValueError: The workload cannot restrict its examples, and it should.
    """
    kept_rows = getattr(workload, "kept_rows", None)
    if kept_rows is None:
        if n_examples is None:
            return None
        raise ValueError(
            "the size column 'examples' needs a workload with kept_rows(n_examples, seed), got a "
            f"{type(workload).__name__} without; derive it from extrap.workloads.TensorWorkload."
        )
    rows = [kept_rows(n_examples, seed) for seed in seeds]
    return None if rows[0] is None else rows


def embedding_tables(module: nn.Module) -> set[int]:
    """The `id` of the weight of every `nn.Embedding`."""
    return {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}


def build_without_memory(
    build: Callable[[Mapping[str, float]], nn.Module], size: Mapping[str, float]
) -> nn.Module:
    """The model of one size on the meta device: shapes and names, no values."""
    with torch.device("meta"), _Undrawn():
        return build(size)


class _Undrawn(TorchFunctionMode):
    """Draws nothing into tensors without memory: the first one imports a compiler for a second."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
