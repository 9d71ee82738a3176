"""Windows of a corpus of bytes: what the workloads that predict the next byte have in common.

Shapes: B examples, C bytes of context; leading axes may precede them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from extrap.workloads.corpus import read_corpus
from extrap.workloads.protocol import Batch, count_parameters, random_rows

N_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteOptions:
    """The options of every workload over bytes.

    Attributes:
        corpus: `"stdlib"`, Python's own source code, or a folder of text files.
        corpus_bytes: Bytes to use, held-out ones included. Fewer of them leave the held-out ones
            as they are: a run then sees the others more often, see `epochs` in the run table.
        validation_bytes: Bytes held out, in files of their own.
        context: Bytes the model sees.
        n_validation: Held-out examples, evenly spaced over the held-out bytes.
    """

    corpus: str = "stdlib"
    corpus_bytes: int = 8_000_000
    validation_bytes: int = 2_000_000
    context: int = 16
    n_validation: int = 32_768


class ByteWindows(ABC):
    """The data of a workload over bytes; a child adds the model and what of a window it predicts.

    Args:
        name: Of the workload, for messages.
        options: Its options.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, name: str, options: ByteOptions) -> None:
        if options.validation_bytes <= options.context:
            raise ValueError(
                f"validation_bytes of {name} must exceed its context, got "
                f"{options.validation_bytes} and {options.context}."
            )
        if options.corpus_bytes - options.validation_bytes <= options.context:
            raise ValueError(
                f"corpus_bytes of {name} includes the held-out bytes and must exceed them by "
                f"more than the context, got {options.corpus_bytes} with "
                f"{options.validation_bytes} held out; lower validation_bytes as well."
            )
        self._context = options.context
        corpus = read_corpus(
            options.corpus,
            n_bytes=options.corpus_bytes,
            validation_bytes=options.validation_bytes,
        )
        self.fingerprint: Mapping[str, str | int | float] = {
            "corpus_sha256": corpus.sha256,
            "corpus_files": corpus.n_files,
            # defaults included: they may change; the folder's name is left out, its bytes count
            **{name: value for name, value in asdict(options).items() if name != "corpus"},
        }
        self.training: Batch = (torch.from_numpy(corpus.training.copy()),)
        held_out = torch.from_numpy(corpus.validation.copy())
        rows = np.linspace(0, len(held_out) - options.context - 1, options.n_validation)
        # mixed, so that the first few, which curves are made of, speak for all
        rows = np.random.default_rng(0).permutation(rows.astype(int))
        self.validation: Batch = self.examples((held_out,), torch.from_numpy(rows))

    @property
    def n_training_tokens(self) -> int:
        """Bytes that follow a full context."""
        return self._n_windows

    @property
    def _n_windows(self) -> int:
        return len(self.training[0]) - self._context

    @abstractmethod
    def build(self, size: Mapping[str, float]) -> nn.Module:
        """A freshly initialised model of one size."""

    @abstractmethod
    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """Inputs and targets from the windows that start in given rows."""

    def draw_batches(
        self, n_batches: int, n_examples: int, generator: torch.Generator
    ) -> torch.Tensor:
        """First bytes: one from each of `n_examples` equal stretches of the training bytes.

        Every batch sees the whole corpus. Against drawing anywhere this lowered the seed noise of
        the log loss of `bytes-mlp` from .0071 to .0056 (width 48, 16 seeds, 2 MB held out).
        """
        n_windows = self._n_windows
        stretch = n_windows / n_examples
        within = torch.rand(n_batches, n_examples, generator=generator, dtype=torch.float64)
        rows = ((torch.arange(n_examples) + within) * stretch).long()
        return rows.clamp_(max=n_windows - 1)

    def kept_rows(self, n_examples: int | None, seed: int) -> np.ndarray | None:
        """Rows of the windows that a run with the size column `examples` has: any, by its seed."""
        return random_rows(type(self).__name__, self._n_windows, n_examples, seed)

    def windows(self, training: Batch, rows: torch.Tensor) -> torch.Tensor:
        """The context and the byte after it, int64 of shape (…, B, C + 1)."""
        within = torch.arange(self._context + 1, device=rows.device)
        return training[0][rows.unsqueeze(-1) + within].long()

    def n_params(self, size: Mapping[str, float]) -> int:
        """Parameters without the tables of embeddings."""
        return count_parameters(self.build, size, embeddings=False)

    def n_params_total(self, size: Mapping[str, float]) -> int:
        """All parameters."""
        return count_parameters(self.build, size, embeddings=True)
