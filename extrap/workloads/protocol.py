"""What a workload offers to the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import nn

__all__ = ["Batch", "LoadedWorkload"]

Batch = tuple[torch.Tensor, ...]


class LoadedWorkload(Protocol):
    """A model family and its data, ready to train; anything with these members will do.

    A batch is a tuple of tensors whose first axis counts examples.
    """

    @property
    def fingerprint(self) -> Mapping[str, str | int]:
        """What identifies the data: hash, bytes, files."""

    @property
    def tokens_per_example(self) -> int:
        """Predicted tokens in one example."""

    @property
    def validation(self) -> Batch:
        """Every held-out example, on the CPU."""

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised model, drawn from torch's global CPU generator.

        Parameters only, no buffers: runs are stacked by their parameters.
        """

    def draw(self, n_examples: int, generator: torch.Generator) -> Batch:
        """Training examples drawn with a CPU generator."""

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over a batch, a scalar in nats; must work under `torch.func.vmap`."""

    def n_params(self, size: Mapping[str, float]) -> int:
        """Parameters without embeddings."""

    def n_params_total(self, size: Mapping[str, float]) -> int:
        """Parameters with embeddings."""
