"""CUDA graphs: one training step recorded once and replayed, so that it costs one launch.

Nothing here runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch

WARM_UP = 3
"""Steps before the recording: libraries choose kernels and allocate workspaces in them."""

Step = Callable[..., torch.Tensor]
"""Takes tensors, updates its own state in place, returns a tensor."""


class RecordedSteps:
    """Training steps of one batch size as CUDA graphs that read their inputs from buffers.

    `put` copies the inputs of several steps into the buffers; each `do` takes the next of them, at
    a position that is counted on the device. A replayed step costs one launch. Each kind of step
    has its own graph.

    Args:
        inputs_K: Inputs of the first steps, (K, …) each; later ones have the same shapes after
            the first axis.
        capacity: Largest number of steps in the buffers.
        rows: Which rows of each input of a step, (n, …), the step is handed, in their order; None
            for the input as it is.
    """

    def __init__(
        self,
        inputs_K: Sequence[torch.Tensor],
        capacity: int,
        *,
        rows: Sequence[torch.Tensor | None],
    ) -> None:
        self._rows = list(rows)
        self._inputs = [t.new_empty((capacity, *t.shape[1:])) for t in inputs_K]
        self._next = torch.zeros(1, dtype=torch.long, device=inputs_K[0].device)
        self._losses: torch.Tensor | None = None
        self._recorded: dict[str, RecordedStep] = {}

    def put(self, inputs_K: Sequence[torch.Tensor]) -> None:
        """Copy the inputs of the next steps into the buffers and start at the first of them."""
        for buffer, values in zip(self._inputs, inputs_K, strict=True):
            buffer[: len(values)].copy_(values)
        self._next.zero_()

    def do(self, kind: str, step: Step) -> torch.Tensor:
        """The next step.

        Args:
            kind: Name of the recording; the step must be the same at every call of one kind.
            step: Takes the inputs of a step and returns a tensor of its losses, (M,), or with them
                in its first row, (n, M). Everything else that it reads and writes must be tensors
                that stay where they are.

        Returns:
            What the step returns. The next step of this kind overwrites it: clone it to keep it.
        """
        return self._recorded.setdefault(kind, RecordedStep())(partial(self._take, step))

    def losses(self, n_steps: int) -> torch.Tensor:
        """Losses of the steps since `put`, (n_steps, M)."""
        assert self._losses is not None
        return self._losses[:n_steps]

    def _take(self, step: Step) -> torch.Tensor:
        inputs = (
            buffer.index_select(0, self._next)[0] if rows is None else buffer[self._next, rows]
            for buffer, rows in zip(self._inputs, self._rows, strict=True)
        )
        outputs = step(*inputs)
        losses_M = outputs if outputs.dim() == 1 else outputs[0]
        if self._losses is None:
            self._losses = losses_M.new_empty((len(self._inputs[0]), *losses_M.shape))
        self._losses.index_copy_(0, self._next, losses_M[None].to(self._losses.dtype))
        self._next += 1
        return outputs


class RecordedStep:
    """A step that updates its state in place, recorded as a CUDA graph after a few real ones.

    The step is handed in at each call and not kept: a recording that held a method of its owner
    would keep the owner's memory until Python's garbage collector finds the cycle.
    """

    def __init__(self) -> None:
        self._n_done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._output: torch.Tensor | None = None

    def __call__(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Do the next step, by itself or as a replay, which writes into the same output."""
        self._n_done += 1
        if self._n_done <= WARM_UP:
            return self._on_side_stream(step)
        if self._graph is None:
            self._record(step)
        assert self._graph is not None
        assert self._output is not None
        self._graph.replay()
        return self._output

    def _on_side_stream(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        """A real step on another stream, as recording asks for."""
        stream = _side_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            output = step()
        torch.cuda.current_stream().wait_stream(stream)
        return output

    def _record(self, step: Callable[[], torch.Tensor]) -> None:
        before = torch.cuda.current_stream()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=_side_stream(torch.cuda.current_device())):
                self._output = step()  # records, does not run
        except RuntimeError:
            torch.cuda.set_stream(before)  # a failed recording leaves its own stream current
            raise
        self._graph = graph


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One stream for all recordings of a device: cuBLAS keeps a workspace for each stream."""
    return torch.cuda.Stream(device)
