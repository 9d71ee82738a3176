"""CUDA graphs: one training step recorded once and replayed, so that launches cost nothing.

Nothing here runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

__all__ = ["RecordedStep", "Step"]

# Steps before the recording: libraries choose kernels and allocate workspaces in them.
WARM_UP = 3

Step = Callable[..., torch.Tensor]
"""Takes tensors, updates its own state in place, returns a tensor."""


class RecordedStep:
    """A step that updates its state in place, recorded as a CUDA graph after a few real ones.

    The step is handed in at each call and not kept: a recording that held a method of its owner
    would keep the owner's memory until Python's garbage collector finds the cycle.
    """

    def __init__(self) -> None:
        self._n_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[torch.Tensor, ...] = ()
        self._output: torch.Tensor | None = None

    def __call__(self, step: Step, *inputs: torch.Tensor) -> torch.Tensor:
        """Do the next step, by itself or as a replay.

        Args:
            step: The same at every call. Everything but its arguments that it reads and writes
                must be tensors that stay where they are.
            inputs: Its arguments.

        Raises:
            RuntimeError: The step cannot be recorded; the current stream is as it was before.
        """
        if not self._inputs:
            self._inputs = tuple(given.clone() for given in inputs)
        for static, given in zip(self._inputs, inputs, strict=True):
            static.copy_(given)
        output = self._on_side_stream(step) if self._n_done < WARM_UP else self._replay(step)
        self._n_done += 1
        return output

    def _on_side_stream(self, step: Step) -> torch.Tensor:
        """A real step on another stream, as recording asks for."""
        stream = _side_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            output = step(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return output

    def _replay(self, step: Step) -> torch.Tensor:
        if self._graph is None:
            self._record(step)
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output.clone()  # the next replay writes into the same memory

    def _record(self, step: Step) -> None:
        before = torch.cuda.current_stream()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=_side_stream(torch.cuda.current_device())):
                self._output = step(*self._inputs)  # records, does not run
        except RuntimeError:
            torch.cuda.set_stream(before)  # a failed recording leaves its own stream current
            raise
        self._graph = graph


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One stream for all recordings of a device: cuBLAS keeps a workspace for each stream."""
    return torch.cuda.Stream(device)
