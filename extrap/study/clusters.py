"""Clusters: Ray and Dask as executors of the standard library's kind.

They bring scheduling, GPUs, dead workers and nodes, and deployment. A pack travels as bytes, and
what it raised comes back as a value: an error need not survive their way of handing errors on.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from extrap.errors import StudyError
from extrap.study.calls import called, copied, versions

logger = logging.getLogger(__name__)

CLUSTER_SCHEMES = ("ray", "dask")
"""How the address of a cluster begins."""
COUNT_S = 2.0
"""How long a count of workers holds."""


def executor_on(address: str, *, n_gpus: float = 0) -> Executor:
    """The executor of a cluster.

    Args:
        address: `ray` for one on this machine, `ray://HOST:10001`, or `dask://HOST:8786`.
        n_gpus: GPUs for each pack.

    Raises:
        StudyError: The address is malformed, or no cluster answers there.
        ModuleNotFoundError: Its library is not installed.
    """
    scheme, _, host = address.partition("://")
    if scheme not in CLUSTER_SCHEMES or (scheme == "dask" and not host):
        raise StudyError(
            f"a cluster is given as ray, ray://HOST:10001 or dask://HOST:8786, got {address!r}."
        )
    try:
        return _Ray(address, n_gpus) if scheme == "ray" else _Dask(host, n_gpus)
    except (OSError, ConnectionError, TimeoutError) as error:
        raise StudyError(
            f"a cluster must answer, got nothing from {address} ({error}); check the address, and "
            "that its scheduler runs."
        ) from error


class _Cluster(Executor, ABC):
    """What both have in common."""

    is_remote = True

    def __init__(self, n_gpus: float) -> None:
        self.n_gpus = n_gpus
        self._n_seen, self._seen_at = 1, -math.inf

    @property
    def n_workers(self) -> int:
        """Packs that it can train at once now."""
        if (now := time.monotonic()) - self._seen_at >= COUNT_S:
            self._seen_at = now
            try:
                self._n_seen = max(1, self._count())
            except Exception as error:  # while it is away: as before
                logger.debug("the cluster cannot be counted: %s", error)
        return self._n_seen

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        """Train on the cluster."""
        # it cannot be cancelled: the driver tells a pack to stop, which leaves its checkpoints
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()

        def arrive(done: Future[Any]) -> None:
            try:
                returned, raised = done.result()
            except BaseException as error:  # of the cluster
                raised = error
            if raised is None:
                outer.set_result(returned)
            else:
                outer.set_exception(raised)

        self._send(copied(fn, *args)).add_done_callback(arrive)
        return outer

    @abstractmethod
    def _count(self) -> int:
        """Packs that it can train at once."""

    @abstractmethod
    def _send(self, payload: bytes) -> Future[Any]:
        """Hand a call to the cluster."""


class _Dask(_Cluster):
    """A Dask cluster: a pack for each thread of its workers."""

    def __init__(self, host: str, n_gpus: float) -> None:
        super().__init__(n_gpus)
        import distributed

        self._library: Any = distributed  # which has no types
        self._host = host
        self._options = {"resources": {"GPU": n_gpus}} if n_gpus else {}
        self._connect()

    def _connect(self) -> None:
        self._client = self._library.Client(self._host, timeout=30, set_as_default=False)
        self._inner = self._client.get_executor(pure=False, **self._options)

    def _count(self) -> int:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if self.n_gpus:
            return sum(int(worker["resources"].get("GPU", 0) / self.n_gpus) for worker in workers)
        return sum(int(worker["nthreads"]) for worker in workers)

    def _send(self, payload: bytes) -> Future[Any]:
        if self._client.status in ("closed", "closing"):  # the scheduler was away for too long
            self._connect()
        return self._inner.submit(called, payload, versions())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; it stays."""
        self._client.close()


class _Ray(_Cluster):
    """A Ray cluster: a pack for each core, or for each GPU."""

    def __init__(self, address: str, n_gpus: float) -> None:
        super().__init__(n_gpus)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray: Any = ray
        if not self._ray.is_initialized():
            connection = (
                {"address": address} if "://" in address else {"_node_ip_address": "127.0.0.1"}
            )
            is_main = threading.current_thread() is threading.main_thread()
            before = signal.getsignal(signal.SIGTERM)
            self._ray.init(include_dashboard=False, log_to_driver=False, **connection)
            if is_main:  # Ray's own ends the process at once, with exit code 0
                signal.signal(signal.SIGTERM, before)
        # the driver hands out again what is lost
        remote = self._ray.remote(num_cpus=1, num_gpus=n_gpus, max_retries=0)
        self._called = remote(called)

    def _count(self) -> int:
        has = self._ray.cluster_resources()
        if self.n_gpus:
            return int(has.get("GPU", 0) / self.n_gpus)
        return int(has.get("CPU", 1))

    def _send(self, payload: bytes) -> Future[Any]:
        reference = self._called.remote(payload, versions())
        future: Future[Any] = reference.future()
        future.reference = reference  # type: ignore[attr-defined]  # or Ray forgets the task
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster."""
        self._ray.shutdown()
