"""Where packs train: on this machine, or wherever an executor of the standard library's kind runs.

`concurrent.futures.Executor` is the whole interface. Ray, Dask and others offer one; without any,
packs train here.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import connection, get_context, parent_process
from typing import Any

WORKERS = 4
"""Packs in training at once where an executor does not say how many it can take."""


_Call = tuple[Future[Any], partial[Any]]


class LocalExecutor(Executor):
    """Trains on this machine: one pack at a time, on a CPU with a process for each core.

    With several GPUs each has a process of its own, which ends with this one. One that dies is
    replaced; its pack is lost, and the others are not.

    Args:
        n_gpus: GPUs to use.
    """

    def __init__(self, n_gpus: int = 0) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.n_workers = max(1, n_gpus)
        self._is_shut = False
        self._pools: dict[int, ProcessPoolExecutor] = {}
        for gpu in range(self.n_workers):
            run = partial(self._in_process, gpu) if n_gpus > 1 else _here
            name = f"extrap-pack-{gpu}"
            threading.Thread(target=self._serve, args=(run,), name=name, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Train as soon as there is room.

        Raises:
            RuntimeError: It was shut down.
        """
        if self._is_shut:
            raise RuntimeError("this executor was shut down")
        future: Future[Any] = Future()
        self._calls.put((future, partial(fn, *args, **options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End; packs in training are not waited for: the driver has asked them to stop."""
        self._is_shut = True
        with suppress(queue.Empty):
            while call := self._calls.get_nowait():
                call[0].cancel()
        for _ in range(self.n_workers):
            self._calls.put(None)
        for pool in self._pools.values():
            _end(pool)

    def _serve(self, run: Callable[[partial[Any]], Any]) -> None:
        while call := self._calls.get():
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(run(function))
                except BaseException as error:  # of the pack: who waits for it gets it
                    future.set_exception(error)
            del call, future, function  # what was trained is not held until there is more to do

    def _in_process(self, gpu: int, function: partial[Any]) -> Any:
        """Train in the process of a GPU."""
        if gpu not in self._pools:
            self._pools[gpu] = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_begin, initargs=(gpu,)
            )
        try:
            return self._pools[gpu].submit(function).result()
        except BrokenExecutor:
            _end(self._pools.pop(gpu))
            raise


def _here(function: partial[Any]) -> Any:
    return function()


def _end(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _begin(gpu: int) -> None:
    """Begin the process of a GPU: it sees that GPU alone, and ends when its parent does."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = seen.split(",") if seen else [str(i) for i in range(gpu + 1)]
    os.environ["CUDA_VISIBLE_DEVICES"] = names[gpu]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def n_workers_of(executor: Executor) -> int:
    """How many packs an executor can train at once."""
    for name in ("n_workers", "_max_workers"):
        if isinstance(found := getattr(executor, name, None), int) and found > 0:
            return found
    return WORKERS
