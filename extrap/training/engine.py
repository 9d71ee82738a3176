"""`train`: a pack on this machine, in as many processes as pay off."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import torch

from extrap.records import OnEval, RunResult
from extrap.training.checkpoints import Checkpoints
from extrap.training.denormals import without_denormals
from extrap.training.layouts import Layout, choose_layout, threads
from extrap.training.loop import Evaluations, evaluate_along, train_alone
from extrap.training.packs import Pack
from extrap.training.preemption import StopAsked
from extrap.training.saving import keeps_finished
from extrap.training.worker_pool import Worker, WorkerError, WorkerPool, n_cores, result_of

logger = logging.getLogger(__name__)

TIMEOUT_S = 0.2
"""How often to look whether training is to end, while others are at work."""


def train(
    pack: Pack,
    *,
    on_eval: OnEval | None = None,
    device: str | None = None,
    pool: WorkerPool | None = None,
    layout: Layout | None = None,
    on_layout: Callable[[Layout], None] | None = None,
    prunes: bool = True,
    checkpoints: Checkpoints | None = None,
) -> tuple[RunResult, ...]:
    """Train all runs of a pack as one program, or as one per core.

    A run has diverged when a training or held-out loss is not finite, when its held-out loss was
    above its initial one for a fifth of all evaluations in a row, or is so at the end. It is then
    dropped, and touches no other run.

    Args:
        pack: The runs.
        on_eval: Called at each of the recipe's `n_evals` evenly spaced evaluations with the step
            and one held-out loss a run, in the order of the pack's cells; NaN for runs no longer
            trained. It may return one boolean a run: those with False are pruned.
        device: `"cpu"`, `"cuda"`, …; CUDA where there is any by default.
        pool: Processes to share the work with on a CPU; without, everything happens in this one.
        layout: How to run it; measured by default.
        on_layout: Called with the layout before the first step.
        prunes: Whether `on_eval` may let go of runs. If not, processes need not wait for each
            other, and `on_eval` receives NaN for runs that others train.
        checkpoints: Where runs leave what they need to go on, and go on from. Those further on
            wait for the others: the first evaluation is that of the run furthest behind.

    Returns:
        One result a cell, in the order of the pack's cells.

    Raises:
        StopAsked: Training was asked to end; the runs have left their checkpoints.
    """
    started = time.perf_counter()
    place = find_device(device)
    helpers = pool if pack.source is not None and place.type == "cpu" else None
    with ExitStack() as stack:
        stack.enter_context(without_denormals())
        if layout is None:
            n_processes = min(helpers.n_workers + 1, n_cores()) if helpers else 1
            layout = choose_layout(pack, place, n_processes=n_processes)
        logger.info("%d runs: %s", len(pack.cells), layout)
        if on_layout is not None:
            on_layout(layout)
        stack.enter_context(threads(layout.n_threads))
        results = None
        if helpers is not None and layout.n_processes > 1:
            shared = checkpoints and checkpoints.shared(layout.n_processes)
            results = _train_shared(
                pack, helpers, layout, on_eval, prunes=prunes, checkpoints=shared
            )
        if results is None:
            results = train_alone(
                pack,
                place=place,
                at_once=layout.at_once,
                on_eval=on_eval,
                checkpoints=checkpoints,
            )
    wall_s = (time.perf_counter() - started) / len(results)
    return tuple(replace(result, wall_s=result.wall_s + wall_s) for result in results)


def find_device(device: str | None = None) -> torch.device:
    """The device of a name; CUDA where there is any by default."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def n_gpus() -> int:
    """GPUs that this process may use."""
    return torch.cuda.device_count()


def _train_shared(
    pack: Pack,
    pool: WorkerPool,
    layout: Layout,
    on_eval: OnEval | None,
    *,
    prunes: bool,
    checkpoints: Checkpoints | None,
) -> tuple[RunResult, ...] | None:
    """Train in several processes; None if one of them was lost."""
    shares, began = _shares(pack, layout.n_processes), time.perf_counter()
    place, is_asked = torch.device("cpu"), checkpoints.is_asked if checkpoints else _never
    try:
        workers = pool.workers(len(shares) - 1)
        for worker, share in zip(workers, shares[1:], strict=True):
            worker.begin(share, layout.at_once, waits=prunes, checkpoints=checkpoints)
        own = evaluate_along(
            shares[0], place=place, at_once=layout.at_once, checkpoints=checkpoints
        )
        with closing(own), ExitStack() as stack:
            stack.callback(pool.close)  # whatever ends this early leaves them in mid-pack
            others = [
                _WorkerShare(w, s, is_asked) for w, s in zip(workers, shares[1:], strict=True)
            ]
            sharers: list[_Own | _WorkerShare] = [_Own(own, shares[0]), *others]
            finished: list[RunResult] = []
            with keeps_finished(finished, place, checkpoints, began=began, n_runs=len(pack.cells)):
                try:
                    results = _gather(sharers, on_eval, together=prunes)
                except StopAsked:
                    if _stop(others):
                        stack.pop_all()  # they are ready for the next pack
                    finished += (r for sharer in sharers for r in sharer.results or ())
                    raise
            stack.pop_all()
            return results
    except WorkerError as error:
        pool.close()
        logger.warning(
            "a worker process was lost (%s); its runs are trained in this process", error
        )
        return None


