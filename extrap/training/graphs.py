"""CUDA graphs: one training step recorded once and replayed, so that launches cost nothing.

Nothing here runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["RecordedStep", "Step"]

# Steps before the recording: libraries choose kernels and allocate workspaces in them.
WARM_UP = 3

Step = Callable[[torch.Tensor, torch.Tensor], None]


class RecordedStep:
    """A step that updates its state in place, recorded as a CUDA graph after a few real ones.

    Args:
        step: Takes rows (S, B) and rates (M,); everything else it reads and writes must be
            tensors that stay where they are.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._n_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[torch.Tensor, torch.Tensor] | None = None

    def __call__(self, rows: torch.Tensor, rates: torch.Tensor) -> None:
        """Do the next step, by itself or as a replay."""
        if self._inputs is None:
            self._inputs = (rows.clone(), rates.clone())
        for static, given in zip(self._inputs, (rows, rates), strict=True):
            static.copy_(given)
        if self._n_done < WARM_UP:
            self._on_side_stream()
        else:
            self._replay()
        self._n_done += 1

    def _on_side_stream(self) -> None:
        """A real step on another stream, as recording asks for."""
        assert self._inputs is not None
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)

    def _replay(self) -> None:
        assert self._inputs is not None
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):  # records, does not run
                self._step(*self._inputs)
        self._graph.replay()
