"""The embedded workload: the next byte of text from the bytes before it, by a small MLP.

Shapes: B examples, C bytes of context, E features of an embedded byte; a leading run axis M may
precede them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from extrap.workloads.byte_windows import N_BYTES, ByteOptions, ByteWindows
from extrap.workloads.layers import cross_entropy, embedding
from extrap.workloads.mlp import MLP
from extrap.workloads.options import read_options, whole_sizes
from extrap.workloads.workload import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ByteOptions):
    """The options of `bytes-mlp`."""

    embedding: int = 16  # features of an embedded byte
    width: int = 0  # units of a hidden layer where `width` is not a size; 0 where it is
    depth: int = 3  # hidden layers, unless `depth` is a size


class _Net(nn.Module):
    """The embedded bytes side by side, through an MLP, to logits over the 256 bytes."""

    def __init__(self, width: int, depth: int, options: Options) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_BYTES, options.embedding)
        self.mlp = MLP(options.context * options.embedding, N_BYTES, width=width, depth=depth)

    def forward(self, x_BC: torch.Tensor) -> torch.Tensor:
        e_BCE = embedding(x_BC, self.embedding.weight)
        return self.mlp(e_BCE.flatten(-2))


class BytesMLP(ByteWindows):
    """Predicts a byte from the `context` bytes before it; sizes are `width` and maybe `depth`.

    PyTorch's default initialisation. One example is one predicted byte.
    """

    tokens_per_example = 1

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = read_options("bytes-mlp", Options, options)
        super().__init__("bytes-mlp", self.options)

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one size."""
        options = self.options
        columns = {"width": options.width or None, "depth": options.depth}
        whole = whole_sizes("bytes-mlp", size, columns)
        return _Net(whole["width"], whole["depth"], options)

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """Contexts (…, B, C) that start in given rows, and the bytes after them (…, B)."""
        window = self.windows(training, rows)
        return window[..., :-1], window[..., -1]

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the next byte, in nats."""
        x_BC, y_B = batch
        return cross_entropy(module(x_BC), y_B, packed=x_BC.dim() == 3)
