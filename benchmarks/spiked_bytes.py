"""`bytes-mlp` with a fault: for a few steps in mid-training every target is wrong.

Workload(name="benchmarks.spiked_bytes:SpikedBytes", options={"steps": 1000})
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import torch

from extrap.workloads import Batch
from extrap.workloads.bytes_mlp import BytesMLP

SPOILED = 2**40
"""Added to the rows of examples whose target is wrong."""
WRONG = 255
"""A byte that no text of UTF-8 has."""
EARLIEST, LATEST = 0.5, 0.8
"""The spike begins between these shares of the training, at a place that the seed draws."""


class SpikedBytes(BytesMLP):
    """The embedded workload, whose runs each meet a stretch of spoiled batches.

    Args:
        steps: Of a run.
        length: Steps whose batches are spoiled.
    """

    def __init__(self, steps: int = 1000, length: int = 20) -> None:
        super().__init__({})
        self.fingerprint = {**self.fingerprint, "steps": steps, "length": length}
        self._steps, self._length = steps, length
        self._n_drawn: WeakKeyDictionary[torch.Generator, int] = WeakKeyDictionary()

    def draw_batches(
        self, n_batches: int, n_examples: int, generator: torch.Generator
    ) -> torch.Tensor:
        """Rows as ever, those of the spike marked; a batch is one step."""
        step = self._n_drawn.get(generator, 0)
        self._n_drawn[generator] = step + n_batches
        rng = np.random.default_rng(generator.initial_seed())
        begin = int(rng.uniform(EARLIEST, LATEST) * self._steps)
        rows = super().draw_batches(n_batches, n_examples, generator)
        rows[max(0, begin - step) : max(0, begin + self._length - step)] += SPOILED
        return rows

    def examples(self, training: Batch, rows: torch.Tensor) -> Batch:
        """Contexts and the bytes after them; the same wrong byte in marked rows."""
        x_BC, y_B = super().examples(training, rows % SPOILED)
        return x_BC, torch.where(rows >= SPOILED, WRONG, y_B)
