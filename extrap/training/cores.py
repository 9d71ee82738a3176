"""The processor cores that this process may use."""

from __future__ import annotations

import os


def n_cores() -> int:
    """Cores that this process may use: those of its affinity, where the system has one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
