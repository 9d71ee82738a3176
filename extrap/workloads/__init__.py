"""Workloads: a model family and its data stream, found by name.

| name | model | data |
|---|---|---|
| `bytes-mlp` | MLP over the bytes before | Python's own source, or a folder of text |
| `bytes-transformer` | pre-norm decoder | the same |
| `path/to/file.py:Name` or `package.module:Name` | yours | yours |

The sizes of ours are `width` and maybe `depth`. `examples` is one of every workload: how many
different examples a run has.

One of your own is named by a file, relative to the working directory, or by a module; `Name` is a
class or a function that is called with the options, and what it returns has the members of
`LoadedWorkload`. It is known by a hash of its source.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from extrap.files import import_source
from extrap.records import Workload
from extrap.workloads.bytes_mlp import BytesMLP
from extrap.workloads.bytes_transformer import BytesTransformer
from extrap.workloads.options import require_known
from extrap.workloads.width_rules import TensorRule, is_orthogonalized, tensor_roles, width_rules
from extrap.workloads.workload import (
    Batch,
    LoadedWorkload,
    TensorWorkload,
    take_rows,
)

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
}
MEMBERS = sorted(name for name in vars(LoadedWorkload) if not name.startswith("_"))
"""What a workload of your own must have."""


def load_workload(workload: Workload) -> LoadedWorkload:
    """Find a workload by name and read its data.

    Raises:
        ValueError: The name or an option is unknown, or an option has an impossible value; one of
            your own cannot be imported or lacks a member.
        DataError: The data are missing, too small, or corrupt.
    """
    if ":" in workload.name or workload.name.endswith(".py"):
        return _load_plugin(workload.name, workload.options)
    require_known("workload", workload.name, WORKLOADS)
    return WORKLOADS[workload.name](workload.options)


class _Plugin:
    """A workload whose fingerprint also tells its source."""

    def __init__(self, workload: LoadedWorkload, source: bytes) -> None:
        self._workload = workload
        source_hash = {"source_sha256": hashlib.sha256(source).hexdigest()}
        self.fingerprint: Mapping[str, str | int | float] = {**workload.fingerprint, **source_hash}

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_workload"], name)


def _load_plugin(name: str, options: Mapping[str, object]) -> LoadedWorkload:
    """Import a workload and call it with its options."""
    where, _, attribute = name.rpartition(":")
    try:
        if where.endswith(".py"):
            path = Path(where).expanduser().resolve()
            source = path.read_bytes()
            known_as = f"extrap_workload_{path.stem}_{hashlib.sha256(source).hexdigest()[:16]}"
            module = import_source(path, known_as)
        else:
            module = importlib.import_module(where)
            source = Path(cast(str, module.__file__)).read_bytes()
        factory = getattr(module, attribute)
        inspect.signature(factory).bind(**options)
        if inspect.isabstract(factory):
            raise TypeError(f"{attribute} without {', '.join(factory.__abstractmethods__)}")
    except Exception as error:
        raise ValueError(
            "your own workload is named path/to/file.py:Name or package.module:Name and called "
            f"with its options; {name} cannot be: {type(error).__name__}: {error}."
        ) from error
    workload = factory(**options)
    missing = [member for member in MEMBERS if not hasattr(workload, member)]
    if missing:
        raise ValueError(
            f"a workload needs the members {', '.join(MEMBERS)}; {name} gave a "
            f"{type(workload).__name__} without {', '.join(missing)}. Derive it from "
            "extrap.workloads.TensorWorkload and define build and loss."
        )
    return cast(LoadedWorkload, _Plugin(workload, source))
