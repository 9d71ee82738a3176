"""The next byte of text at every position, by a small transformer.

Shapes: B examples, C bytes of context, W width, S features of a head, N heads; a leading run axis
M may precede them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from extrap.workloads.byte_windows import N_BYTES, ByteOptions, ByteWindows
from extrap.workloads.layers import cross_entropy, embedding, layer_norm, linear
from extrap.workloads.options import read_options, whole_sizes
from extrap.workloads.workload import Batch

NAME = "bytes-transformer"
MLP_RATIO = 4
"""Units of the hidden layer of a block's MLP over the width."""
TABLE_SD = 0.3
"""Initial standard deviation of the tables: of 1, .3, .1 and .02 the best after 400 steps of batch
32, each at its best rate: 2.029, 1.957, 1.959 and 2.016 nats at width 32 (1, .3 and .1 after 300
steps at width 96: 1.926, 1.867, 1.870)."""
MOST_SEQUENCES, MOST_ELEMENTS = 2**15, 2**30
"""Sequences and numbers that one launch of a fused attention kernel takes: its grid has 65,535
places, its indices 31 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ByteOptions):
    """The options of `bytes-transformer`.

    Attributes:
        head_size: Features of an attention head. Heads grow in number with the width, never in
            size, so that attention's scale 1 / √head_size stays right at every width.
        depth: Blocks, unless `depth` is a size.
    """

    context: int = 64
    n_validation: int = 1024
    head_size: int = 16
    depth: int = 2


class _Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, depth: int, head_size: int) -> None:
        super().__init__()
        self.head_size = head_size
        self.attention_norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_input = nn.Linear(width, MLP_RATIO * width, bias=False)
        self.mlp_output = nn.Linear(MLP_RATIO * width, width, bias=False)
        with torch.no_grad():
            for branch_end in (self.attention_output, self.mlp_output):
                branch_end.weight.mul_(1 / math.sqrt(2 * depth))

    def forward(self, x_BCW: torch.Tensor) -> torch.Tensor:
        x_BCW = x_BCW + self._attend(_norm(x_BCW, self.attention_norm))
        h_BCH = functional.gelu(linear(_norm(x_BCW, self.mlp_norm), self.mlp_input.weight))
        return x_BCW + linear(h_BCH, self.mlp_output.weight)

    def _attend(self, x_BCW: torch.Tensor) -> torch.Tensor:
        *leading, n_context, width = x_BCW.shape
        packed = linear(x_BCW, self.queries_keys_values.weight)
        # runs and examples become one axis: heads of different runs do not meet anyway
        packed = packed.view(-1, n_context, 3, width // self.head_size, self.head_size)
        q_BNCS, k_BNCS, v_BNCS = packed.permute(2, 0, 3, 1, 4)
        seen_BNCS = _causal_attention(q_BNCS, k_BNCS, v_BNCS)
        seen_BCW = seen_BNCS.transpose(1, 2).reshape(*leading, n_context, width)
        return linear(seen_BCW, self.attention_output.weight)


class _Net(nn.Module):
    """Byte and position tables, blocks, a last norm, logits over the 256 bytes."""

    def __init__(self, width: int, depth: int, options: Options) -> None:
        super().__init__()
        self.bytes = nn.Embedding(N_BYTES, width)
        self.positions = nn.Embedding(options.context, width)
        self.blocks = nn.ModuleList(_Block(width, depth, options.head_size) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, N_BYTES, bias=False)
        with torch.no_grad():
            for table in (self.bytes, self.positions):
                table.weight.mul_(TABLE_SD)

    def forward(self, x_BC: torch.Tensor) -> torch.Tensor:
        h_BCW = embedding(x_BC, self.bytes.weight) + self.positions.weight.unsqueeze(-3)
        for block in self.blocks:
            h_BCW = block(h_BCW)
        return linear(_norm(h_BCW, self.norm), self.logits.weight)


class BytesTransformer(ByteWindows):
    """Predicts every byte of a window from those before it; sizes are `width`, maybe `depth`.

    A pre-norm decoder: causal attention, GELU, an MLP of four times the width, separate input and
    output tables, no biases. Positions are a learned table: windows have one length, so there is
    nothing that rotations would generalise to, and a table is one addition. One example is
    `context` predicted bytes.

    Matrices start as PyTorch draws them, with an sd of 1 / √(3 fan-in), which width rules know how
    to scale; the last one of each residual branch is divided by √(2 depth), so that the sum keeps
    its size at any depth (Radford et al. 2019, GPT-2, section 2.3). Tables have an sd of .3.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = read_options(NAME, Options, options)
        super().__init__(NAME, self.options)
        self.tokens_per_example = self.options.context

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised transformer of one size."""
        whole = whole_sizes(NAME, size, {"width": None, "depth": self.options.depth})
        width, head_size = whole["width"], self.options.head_size
        if width % head_size:
            near = max(1, round(width / head_size)) * head_size
            raise ValueError(
                f"the width of {NAME} must be a multiple of head_size={head_size}, got {width}; "
                f"take {near}, or a head_size that divides it."
            )
        return _Net(width, whole["depth"], self.options)

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """Contexts (…, B, C) that start in given rows, and the byte after each byte (…, B, C)."""
        window = self.windows(training, rows)
        return window[..., :-1], window[..., 1:]

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the next byte over all positions, in nats."""
        x_BC, y_BC = batch
        return cross_entropy(module(x_BC), y_BC, packed=x_BC.dim() == 3)


def _causal_attention(
    q_BNCS: torch.Tensor, k_BNCS: torch.Tensor, v_BNCS: torch.Tensor
) -> torch.Tensor:
    """Attention to what came before, in parts where one launch cannot take all sequences."""
    n_at_once = max(1, min(MOST_SEQUENCES, MOST_ELEMENTS // max(1, q_BNCS[0].numel())))
    parts = zip(*(t.split(n_at_once) for t in (q_BNCS, k_BNCS, v_BNCS)), strict=True)
    seen = [functional.scaled_dot_product_attention(q, k, v, is_causal=True) for q, k, v in parts]
    return seen[0] if len(seen) == 1 else torch.cat(seen)


def _norm(x: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    return layer_norm(x, norm.weight, norm.bias, norm.eps)
