"""Windows of a corpus of bytes: what the workloads that predict the next byte have in common.

Shapes: B examples, C bytes of context; leading axes may precede them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from extrap.workloads.corpus import read_corpus
from extrap.workloads.workload import Batch, TensorWorkload

N_BYTES = 256
"""Different bytes: the classes that are predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteOptions:
    """The options of every workload over bytes.

    `corpus_bytes` are those to use, held-out ones included. Fewer of them leave the held-out ones
    as they are: a run then sees the others more often, see `epochs` in the run table.
    """

    corpus: str = "stdlib"  # Python's own source code, or a folder of text files
    corpus_bytes: int = 8_000_000
    validation_bytes: int = 2_000_000  # held out, in files of their own
    context: int = 16  # bytes the model sees
    n_validation: int = 32_768  # held-out examples, evenly spaced over the held-out bytes


class ByteWindows(TensorWorkload):
    """The data of a workload over bytes; a child adds the model and what of a window it predicts.

    A row is the first byte of a window.
    """

    has_run_axis = shares_inputs = True

    def __init__(self, name: str, options: ByteOptions) -> None:
        n_held_out, n_bytes = options.validation_bytes, options.corpus_bytes
        if min(n_held_out, n_bytes - n_held_out) <= options.context:
            raise ValueError(
                f"validation_bytes of {name} must exceed its context, and corpus_bytes, which "
                "includes them, must exceed them by more than that; got "
                f"{n_held_out} of {n_bytes} with a context of {options.context}."
            )
        self._context = options.context
        corpus = read_corpus(options.corpus, n_bytes=n_bytes, validation_bytes=n_held_out)
        training: Batch = (torch.from_numpy(corpus.training.copy()),)
        held_out = torch.from_numpy(corpus.validation.copy())
        rows = np.linspace(0, len(held_out) - options.context - 1, options.n_validation)
        # mixed, so that the first few, which curves are made of, speak for all
        rows = np.random.default_rng(0).permutation(rows.astype(int))
        validation = self.examples((held_out,), torch.from_numpy(rows))
        super().__init__(training=training, validation=validation)
        self.fingerprint = {
            "corpus_sha256": corpus.sha256,
            "corpus_files": corpus.n_files,
            # defaults included: they may change; the folder's name is left out, its bytes count
            **{name: value for name, value in asdict(options).items() if name != "corpus"},
        }

    @property
    def n_rows(self) -> int:
        """Windows that fit into the training bytes."""
        return len(self.training[0]) - self._context

    @property
    def n_training_tokens(self) -> int:
        """Bytes that follow a full context."""
        return self.n_rows

    def draw_batches(
        self, n_batches: int, n_examples: int, generator: torch.Generator
    ) -> torch.Tensor:
        """First bytes: one from each of `n_examples` equal stretches of the training bytes.

        Every batch sees the whole corpus. Against drawing anywhere this lowered the seed noise of
        the log loss of `bytes-mlp` from .0071 to .0056 (width 48, 16 seeds, 2 MB held out).
        """
        stretch = self.n_rows / n_examples
        within = torch.rand(n_batches, n_examples, generator=generator, dtype=torch.float64)
        rows = ((torch.arange(n_examples) + within) * stretch).long()
        return rows.clamp_(max=self.n_rows - 1)

    def windows(self, training: Batch, rows: torch.Tensor) -> torch.Tensor:
        """The context and the byte after it, int64 of shape (…, B, C + 1)."""
        within = torch.arange(self._context + 1, device=rows.device)
        return training[0][rows.unsqueeze(-1) + within].long()
