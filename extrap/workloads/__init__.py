"""Workloads: a model family and its data stream, found by name.

| name | model | data |
|---|---|---|
| `bytes-mlp` | MLP over the bytes before | Python's own source, or a folder of text |
| `bytes-transformer` | pre-norm decoder | the same |
| `images` | MLP | an `.npz` |
| `teacher` | linear in the first features | made up, with laws that are known |
| `path/to/file.py:Name` or `package.module:Name` | yours | yours |

The size of ours is `width`; all but `teacher` may have `depth` as another. `examples` is one of
every workload: how many different examples a run has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extrap.records import Workload
from extrap.workloads.bytes_mlp import BytesMLP
from extrap.workloads.bytes_transformer import BytesTransformer
from extrap.workloads.images import Images
from extrap.workloads.options import require_known
from extrap.workloads.plugins import is_plugin, load_plugin
from extrap.workloads.protocol import (
    Batch,
    LoadedWorkload,
    TensorWorkload,
    take_rows,
)
from extrap.workloads.teacher import Teacher
from extrap.workloads.width_rules import TensorRule, is_orthogonalized, tensor_roles, width_rules

__all__ = [
    "WORKLOADS",
    "Batch",
    "BytesMLP",
    "LoadedWorkload",
    "TensorRule",
    "TensorWorkload",
    "is_orthogonalized",
    "load_workload",
    "take_rows",
    "tensor_roles",
    "width_rules",
]

WORKLOADS: Mapping[str, Callable[[Mapping[str, object]], LoadedWorkload]] = {
    "bytes-mlp": BytesMLP,
    "bytes-transformer": BytesTransformer,
    "images": Images,
    "teacher": Teacher,
}


def load_workload(workload: Workload) -> LoadedWorkload:
    """Find a workload by name and read its data.

    Raises:
        ValueError: The name or an option is unknown, or an option has an impossible value; one of
            your own cannot be imported or lacks a member.
        DataError: The data are missing, too small, or corrupt.
    """
    if is_plugin(workload.name):
        return load_plugin(workload.name, workload.options)
    require_known("workload", workload.name, WORKLOADS)
    return WORKLOADS[workload.name](workload.options)
