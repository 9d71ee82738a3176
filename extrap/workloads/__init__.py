"""Workloads: a model family and its data stream, found by name.

| name | model | data | size |
|---|---|---|---|
| `bytes-mlp` | MLP over the bytes before | Python's own source, or a folder of text | `width` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extrap.records import Workload
from extrap.workloads.bytes_mlp import BytesMLP
from extrap.workloads.choices import require_known
from extrap.workloads.protocol import Batch, LoadedWorkload

__all__ = ["WORKLOADS", "Batch", "LoadedWorkload", "load_workload"]

WORKLOADS: Mapping[str, Callable[[Mapping[str, object]], LoadedWorkload]] = {
    "bytes-mlp": BytesMLP,
}


def load_workload(workload: Workload) -> LoadedWorkload:
    """Find a workload by name and read its data.

    Raises:
        ValueError: The name or an option is unknown, or an option has an impossible value.
        DataError: The data are missing or too small.
    """
    require_known("workload", workload.name, WORKLOADS)
    return WORKLOADS[workload.name](workload.options)
