"""Single-threaded processes that train parts of a pack, one per core.

On a CPU two processes with one thread each do twice the work of one: small operations do not
split over threads, and threads that wait for each other by spinning slow everything else down.
The processes are started once and keep their workload. They are told what to do in lines of JSON
on their standard input, and end when it closes, so none outlives its master by more than the way
to the next evaluation.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from extrap.records import Cell, RunResult, Workload

if TYPE_CHECKING:
    from extrap.training.checkpoints import Checkpoints
    from extrap.training.packs import Pack

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Where the C library is glibc: memory in huge pages, kept for the next step instead of given back.
# A tenth faster; the Makefile sets the same for the processes it starts.
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=268435456"
    ":glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=33554432"
}


class WorkerError(Exception):
    """A process of the pool ended or failed; its part has to be trained elsewhere."""


class Worker:
    """One process of the pool, at the other end of two pipes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "extrap.training.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ALLOCATOR, **os.environ, **ONE_THREAD},
            text=True,
            # Ctrl-C reaches the master alone, which then closes the pipes
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def begin(
        self, pack: Pack, at_once: int, *, waits: bool, checkpoints: Checkpoints | None = None
    ) -> None:
        """Let it start on a pack.

        Args:
            pack: The runs.
            at_once: Runs in one stack.
            waits: Whether it stops at every evaluation for word on which runs to keep; otherwise
                it answers with the results alone.
            checkpoints: Where the runs leave what they need to go on.
        """
        request = {**_request(pack, at_once), "waits": waits}
        self.send({**request, "checkpoints": None if checkpoints is None else checkpoints.words()})

    def stop(self) -> None:
        """Ask it to end at its next evaluation; then it says `saved`.

        Raises:
            WorkerError: The process is gone.
        """
        self.send({"stop": True})

    def has_message(self, timeout_s: float) -> bool:
        """Whether it says something, or is gone, within a time."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], timeout_s)[0])

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message.

        Raises:
            WorkerError: The process is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise WorkerError(f"process {self.pid} has ended") from error

    def receive(self) -> dict[str, Any]:
        """Read one message; waits for it.

        Raises:
            WorkerError: The process is gone, or reports that it failed.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise WorkerError(f"process {self.pid} has ended")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise WorkerError(message["error"])
        return message

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what was left unsent is of no use any more


class WorkerPool:
    """The processes beside this one; started when first needed, and again when one is gone.

    Args:
        n_workers: How many; with this process they should be as many as there are cores.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._workers: list[Worker] = []

    def start(self, workload: Workload) -> None:
        """Start them all now; they import and read while this process does something else."""
        if not self._workers:
            for worker in self.workers(self.n_workers):
                worker.send({"load": _words(workload)})

    def workers(self, n: int) -> list[Worker]:
        """So many running processes."""
        while len(self._workers) < min(n, self.n_workers):
            self._workers.append(Worker())
        return self._workers[:n]

    def close(self) -> None:
        """End all of them."""
        while self._workers:
            self._workers.pop().close()


def n_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _words(workload: Workload) -> dict[str, Any]:
    return {"name": workload.name, "options": dict(workload.options)}


def _request(pack: Pack, at_once: int) -> dict[str, Any]:
    assert pack.source is not None
    return {
        "workload": _words(pack.source),
        "size": dict(pack.size),
        "recipe": asdict(pack.recipe),
        "cells": [[list(cell.tuned), cell.seed] for cell in pack.cells],
        "at_once": at_once,
    }


def result_of(message: Mapping[str, Any], cell: Cell) -> RunResult:
    """A result as another process wrote it."""
    curve = tuple((int(step), float(loss)) for step, loss in message["curve"])
    gradients = tuple((int(step), float(g), float(s)) for step, g, s in message["gradients"])
    return RunResult(**{**message, "cell": cell, "curve": curve, "gradients": gradients})
