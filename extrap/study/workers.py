"""Worker processes of this machine: they train the packs that the driver sends.

`python -m extrap.study.workers` imports what training needs, once, and forks a worker whenever it
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
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from extrap.errors import StudyError
from extrap.study.calls import called, copied
from extrap.study.packs import DRIVER_GONE

GRACE_S = 5.0
"""How long a worker whose driver is gone may take to leave checkpoints."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Where the C library is glibc: memory in huge pages, kept for the next step instead of given back.
# A tenth faster.
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=268435456"
    ":glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=33554432"
}


class Worker:
    """A worker process, at the other end of a socket.

    Args:
        environment: Variables that it sees besides those of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair()
        with other:
            _SERVER.fork(other)
        self._connection = Connection(os.dup(self._socket.fileno()))
        variables = {**os.environ, **environment, **ONE_THREAD}
        self._connection.send((variables, str(Path.cwd()), sys.path))

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function there.

        Raises:
            EOFError, OSError: The process is gone.
            Exception: What the function raised.
        """
        self._connection.send_bytes(copied(function, *args))
        returned, raised = self._connection.recv()
        if raised is not None:
            raise raised
        return returned

    def close(self) -> None:
        """Have it leave checkpoints and end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes who waits for it
        self._socket.close()


class _Server:
    """The process that forks workers; started when the first is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def fork(self, end: socket.socket) -> None:
        """Have a worker forked that listens to a socket."""
        with self._lock:
            for _ in range(2):
                place = self._started()
                try:
                    socket.send_fds(place, [b"."], [end.fileno()])
                except OSError:  # somebody killed it
                    self._close()
                else:
                    return
        raise StudyError("the process that starts workers ended at once; see its error above.")

    def start(self) -> None:
        """Have it import while this process does something else."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._socket is None or self._owner != os.getpid():  # not that of a parent
            own, other = socket.socketpair()
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    stdin=other.fileno(),
                    env={**ALLOCATOR, **os.environ, **ONE_THREAD},
                    # Ctrl-C reaches the driver alone, which then asks packs to stop
                    start_new_session=True,
                )
            self._socket, self._owner = own, os.getpid()
            atexit.register(self._close)
        return self._socket

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


def _serve(requests: socket.socket) -> None:
    """Fork a worker for every socket that arrives."""
    import extrap.training.engine  # noqa: F401  # and with it torch

    while True:
        found, ends, *_ = socket.recv_fds(requests, 1, 1)
        if not found:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with suppress(BaseException):
                _work(Connection(ends[0]))
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
            answer = _words(error)
        driver.send_bytes(answer)


def _words(error: Exception) -> bytes:
    """An error as bytes; in words where it cannot be sent as it is."""
    try:
        return pickle.dumps((None, error))
    except Exception:  # whatever an object of the user's does when it is copied
        return pickle.dumps((None, StudyError(f"{type(error).__name__}: {error}")))


if __name__ == "__main__":
    # a cluster may tell every process of a job to end: the driver says what is to be done
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # whatever prints goes to the standard error
    _serve(requests)
