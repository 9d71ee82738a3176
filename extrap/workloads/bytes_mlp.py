"""The embedded workload: the next byte of text from the bytes before it, by a small MLP.

Shapes: B examples, C bytes of context, E features of an embedded byte, H width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np
import torch
from torch import nn

from extrap.workloads.choices import require_known
from extrap.workloads.corpus import read_corpus
from extrap.workloads.protocol import Batch

__all__ = ["BytesMLP", "Options"]

N_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `bytes-mlp`.

    Attributes:
        corpus: `"stdlib"`, Python's own source code, or a folder of text files.
        corpus_bytes: Bytes to use, held-out ones included.
        validation_bytes: Bytes held out, in files of their own.
        context: Bytes the model sees.
        embedding: Features of an embedded byte.
        depth: Hidden layers.
        n_validation: Held-out examples, evenly spaced over the held-out bytes.
    """

    corpus: str = "stdlib"
    corpus_bytes: int = 8_000_000
    validation_bytes: int = 2_000_000
    context: int = 16
    embedding: int = 16
    depth: int = 3
    n_validation: int = 32_768

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            kind = str if isinstance(option.default, str) else int
            if type(value) is not kind or not value or (isinstance(value, int) and value < 1):
                rule = "text" if kind is str else "a whole number above 0"
                raise ValueError(f"{option.name} of bytes-mlp must be {rule}, got {value!r}.")
        if self.validation_bytes <= self.context:
            raise ValueError(
                "validation_bytes of bytes-mlp must exceed its context, got "
                f"{self.validation_bytes} and {self.context}."
            )


class _Net(nn.Module):
    """Embedding, `depth` hidden ReLU layers of one width, logits over the 256 bytes."""

    def __init__(self, width: int, options: Options) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_BYTES, options.embedding)
        widths = [options.context * options.embedding, *[width] * options.depth]
        self.hidden = nn.ModuleList(
            nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths)
        )
        self.logits = nn.Linear(widths[-1], N_BYTES)

    def forward(self, x_BC: torch.Tensor) -> torch.Tensor:
        h_BH = self.embedding(x_BC).flatten(1)
        for layer in self.hidden:
            h_BH = layer(h_BH).relu()
        return self.logits(h_BH)


class BytesMLP:
    """Predicts a byte from the `context` bytes before it; the one size column is `width`.

    PyTorch's default initialisation. One example is one predicted byte.
    """

    tokens_per_example = 1

    def __init__(self, given: Mapping[str, object]) -> None:
        for name in given:
            require_known("option of bytes-mlp", name, [option.name for option in fields(Options)])
        self.options = options = Options(**given)  # type: ignore[arg-type]
        corpus = read_corpus(
            options.corpus,
            n_bytes=options.corpus_bytes,
            validation_bytes=options.validation_bytes,
        )
        self.fingerprint: Mapping[str, str | int] = {
            "corpus_sha256": corpus.sha256,
            "corpus_files": corpus.n_files,
            # defaults included: they may change; the folder's name is left out, its bytes count
            **{name: value for name, value in asdict(options).items() if name != "corpus"},
        }
        self._training = self._windows(corpus.training)
        held_out = self._windows(corpus.validation)
        rows = np.linspace(0, len(held_out) - 1, options.n_validation).astype(np.int64)
        self.validation: Batch = self._examples(held_out, torch.from_numpy(rows))

    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised network of one width."""
        if set(size) != {"width"} or size["width"] != int(size["width"]):
            raise ValueError(
                f"the size of bytes-mlp is a whole-numbered width, got {dict(size)}; "
                "write sizes={'width': (16, 32, 64)}."
            )
        return _Net(int(size["width"]), self.options)

    def draw(self, n_examples: int, generator: torch.Generator) -> Batch:
        """One example from each of `n_examples` equal stretches of the training bytes.

        Every batch sees the whole corpus. Against drawing anywhere this lowered the seed noise of
        the log loss from .0071 to .0056 (width 48, 16 seeds, 2 MB held out).
        """
        stretch = len(self._training) / n_examples
        within = torch.rand(n_examples, generator=generator, dtype=torch.float64)
        rows = ((torch.arange(n_examples) + within) * stretch).long()
        return self._examples(self._training, rows.clamp_(max=len(self._training) - 1))

    def loss(self, module: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy of the next byte, in nats."""
        x_BC, y_B = batch
        return nn.functional.cross_entropy(module(x_BC), y_B)

    def n_params(self, size: Mapping[str, float]) -> int:
        """Parameters without the embedding table."""
        return self.n_params_total(size) - N_BYTES * self.options.embedding

    def n_params_total(self, size: Mapping[str, float]) -> int:
        """All parameters."""
        with torch.device("meta"):
            module = self.build(size)
        return sum(math.prod(p.shape) for p in module.parameters())

    def _windows(self, text: np.ndarray) -> torch.Tensor:
        """Every stretch of context and next byte, a view of shape (n, context + 1)."""
        return torch.from_numpy(text.copy()).unfold(0, self.options.context + 1, 1)

    @staticmethod
    def _examples(windows: torch.Tensor, rows: torch.Tensor) -> Batch:
        stretch = windows[rows].long()
        return stretch[:, :-1], stretch[:, -1]
