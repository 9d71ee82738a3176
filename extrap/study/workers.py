"""Worker processes of this machine: forked, called, ended; a dead one raises `BrokenExecutor`.

One process imports what training needs, once, and forks a worker whenever it
is asked for one: a further worker, or one in place of another that died, costs nothing. Nothing
of the user's program is imported again. A worker whose driver is gone leaves checkpoints and ends.
"""

from __future__ import annotations

import atexit
import os
import pickle  # noqa: TID251  # between a driver and its own workers
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from extrap.errors import StudyError
from extrap.study.calls import called, copied
from extrap.study.pack_requests import DRIVER_GONE

SERVE = "import sys; sys.path[:] = sys.argv[1:]; from extrap.study.workers import serve; serve()"
"""Program of the process that forks workers; a file of the working directory hides no module."""
MOST_SERVER_STARTS = 3
"""How often that process is started again for one worker, if somebody kills it."""
GRACE_S = 5.0
"""How long a worker whose driver is gone may take to leave checkpoints."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment in which a worker computes with one thread."""
# Where the C library is glibc: memory in huge pages, kept for the next step instead of given back.
# A tenth faster.
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=268435456"
    ":glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=33554432"
}


class Worker:
    """A worker process, at the other end of a socket."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair()
        try:
            with other:
                _SERVER.fork(other)
        except StudyError:
            self._socket.close()
            raise
        self._connection = Connection(os.dup(self._socket.fileno()))
        variables = {**os.environ, **environment, **ONE_THREAD}
        self._connection.send((variables, str(Path.cwd()), sys.path))

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function there; a `BrokenExecutor` if the process is gone."""
        call = copied(function, *args)
        try:
            self._connection.send_bytes(call)
            returned, raised = self._connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise BrokenExecutor("a worker process ended") from error
        if raised is not None:
            raise raised
        return returned

    def close(self) -> None:
        """End the process, which writes checkpoints first."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a thread that waits for an answer goes on
        self._socket.close()


class _Server:
    """The process that forks workers; started when the first is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner, self._is_ready = 0, False

    def fork(self, end: socket.socket) -> None:
        """Have a worker forked that listens to a socket."""
        with self._lock:
            for _ in range(MOST_SERVER_STARTS):
                channel, process = self._started()
                try:
                    if not self._is_ready and not channel.recv(1) and process.wait() >= 0:
                        break  # by itself: it cannot import
                    self._is_ready = True
                    socket.send_fds(channel, [b"."], [end.fileno()])
                except OSError:  # somebody killed it
                    self._close()
                else:
                    return
            self._close()
        raise StudyError(
            "workers must be able to import extrap and torch as this process does, got an error, "
            "which is printed above; correct the installation."
        )

    def start(self) -> None:
        """Have it import while this process does something else."""
        with self._lock:
            self._started()

    def _started(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self._socket is None or self._owner != os.getpid():  # not that of a parent
            channel, other = socket.socketpair()
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", SERVE, *sys.path],
                    stdin=other.fileno(),
                    env={**ALLOCATOR, **os.environ, **ONE_THREAD},
                    # Ctrl-C reaches the driver alone, which then asks packs to stop
                    start_new_session=True,
                )
            self._socket, self._owner, self._is_ready = channel, os.getpid(), False
            atexit.register(self._close)
        assert self._process is not None
        return self._socket, self._process

    def _close(self) -> None:
        """End it; its workers end with their own sockets."""
        if self._socket is not None and self._process is not None and self._owner == os.getpid():
            self._socket.close()
            self._process.kill()
            self._process.wait()
            self._socket = None


_SERVER = _Server()


def start() -> None:
    """Have what training needs imported in another process, for the workers to come."""
    _SERVER.start()


def serve() -> None:
    """Fork a worker for every socket that arrives at the standard input."""
    # a cluster may tell every process of a job to end: the driver says what is to be done
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # whatever prints goes to the standard error
    import extrap.training.loop  # noqa: F401  # and with it torch

    requests.send(b".")
    while True:
        request, ends, *_ = socket.recv_fds(requests, 1, 1)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _work(Connection(ends[0]))
            except BaseException:
                if not DRIVER_GONE.is_set():
                    traceback.print_exc()
            os._exit(0)
        os.close(ends[0])


def _work(driver: Connection) -> None:
    """Answer calls, one after the other, until the driver is gone."""
    variables, folder, path = driver.recv()
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.path[:] = path
    calls = SimpleQueue[bytes | None]()

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                calls.put(driver.recv_bytes())
        DRIVER_GONE.set()
        calls.put(None)
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while (call := calls.get()) is not None:
        try:
            answer = pickle.dumps(called(call))
        except Exception as error:
            answer = _encoded(error)
        driver.send_bytes(answer)


def _encoded(error: Exception) -> bytes:
    """An error as bytes; in words where it cannot be sent as it is."""
    try:
        return pickle.dumps((None, error))
    except Exception:  # whatever an object of the user's does when it is copied
        return pickle.dumps((None, StudyError(f"{type(error).__name__}: {error}")))
