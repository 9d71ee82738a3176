"""Saving: when the runs of a pack leave checkpoints, and of which of them there is news."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from extrap.records import Cell, RunResult
from extrap.training.checkpoints import Checkpoint, Checkpoints
from extrap.training.packs import Pack
from extrap.training.parts import Run, StackPart
from extrap.training.preemption import StopAsked


class Saving:
    """The checkpoints of one pack while it trains.

    Args:
        checkpoints: Where they lie, and when they are due.
        pack: The runs.
        place: Where they are trained.
    """

    def __init__(self, checkpoints: Checkpoints, pack: Pack, place: torch.device) -> None:
        checkpoints.begin()
        self._checkpoints = checkpoints
        self._place = place
        self._n_updates = pack.recipes()[0].n_updates
        self._n_runs = len(pack.cells)
        self._began = time.perf_counter()

    def stop_if_asked(self, parts: Sequence[StackPart], runs: Sequence[Run]) -> None:
        """Save and raise if training is to end.

        Raises:
            StopAsked: It is.
        """
        if self._checkpoints.is_asked():
            self._save(parts, runs)
            raise StopAsked("asked to stop")

    def save_if_due(self, parts: Sequence[StackPart], runs: Sequence[Run]) -> None:
        """Save if it is time to."""
        if self._checkpoints.is_due():
            self._save(parts, runs)

    def _save(self, parts: Sequence[StackPart], runs: Sequence[Run]) -> None:
        self._checkpoints.save(self._news(parts, runs), self._place)

    def _news(
        self, parts: Sequence[StackPart], runs: Sequence[Run]
    ) -> Iterator[tuple[Cell, Checkpoint]]:
        """What is not saved yet, run by run."""
        spent_s = (time.perf_counter() - self._began) / self._n_runs
        stacked = {id(run): (part, row) for part in parts for row, run in enumerate(part.runs)}
        for run in runs:
            if not run.is_new:
                continue
            tensors = {}
            if run.is_alive and run.step < self._n_updates:
                part, row = stacked[id(run)]
                tensors = part.stack.snapshot(row)
            yield run.cell, _checkpoint(run, spent_s, tensors)
            run.is_new = False


@contextmanager
def keeps_finished(
    results: Sequence[RunResult],
    place: torch.device,
    checkpoints: Checkpoints | None,
    *,
    began: float,
    n_runs: int,
) -> Iterator[None]:
    """A block that may be asked to stop, when some runs are finished and not yet recorded.

    Args:
        results: What the finished ones gave; read when it is asked.
        place: Where they were trained.
        checkpoints: Where to leave them.
        began: When their training began, by `time.perf_counter`.
        n_runs: Runs that share the time since then.
    """
    try:
        yield
    except StopAsked:
        if checkpoints is not None:
            spent_s = (time.perf_counter() - began) / n_runs
            runs = (Run.finished(result) for result in results)
            checkpoints.save(((r.cell, _checkpoint(r, spent_s, {})) for r in runs), place)
        raise


def _checkpoint(run: Run, spent_s: float, tensors: dict[str, torch.Tensor]) -> Checkpoint:
    return Checkpoint(
        step=run.step, spent_s=run.spent_s + spent_s, record=run.record(), tensors=tensors
    )
