"""Where packs train: on this machine, or wherever an executor of the standard library's kind runs.

`concurrent.futures.Executor` is the whole interface. Ray, Dask and others offer one; without any,
packs train here.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import Any

from extrap.study import workers

WORKERS = 4
"""Packs in training at once where an executor does not say how many it can take."""

_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class LocalExecutor(Executor):
    """Trains on this machine, each pack in a process of its own, one for each core or GPU.

    A process that dies is replaced; its pack is lost, and the others are not. Without workers and
    GPUs it is one thread of this process, for functions of the user's.
    """

    def __init__(self, n_workers: int = 0, *, n_gpus: int = 0) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.n_workers = max(1, n_gpus or n_workers)
        self._is_shut = False
        self._workers: dict[int, workers.Worker] = {}
        self._gpus = _gpus(n_gpus)
        if n_workers or n_gpus:
            workers.start()
        for i in range(self.n_workers):
            run = self._in_process if n_workers or n_gpus else lambda _, fn, *args: fn(*args)
            name = f"extrap-pack-{i}"
            threading.Thread(target=self._serve, args=(i, run), name=name, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Train as soon as there is room."""
        if self._is_shut:
            raise RuntimeError("this executor was shut down")
        future: Future[Any] = Future()
        self._calls.put((future, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End; packs in training are not waited for: the driver has asked them to stop."""
        self._is_shut = True
        with suppress(queue.Empty):
            while call := self._calls.get_nowait():
                call[0].cancel()
        for _ in range(self.n_workers):
            self._calls.put(None)
        for worker in list(self._workers.values()):
            worker.close()

    def _serve(self, i: int, run: Callable[..., Any]) -> None:
        while call := self._calls.get():
            future, function, args = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(run(i, function, *args))
                except BaseException as error:  # of the pack: `result` raises it
                    future.set_exception(error)
            del call, future, function, args  # what was trained is not held until there is more

    def _in_process(self, i: int, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in the process of a core or GPU."""
        if i not in self._workers:
            self._workers[i] = workers.Worker(self._gpus[i] if self._gpus else {})
        try:
            return self._workers[i].call(function, *args)
        except BrokenExecutor:
            del self._workers[i]
            raise


def _gpus(n: int) -> list[dict[str, str]]:
    """Of each GPU the variables with which a process sees it alone."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = seen.split(",") if seen else [str(i) for i in range(n)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names[:n]]


def n_workers_of(executor: Executor) -> int:
    """How many packs an executor can train at once."""
    for name in ("n_workers", "_max_workers"):
        if isinstance(n_workers := getattr(executor, name, None), int) and n_workers > 0:
            return n_workers
    return WORKERS
