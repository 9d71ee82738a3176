"""Which process trains a cell, and whether it is still there, as far as this machine can tell."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

__all__ = ["is_gone", "this_process"]

# A process start time is read from clocks that may drift by as much.
CLOCK_DRIFT_S = 2.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_process() -> dict[str, Any]:
    """Host, process id and start time: together they name a process for good.

    Where containers share a host name, `boot` and `space` say whose process ids these are.
    """
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "created": psutil.Process(pid).create_time(),
        **_place(),
    }


def is_gone(owner: Mapping[str, Any]) -> bool | None:
    """Whether a process is no more; None if this machine cannot know."""
    here = {"host": socket.gethostname(), **_place()}
    if any(owner.get(name, value) != value for name, value in here.items()):
        return None
    try:
        process = psutil.Process(owner["pid"])
        is_same = abs(process.create_time() - owner["created"]) < CLOCK_DRIFT_S
        return not is_same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


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
