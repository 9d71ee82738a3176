"""Runs one command and ends it when whoever asked for it is gone; a script, started by file.

`python supervisor.py GRACE WORD…` runs the words in a process group. When its standard input
comes to an end, because the worker closed it or died, even of SIGKILL, the whole group is asked to
end with SIGTERM and killed GRACE seconds later. So is what the command leaves running when it
ends, however it ends. What puts itself into a group of its own is left to the worker, and
in a session of its own to itself. Its exit code is that of the command; 128 + n after signal n,
127 if there is no such program. It imports nothing of the package, so that it starts in a
hundredth of a second.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

NO_PROGRAM = 127
SIGNALLED = 128
TICK_S = 0.02
"""How often to look whether what a command left is gone."""


def keep(words: list[str], grace_s: float) -> int:
    """Run a command until it ends, or the standard input does; its exit code."""
    heard, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # a handler, which the command does not inherit
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # a group without this process, which outlives it
        _become(words)
    with suppress(OSError):  # it was quicker
        os.setpgid(child, child)
    inputs, deadline = [sys.stdin.fileno(), heard], float("inf")
    while True:
        left = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(inputs, [], [], left)
        if heard in ready:
            os.read(heard, 4096)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end_rest(child, min(deadline, time.monotonic() + grace_s))
            return _code(status)
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 1):
            inputs, deadline = [heard], time.monotonic() + grace_s
            _send(child, signal.SIGTERM)
        if time.monotonic() >= deadline:
            _send(child, signal.SIGKILL)
            deadline = float("inf")


def _become(words: list[str]) -> NoReturn:
    """Turn the forked process into the command, with nothing to read."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"cannot run {words[0]}: {error.strerror}\n".encode())
    os._exit(NO_PROGRAM)


def _end_rest(group: int, deadline: float) -> None:
    """End what is left of a group whose first process is gone: asked at once, killed at last."""
    _send(group, signal.SIGTERM)
    while _is_there(group):
        if time.monotonic() >= deadline:
            _send(group, signal.SIGKILL)
            return
        time.sleep(TICK_S)


def _send(group: int, number: int) -> bool:
    """Send a signal to a group; False if there is none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, of the dead
        return False
    return True


def _is_there(group: int) -> bool:
    """Whether a process of a group lives; the dead stay in it where nobody reaps them."""
    if not _send(group, 0):
        return False
    if not os.path.exists("/proc/self/stat"):  # noqa: PTH110
        return True
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, _, own = file.read().rpartition(b")")[2].split()[:3]
                if int(own) == group and state not in (b"Z", b"X"):
                    return True
    return False


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    os._exit(keep(sys.argv[2:], float(sys.argv[1])))
