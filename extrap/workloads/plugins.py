"""Workloads of a user's own: found by file or module, checked, known by a hash of their source.

`Workload(name="path/to/file.py:Name", options={…})` or `Workload(name="package.module:Name", …)`
calls `Name(**options)`; `Name` is a class or a function, relative paths start in the working
directory. What it returns has the members of `LoadedWorkload`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from extrap.files import import_source
from extrap.workloads.protocol import LoadedWorkload

MEMBERS = sorted(name for name in vars(LoadedWorkload) if not name.startswith("_"))


class _Plugin:
    """A workload whose fingerprint also tells its source."""

    def __init__(self, workload: LoadedWorkload, source: bytes) -> None:
        self._workload = workload
        own = {"source_sha256": hashlib.sha256(source).hexdigest()}
        self.fingerprint: Mapping[str, str | int | float] = {**workload.fingerprint, **own}

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_workload"], name)


def is_plugin(name: str) -> bool:
    """Whether a workload's name says where to find it."""
    return ":" in name or name.endswith(".py")


def load_plugin(name: str, options: Mapping[str, object]) -> LoadedWorkload:
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
