"""A command while it runs: its output read as it comes, its end brought about when need be."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from extrap.errors import ExtrapError, StudyError
from extrap.training.own.processes import kill_session

SUPERVISOR = Path(__file__).with_name("supervisor.py")
TICK_S = 0.2
"""How often to look whether it is to stop."""
DRAIN_S = 1.0
"""How long output may come after the end, from what the command left running."""
CHUNK = 1 << 16
MOST_LINE = 1 << 16
"""Bytes of a line; the rest of a longer one is read as another."""
LOG_BYTES = 1 << 19
"""A log longer than this is set aside as `….log.1`, in the place of the one before."""
N_TAIL = 8
"""Lines kept of either output for the message of a failure."""


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: Its exit code; 128 + n after signal n.
        wall_s: Seconds it took.
        stdout, stderr: Its last lines.
        is_late: Whether it was stopped because it took too long.
        is_stopped: Whether it was stopped because it was asked for.
    """

    code: int
    wall_s: float
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]
    is_late: bool = False
    is_stopped: bool = False


def run_command(
    words: Sequence[str],
    *,
    log: Path,
    on_line: Callable[[str], None],
    timeout_s: float,
    grace_s: float,
    is_asked: Callable[[], bool],
) -> Ended:
    """Run a command to its end; whatever ends this call early ends the command too.

    Args:
        words: Program and arguments; no shell sees them.
        log: Where its output is kept, the last `LOG_BYTES` of it at least.
        on_line: Hears every line of its standard output.
        timeout_s: When to stop it.
        grace_s: Seconds between SIGTERM and SIGKILL.
        is_asked: Whether it is to stop.

    Raises:
        StudyError: This machine has no process groups.
        ExtrapError: It cannot be started.
    """
    if os.name != "posix":
        raise StudyError("commands need process groups, which Windows lacks; give a function.")
    with _started(words, grace_s) as process, _Log(log, words) as kept:
        return _follow(process, kept, on_line, timeout_s=timeout_s, is_asked=is_asked)


def write_note(log: Path, text: str) -> None:
    """Add a line of ours to the log of a command, as the one it begins with, if that can be."""
    with suppress(OSError), log.open("rb+") as file:  # the run is done, its result stands
        n = file.seek(0, os.SEEK_END)
        file.seek(max(0, n - 1))
        start = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{start}== {text}\n".encode("utf-8", "replace"))


@contextmanager
def _started(words: Sequence[str], grace_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """A command under its supervisor; at the end of the block nothing of its session still runs.

    Left is what began a session of its own, as daemons do, and, if this process and the supervisor
    are both killed with SIGKILL, the command.
    """
    supervisor = [sys.executable, "-I", "-S", str(SUPERVISOR), repr(grace_s), *words]
    try:
        process = subprocess.Popen(
            supervisor,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ExtrapError(f"{words[0]} cannot be started: {error.strerror}.") from error
    with process:
        try:
            yield process
        except BaseException:  # Ctrl-C as well: the command gets its time to end
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(grace_s + DRAIN_S)
            raise
        finally:
            kill_session(process.pid)  # that the supervisor began, which may itself be killed
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _follow(
    process: subprocess.Popen[bytes],
    kept: _Log,
    on_line: Callable[[str], None],
    *,
    timeout_s: float,
    is_asked: Callable[[], bool],
) -> Ended:
    stdin, stdout, stderr = _pipes(process)
    started, ended_at = time.monotonic(), float("inf")
    is_late = is_stopped = False
    outputs = {stdout.fileno(): _Lines(on_line), stderr.fileno(): _Lines(lambda line: None)}
    with selectors.DefaultSelector() as selector:
        for number in outputs:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() - ended_at < DRAIN_S:
            for key, _ in selector.select(TICK_S):
                if chunk := os.read(key.fd, CHUNK):
                    kept.write(chunk)
                    outputs[key.fd].feed(chunk)
                else:
                    selector.unregister(key.fd)
            if process.poll() is not None:
                ended_at = min(ended_at, time.monotonic())
            elif not (is_late or is_stopped):
                is_stopped, is_late = is_asked(), time.monotonic() - started > timeout_s
                if is_late or is_stopped:
                    stdin.close()  # its supervisor sees to the rest
    code = process.wait()
    wall_s = time.monotonic() - started
    for lines in outputs.values():
        lines.close()
    said, complained = (tuple(lines.tail) for lines in outputs.values())
    return Ended(code, wall_s, said, complained, is_late, is_stopped)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None, "it was opened with pipes"
    assert process.stdout is not None, "it was opened with pipes"
    assert process.stderr is not None, "it was opened with pipes"
    return process.stdin, process.stdout, process.stderr


class _Lines:
    """Bytes as lines, as they come; a progress bar's carriage returns end lines too."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._open = b""
        self.tail: deque[str] = deque(maxlen=N_TAIL)

    def feed(self, chunk: bytes) -> None:
        *lines, self._open = (self._open + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(self._open) > MOST_LINE:
            lines.append(self._open)
            self._open = b""
        for line in lines:
            self._hear(line)

    def close(self) -> None:
        self._hear(self._open)
        self._open = b""

    def _hear(self, line: bytes) -> None:
        if text := line.decode("utf-8", "replace").strip():
            self.tail.append(text)
            self._on_line(text)


class _Log:
    """A file of all output, which begins again when it gets long."""

    def __init__(self, path: Path, words: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file: IO[bytes] = path.open("ab")
        self._n = self._file.tell()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.write(f"== {now} {' '.join(map(repr, words))}\n".encode("utf-8", "replace"))

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, chunk: bytes) -> None:
        if self._n + len(chunk) > LOG_BYTES and self._n:
            self._file.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file, self._n = self._path.open("wb"), 0
        self._file.write(chunk)
        self._file.flush()
        self._n += len(chunk)
