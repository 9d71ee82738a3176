"""Which process trains a cell, and whether it is still there, as far as this machine can tell."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import psutil

# A process start time is read from clocks that may drift by as much.
CLOCK_DRIFT_S = 2.0
N_SWEEPS = 3
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")
# Of what stands behind a process' name in its stat file: its start in ticks since the boot.
START_FIELD = 19


def this_process() -> dict[str, Any]:
    """Host, process id and start time: together they name a process for good.

    Where containers share a host name, `boot` and `space` say whose process ids these are, and
    `start` tells two processes of one id apart where clocks are set again.
    """
    return dict(_named(os.getpid()))


@cache
def _named(pid: int) -> Mapping[str, Any]:
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "created": psutil.Process(pid).create_time(),
        **_start(pid),
        **_place(),
    }


def is_process(said: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether something found in a storage names a process, as `this_process` does."""
    return (
        isinstance(said, dict)
        and isinstance(said.get("host"), str)
        and isinstance(said.get("pid"), int)
        and 0 < said["pid"] < 2**31
        and isinstance(said.get("created"), int | float)
    )


def is_gone(owner: Mapping[str, Any]) -> bool | None:
    """Whether a process is no more; None if this machine cannot know."""
    here = {"host": socket.gethostname(), **_place()}
    if any(owner.get(name, value) != value for name, value in here.items()):
        return None
    try:
        process = psutil.Process(owner["pid"])
        return not _is_same(process, owner) or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None if _is_hidden(owner["pid"]) else True
    except psutil.AccessDenied:
        return False


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


def _is_same(process: psutil.Process, owner: Mapping[str, Any]) -> bool:
    """Whether a process began when the owner did: its number may be another's by now."""
    start = _start(process.pid)
    if start and "start" in owner:
        return bool(start["start"] == owner["start"])
    return abs(process.create_time() - owner["created"]) < CLOCK_DRIFT_S


def _is_hidden(pid: int) -> bool:
    """Whether there is a process after all, of a user whose processes one may not see."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _start(pid: int) -> dict[str, int]:
    """Ticks from the boot of the machine to the start of a process, whatever the clocks show."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return {"start": int(after_name.rpartition(")")[2].split()[START_FIELD])}
    except (OSError, ValueError, IndexError):  # not Linux, or just gone
        return {}


@cache
def _place() -> dict[str, str]:
    """What tells apart machines and containers of one name; empty where there is no such thing."""
    place = {}
    try:
        place["boot"] = BOOT_ID.read_text(encoding="ascii").strip()
        place["space"] = str(PID_NAMESPACE.readlink())
    except OSError:  # not Linux
        return {}
    return place
