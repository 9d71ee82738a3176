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
from multiprocessing import connection, get_context, parent_process
from typing import Any

WORKERS = 4
"""Packs in training at once where an executor does not say how many it can take."""


class LocalExecutor(Executor):
    """Trains on this machine: one pack at a time, on a CPU with a process for each core.

    With several GPUs each has a process of its own, which ends with this one. One that dies is
    replaced; its pack is lost, and the others are not.

    Args:
        n_gpus: GPUs to use.
    """

    def __init__(self, n_gpus: int = 0) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self.n_workers = max(1, n_gpus)
        self._is_shut = False
        self._pools: dict[int, ProcessPoolExecutor] = {}
        for gpu in range(self.n_workers):
            run = self._apart if n_gpus > 1 else _here
            thread = threading.Thread(
                target=self._serve, args=(gpu, run), name=f"extrap-pack-{gpu}", daemon=True
            )
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Train as soon as there is room.

        Raises:
            RuntimeError: It was shut down.
        """
        if self._is_shut:
            raise RuntimeError("this executor was shut down")
        future: Future[Any] = Future()
        self._work.put((future, lambda: (fn, args, options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End; packs in training are not waited for: the driver has asked them to stop."""
        self._is_shut = True
        with suppress(queue.Empty):
            while True:
                future, _ = self._work.get_nowait()
                future.cancel()
        for _ in range(self.n_workers):
            self._work.put((Future(), lambda: None))
        for pool in self._pools.values():
            _end(pool)

    def _serve(self, gpu: int, run: Callable[[int, Any], Any]) -> None:
        while not self._is_shut:
            future, told = self._work.get()
            work = told()
            if work is None or not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(run(gpu, work))
            except BaseException as error:  # of the pack: who waits for it hears of it
                future.set_exception(error)
            del future, told, work  # what was trained is not held until there is more to do

    def _apart(self, gpu: int, work: tuple[Callable[..., Any], Any, Any]) -> Any:
        """Train in the process of a GPU."""
        if gpu not in self._pools:
            self._pools[gpu] = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_begin, initargs=(gpu,)
            )
        function, args, options = work
        try:
            return self._pools[gpu].submit(function, *args, **options).result()
        except BrokenExecutor:
            _end(self._pools.pop(gpu))
            raise


def _here(gpu: int, work: tuple[Callable[..., Any], Any, Any]) -> Any:
    function, args, options = work
    return function(*args, **options)


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
