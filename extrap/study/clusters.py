"""Clusters: Ray and Dask as executors of the standard library's kind.

They bring scheduling, GPUs, dead workers and nodes, and deployment. A pack travels as bytes, the
functions of a study file by value, and what training gave comes back as bytes: an error of the
user's need not survive their way of handing errors on.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from extrap import __version__
from extrap.errors import ExtrapError, StudyError
from extrap.records.own_training import StudyFunction
from extrap.study.packs import PackFailed, PackStopped
from extrap.study.trainers import NVIDIA
from extrap.study_folders import STUDY_FILES, enter, import_words, receive

logger = logging.getLogger(__name__)

CHECKED = ("extrap-hp", "torch", "numpy")
"""Distributions that must be the same on workers: results are compared to the last bit."""
SCHEMES = ("ray", "dask")
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
    scheme, _, place = address.partition("://")
    if scheme not in SCHEMES or (scheme == "dask" and not place):
        raise StudyError(
            f"a cluster is given as ray, ray://HOST:10001 or dask://HOST:8786, got {address!r}."
        )
    try:
        return _Ray(address, n_gpus) if scheme == "ray" else _Dask(place, n_gpus)
    except (OSError, ConnectionError, TimeoutError) as error:
        raise StudyError(
            f"a cluster must answer, got nothing from {address} ({error}); check the address, and "
            "that its scheduler runs."
        ) from error


def ships(function: Callable[..., Any], *args: Any) -> bytes:
    """A call as bytes, functions and classes of study files by value.

    The modules beside a study file travel as source.

    Raises:
        StudyError: Something in it cannot be copied to another process.
    """
    import cloudpickle  # noqa: TID251  # a cluster runs what it is sent, by its own pickles

    train = getattr(next(iter(args), None), "train", None)
    own = train if isinstance(train, StudyFunction) else None
    if own is not None:
        enter(own.folder)
    modules = [m for name, m in sys.modules.items() if name.startswith(STUDY_FILES)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        call = cloudpickle.dumps((function, args))
        sent = None if own is None else (own.folder, own.beside)
        return bytes(cloudpickle.dumps((sent, call)))
    except Exception as error:  # whatever a user's object does when it is copied
        raise StudyError(
            "a training function must be one that can be copied to a cluster, got "
            f"{type(error).__name__}: {error}; define it in the study file, without open files, "
            "locks or connections."
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _versions() -> dict[str, str]:
    """What must be the same everywhere."""
    found = {"extrap": __version__, "Python": ".".join(map(str, sys.version_info[:2]))}
    for name in CHECKED[1:]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _call(payload: bytes, versions: dict[str, str], n_gpus: float) -> bytes:
    """On a worker: run a call; what it returned and what it raised, one of them None."""
    import cloudpickle  # noqa: TID251

    returned: Any = None
    raised: Exception | None = None
    try:
        _require_alike(versions, n_gpus)
        function, args = _loaded(payload)
        returned = function(*args)
    except (PackStopped, PackFailed) as error:
        raised = error
    except ExtrapError as error:  # of this worker's data
        raised = StudyError(str(error))
    return bytes(cloudpickle.dumps((returned, raised)))


def _loaded(payload: bytes) -> Any:
    """A call, from its bytes.

    Raises:
        StudyError: Something that it speaks of cannot be imported here.
    """
    import cloudpickle  # noqa: TID251

    sent, call = cloudpickle.loads(payload)  # as the cluster does anyway
    try:
        if sent is not None:
            receive(*sent)
        return cloudpickle.loads(call)
    except Exception as error:  # whatever the user's modules do as they are imported
        words = import_words(error, Path() if sent is None else sent[0])
        raise StudyError(
            f"a worker must be able to load the training function, got {words}; install or copy "
            "on every worker what is missing there."
        ) from error


def _require_alike(versions: dict[str, str], n_gpus: float) -> None:
    """Raise unless this worker is what the driver expects.

    Raises:
        StudyError: It has other versions, or no GPU.
    """
    own = _versions()
    if differ := [
        f"{n} {own[n]}, the driver {versions[n]}" for n in versions if own[n] != versions[n]
    ]:
        raise StudyError(
            f"workers must have the driver's versions, a worker has {', '.join(differ)}; install "
            "those on every worker."
        )
    if n_gpus and not NVIDIA.exists():
        raise StudyError(
            f"every worker must have a GPU for --gpus-per-pack {n_gpus:g}, got one without; "
            "remove that worker, or drop the option."
        )


def _opened(answer: bytes) -> Any:
    """What a call returned; raises what it raised."""
    import cloudpickle  # noqa: TID251

    returned, raised = cloudpickle.loads(answer)  # of our own workers
    if raised is not None:
        raise raised
    return returned


class _Cluster(Executor, ABC):
    """What both have in common: bytes there, bytes back.

    Args:
        n_gpus: GPUs for each pack.
    """

    is_remote = True

    def __init__(self, n_gpus: float) -> None:
        self._n_gpus = n_gpus
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
        """Train on the cluster.

        Raises:
            StudyError: The pack cannot be copied there.
        """
        # it cannot be cancelled: the driver tells a pack to stop, which leaves its checkpoints
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()

        def arrive(done: Future[bytes]) -> None:
            try:
                outer.set_result(_opened(done.result()))
            except BaseException as error:  # of the pack, or of the cluster
                outer.set_exception(error)

        self._send(ships(fn, *args), _versions()).add_done_callback(arrive)
        return outer

    @abstractmethod
    def _count(self) -> int:
        """Packs that it can train at once."""

    @abstractmethod
    def _send(self, payload: bytes, versions: dict[str, str]) -> Future[bytes]:
        """Hand a call to the cluster."""


class _Dask(_Cluster):
    """A Dask cluster: a pack for each thread of its workers."""

    def __init__(self, place: str, n_gpus: float) -> None:
        super().__init__(n_gpus)
        import distributed

        self._library: Any = distributed  # which has no types
        self._place = place
        self._options = {"resources": {"GPU": n_gpus}} if n_gpus else {}
        self._connect()

    def _connect(self) -> None:
        self._client = self._library.Client(self._place, timeout=30, set_as_default=False)
        self._inner = self._client.get_executor(pure=False, **self._options)

    def _count(self) -> int:
        found = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if self._n_gpus:
            return sum(int(each["resources"].get("GPU", 0) / self._n_gpus) for each in found)
        return sum(int(each["nthreads"]) for each in found)

    def _send(self, payload: bytes, versions: dict[str, str]) -> Future[bytes]:
        if self._client.status in ("closed", "closing"):  # the scheduler was away for too long
            self._connect()
        return self._inner.submit(_call, payload, versions, self._n_gpus)

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
            place = {"address": address} if "://" in address else {"_node_ip_address": "127.0.0.1"}
            is_main = threading.current_thread() is threading.main_thread()
            before = signal.getsignal(signal.SIGTERM)
            self._ray.init(include_dashboard=False, log_to_driver=False, **place)
            if is_main:  # Ray's own ends the process at once, with exit code 0
                signal.signal(signal.SIGTERM, before)
        # the driver hands out again what is lost
        remote = self._ray.remote(num_cpus=1, num_gpus=n_gpus, max_retries=0)
        self._call = remote(_call)

    def _count(self) -> int:
        has = self._ray.cluster_resources()
        if self._n_gpus:
            return int(has.get("GPU", 0) / self._n_gpus)
        return int(has.get("CPU", 1))

    def _send(self, payload: bytes, versions: dict[str, str]) -> Future[bytes]:
        reference = self._call.remote(payload, versions, self._n_gpus)
        future: Future[bytes] = reference.future()
        future.reference = reference  # type: ignore[attr-defined]  # or Ray forgets the task
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster."""
        self._ray.shutdown()
