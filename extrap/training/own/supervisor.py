"""Runs one command and ends all that it started, even if whoever asked for it was killed.

`python supervisor.py GRACE WORD…` runs the words in a process group. When its standard input
ends, because the worker closed it or died, the group gets SIGTERM and, GRACE seconds later,
SIGKILL. What is left when the command has ended is killed; on Linux, daemons included, as they
become children of this process. The exit code is the command's; 128 + n after signal n, 127 if
there is no such program. It imports nothing of the package, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

NO_PROGRAM, SIGNALLED = 127, 128
"""Exit codes: of a program that does not exist, and what is added to the number of a signal."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of `prctl`, from Linux's `sys/prctl.h`."""


def run(argv: list[str], grace_s: float) -> int:
    """Run a command until it ends, or the standard input does; its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # a handler, which the command does not inherit
    _tell_kernel(PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=lambda: _tell_kernel(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {argv[0]}: {error.strerror}\n")
        return NO_PROGRAM
    threading.Thread(target=_end_when_asked, args=(child.pid, grace_s), daemon=True).start()
    code = child.wait()
    _kill_group(child.pid, signal.SIGKILL)
    while left := _children():
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return code if code >= 0 else SIGNALLED - code


def _end_when_asked(group: int, grace_s: float) -> None:
    while os.read(0, 1):
        continue
    _kill_group(group, signal.SIGTERM)
    time.sleep(grace_s)
    _kill_group(group, signal.SIGKILL)


def _kill_group(group: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(group, number)


def _tell_kernel(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _children() -> list[int]:
    """Processes that this one is to wait for; on other systems than Linux none are known."""
    pids = []
    with suppress(FileNotFoundError):
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    pids.append(int(name))
    return pids


if __name__ == "__main__":
    os._exit(run(sys.argv[2:], float(sys.argv[1])))