def _never() -> bool:
    return False


def _stop(others: Sequence[_WorkerShare]) -> bool:
    """Have all other processes save their shares, at the same time; whether none was lost."""
    is_whole = True
    for begins in (True, False):
        for sharer in others:
            try:
                sharer.begin_stop() if begins else sharer.end_stop()
            except WorkerError as error:  # it has what it saved before
                logger.warning("a worker process was lost while it was stopped (%s)", error)
                is_whole = False
    return is_whole


class _Own:
    """This process's share."""

    def __init__(self, evaluations: Evaluations, pack: Pack) -> None:
        self._evaluations = evaluations
        self.n_runs = len(pack.cells)
        self.results: Sequence[RunResult] | None = None
        self._kept: Sequence[bool] | None = None

    def go_on(self, kept: Sequence[bool] | None) -> None:
        self._kept = kept

    def receive(self) -> tuple[int, Sequence[float]] | None:
        try:
            return self._evaluations.send(self._kept)
        except StopIteration as end:
            self.results = end.value
            return None


class _WorkerShare:
    """Another process's share."""

    def __init__(self, worker: Worker, pack: Pack, is_asked: Callable[[], bool]) -> None:
        self._worker, self._pack, self._is_asked = worker, pack, is_asked
        self.n_runs = len(pack.cells)
        self.results: Sequence[RunResult] | None = None
        self._is_waiting = False

    def go_on(self, kept: Sequence[bool] | None) -> None:
        if self._is_waiting:
            self._worker.send({"kept": None if kept is None else list(kept)})

    def receive(self) -> tuple[int, Sequence[float]] | None:
        while not self._worker.has_message(TIMEOUT_S):
            if self._is_asked():
                raise StopAsked("asked to stop")
        message = self._hear()
        if self.results is not None:
            return None
        self._is_waiting = True
        return message["step"], message["losses"]

    def begin_stop(self) -> None:
        """Ask it to end."""
        if self.results is None:
            self._worker.stop()

    def end_stop(self) -> None:
        """Wait until it has saved its share, or finished it."""
        while self.results is None and "saved" not in self._hear():
            continue  # it was at an evaluation

    def _hear(self) -> dict[str, Any]:
        message: dict[str, Any] = self._worker.receive()
        if "results" in message:
            pairs = zip(message["results"], self._pack.cells, strict=True)
            self.results = [result_of(result, cell) for result, cell in pairs]
        return message


def _gather(
    sharers: Sequence[_Own | _WorkerShare], on_eval: OnEval | None, *, together: bool
) -> tuple[RunResult, ...]:
    """Lead all shares from one evaluation to the next, and put their results together.

    Not together, this process's share goes on to its end, and the others are heard after it.
    """
    kept: Sequence[bool] | None = None
    while any(sharer.results is None for sharer in sharers):
        first = 0
        for sharer in sharers:
            if sharer.results is None:
                own = None if kept is None else kept[first : first + sharer.n_runs]
                sharer.go_on(own)
            first += sharer.n_runs
        steps, losses = [], []
        is_own_done = sharers[0].results is not None
        # the others are at work meanwhile: this process's share comes first
        for sharer in sharers:
            is_asked = sharer.results is None and (together or is_own_done or sharer is sharers[0])
            heard = sharer.receive() if is_asked else None
            steps += [] if heard is None else [heard[0]]
            losses += [math.nan] * sharer.n_runs if heard is None else list(heard[1])
        if steps:
            kept = None if on_eval is None else on_eval(steps[0], tuple(losses))
    return tuple(result for sharer in sharers for result in sharer.results or ())


def _shares(pack: Pack, n: int) -> list[Pack]:
    """A pack in parts of nearly equal size."""
    cells, n = pack.cells, min(n, len(pack.cells))
    ends = [round(i * len(cells) / n) for i in range(n + 1)]
    return [replace(pack, cells=cells[first:last]) for first, last in itertools.pairwise(ends)]
