"""A PostgreSQL server of one's own in a folder that goes away with it, for tests and the soak."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

__all__ = ["PASSWORD", "Server", "ServerError", "free_port", "postgres_server"]

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
