"""Ending what a command of the user's own has started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

N_SWEEPS = 3


def kill_session(number: int) -> None:
    """Kill every process of a session with SIGKILL.

    Args:
        number: The process that began it; it may be gone.
    """
    for _ in range(N_SWEEPS):  # a process may start another one meanwhile
        found = [pid for pid in psutil.pids() if _session(pid) == number and not _is_dead(pid)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _session(pid: int) -> int | None:
    """The session of a process, if it may be seen."""
    try:
        return os.getsid(pid) if pid else None  # 0 would be this process
    except OSError:
        return None


def _is_dead(pid: int) -> bool:
    """Whether a process is gone, or ended and waits for nobody."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
