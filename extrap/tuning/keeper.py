"""Runs one command and ends it when whoever asked for it is gone; a script, started by file.

`python keeper.py GRACE WORD…` runs the words in its own process group. When its standard input
comes to an end, because the worker closed it or died, even of SIGKILL, the whole group is asked to
end with SIGTERM and killed GRACE seconds later. Its exit code is that of the command; 128 + n
after signal n, 127 if there is no such program. It imports nothing of the package, so that it
starts in a hundredth of a second.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import NoReturn

__all__ = ["keep"]

NO_PROGRAM = 127
SIGNALLED = 128


def keep(words: list[str], grace_s: float) -> int:
    """Run a command until it ends, or the standard input does; its exit code."""
    heard, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # a handler, which the command does not inherit
    child = os.fork()
    if child == 0:
        _become(words)
    inputs, deadline = [sys.stdin.fileno(), heard], float("inf")
    while True:
        left = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(inputs, [], [], left)
        if heard in ready:
            os.read(heard, 4096)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _code(status)
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 1):
            inputs, deadline = [heard], time.monotonic() + grace_s
            os.killpg(0, signal.SIGTERM)
        if time.monotonic() >= deadline:
            os.killpg(0, signal.SIGKILL)  # this process too


def _become(words: list[str]) -> NoReturn:
    """Turn the forked process into the command, with nothing to read."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"cannot run {words[0]}: {error.strerror}\n".encode())
    os._exit(NO_PROGRAM)


def _code(status: int) -> int:
    """The exit code; what the command left behind when it failed is ended too."""
    failed = os.waitstatus_to_exitcode(status)
    if failed:
        os.killpg(0, signal.SIGTERM)
    return failed if failed >= 0 else SIGNALLED - failed


if __name__ == "__main__":
    os._exit(keep(sys.argv[2:], float(sys.argv[1])))
