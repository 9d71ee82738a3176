"""CUDA graphs: one training step recorded once and replayed, so that launches cost nothing.

Nothing here runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["RecordedStep", "Step"]

# Steps before the recording: libraries choose kernels and allocate workspaces in them.
WARM_UP = 3

Step = Callable[..., torch.Tensor]
"""Takes tensors, updates its own state in place, returns a tensor."""


class RecordedStep:
    """A step that updates its state in place, recorded as a CUDA graph after a few real ones.

    Args:
        step: Everything but its arguments that it reads and writes must be tensors that stay
            where they are.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._n_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[torch.Tensor, ...] = ()
        self._output: torch.Tensor | None = None

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Do the next step, by itself or as a replay."""
        if not self._inputs:
            self._inputs = tuple(given.clone() for given in inputs)
        for static, given in zip(self._inputs, inputs, strict=True):
            static.copy_(given)
        output = self._on_side_stream() if self._n_done < WARM_UP else self._replay()
        self._n_done += 1
        return output

    def _on_side_stream(self) -> torch.Tensor:
        """A real step on another stream, as recording asks for."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            output = self._step(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return output

    def _replay(self) -> torch.Tensor:
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):  # records, does not run
                self._output = self._step(*self._inputs)
        self._graph.replay()
        assert self._output is not None
        return self._output.clone()  # the next replay writes into the same memory
