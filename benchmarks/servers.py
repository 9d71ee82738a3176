"""Servers of one's own for tests and the soak: PostgreSQL, a proxy before it, a Dask cluster.

All listen on 127.0.0.1 only, and go away with the block that started them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

INSTALLED = "/usr/lib/postgresql"
"""Where Debian puts the programs, by version."""
ACCOUNT = "postgres"
"""The system's user for the server, which refuses to run as root."""
PASSWORD = "se:cr/et@1%"


class ServerError(Exception):
    """There is no PostgreSQL here, or it does not start."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server.

    Attributes:
        programs: Folder of its programs.
        folder: Folder of its data.
        port: Where it listens on localhost.
        options: Settings, `NAME=VALUE`.
    """

    programs: Path
    folder: Path
    port: int
    options: tuple[str, ...]

    def url(self, database: str = "postgres") -> str:
        """The address of a database."""
        password = quote(PASSWORD, safe="")
        return f"postgresql://{ACCOUNT}:{password}@127.0.0.1:{self.port}/{database}"

    def make_database(self, name: str) -> str:
        """Make an empty database, and return its address."""
        command = ["psql", "-h", str(self.folder), "-p", str(self.port), "-U", ACCOUNT]
        _run(self.programs, [*command, "-d", "postgres", "-c", f'CREATE DATABASE "{name}"'])
        return self.url(name)

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = ["listen_addresses=127.0.0.1", f"port={self.port}", *self.options]
        settings.append(f"unix_socket_directories={self.folder}")
        flags = " ".join(f"-c {setting}" for setting in settings)
        log = str(self.folder / "log")
        self._control("start", "-o", flags, "-l", log)

    def stop(self) -> None:
        """Stop it at once: connections are cut, transactions rolled back."""
        self._control("stop", "-m", "immediate")

    def _control(self, *arguments: str) -> None:
        _run(self.programs, ["pg_ctl", "-D", str(self.folder / "data"), "-w", *arguments])


@contextmanager
def postgres_server(options: Sequence[str] = ()) -> Iterator[Server]:
    """A server that runs within the block.

    Args:
        options: Settings, `NAME=VALUE`, such as `fsync=off`.

    Raises:
        ServerError: PostgreSQL is not installed, or does not start.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="extrap-postgres-"))
    server = Server(programs=programs, folder=folder, port=free_port(), options=tuple(options))
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            for path in (folder, secret):
                os.chown(path, account.pw_uid, account.pw_gid)
        initdb = ["initdb", "-D", str(folder / "data"), "-U", ACCOUNT, "--pwfile", str(secret)]
        _run(programs, [*initdb, "-E", "UTF8", "--auth-local=trust", "--auth-host=scram-sha-256"])
        server.start()
        try:
            yield server
        finally:
            server.stop()
    except KeyError as error:
        raise ServerError(f"root needs a user {ACCOUNT!r} to run PostgreSQL as") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port of localhost at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _programs() -> Path:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    newest = sorted(Path(INSTALLED).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not newest:
        raise ServerError("PostgreSQL is not installed; run apt-get install postgresql")
    return newest[-1].parent


def _run(programs: Path, command: Sequence[str]) -> None:
    """Run a program of the server, as its user where we are root."""
    full = [str(programs / command[0]), *command[1:]]
    if os.geteuid() == 0:
        full = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups", *full]
    # its output goes to a file: a server that is started would hold a pipe open
    with tempfile.TemporaryFile() as output:
        code = subprocess.run(
            full, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", check=False
        ).returncode
        if code:
            output.seek(0)
            raise ServerError(f"{command[0]} failed: {output.read().decode(errors='replace')}")


class CuttingProxy:
    """Passes connections on to PostgreSQL; cuts some whose transaction was just committed.

    The client never hears that its trials are written.

    Args:
        port: Where the server listens.
        every: Which of the transactions that write trials are cut.

    Attributes:
        port: Where this listens.
        n_cut: Connections cut.
    """

    def __init__(self, port: int, *, every: int) -> None:
        self._server_port, self._every = port, every
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.n_cut = self._n_commits = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                cut = threading.Event()
                for serve in (self._ask, self._answer):
                    args = (client, server, cut)
                    threading.Thread(target=serve, args=args, daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        writes = False
        with suppress(OSError):
            while data := client.recv(1 << 16):
                writes |= b"INSERT INTO trials " in data
                if writes and b"COMMIT" in data:
                    writes, self._n_commits = False, self._n_commits + 1
                    if self._n_commits % self._every == 0:
                        cut.set()
                server.sendall(data)
        _close(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if cut.is_set():  # the transaction is committed
                    self.n_cut += 1
                    break
                client.sendall(data)
        _close(client, server)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


class DaskCluster:
    """A scheduler, and a nanny with its workers. A context manager, which waits for them.

    Args:
        environment: Of all its processes.
        folder: For what workers leave.
        n_workers: How many.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path, n_workers: int) -> None:
        self._environment, self._folder = dict(environment), folder
        self._port, self._n_workers = free_port(), n_workers
        self.address = f"127.0.0.1:{self._port}"

    def __enter__(self) -> DaskCluster:
        place = ["--host", "127.0.0.1", "--no-dashboard"]
        self._scheduler = self._begin("scheduler", *place, "--port", str(self._port))
        words = ["--nworkers", str(self._n_workers), "--nthreads", "1", "--memory-limit", "0"]
        words += ["--local-directory", str(self._folder)]
        self._nanny = self._begin("worker", f"tcp://{self.address}", *place, *words)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in (self._nanny, self._scheduler):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[psutil.Process]:
        """The workers, without their nanny."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._nanny.pid).children()
            return [each for each in children if "spawn_main" in " ".join(each.cmdline())]
        return []

    def _wait(self, timeout_s: float = 120.0) -> None:
        """Wait until all workers have come to the scheduler.

        Raises:
            ServerError: They do not.
        """
        from distributed import Client

        deadline = time.monotonic() + timeout_s
        with suppress(OSError, TimeoutError), Client(self.address, timeout=timeout_s) as client:
            while time.monotonic() < deadline:
                if len(client.scheduler_info(n_workers=-1)["workers"]) >= self._n_workers:
                    return
                time.sleep(0.2)
        raise ServerError(f"no {self._n_workers} workers came to Dask's scheduler")

    def _begin(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                env=self._environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
