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
from types import ModuleType
from typing import Any, cast

from extrap.files import import_source
from extrap.workloads.protocol import LoadedWorkload, TensorWorkload

MEMBERS = sorted(name for name in vars(LoadedWorkload) if not name.startswith("_"))
TO_DEFINE = ("build", "loss")


class _Plugin:
    """A workload whose fingerprint also tells its source."""

    def __init__(self, workload: LoadedWorkload, source_sha256: str) -> None:
        self._workload = workload
        self.fingerprint: Mapping[str, str | int | float] = {
            **workload.fingerprint,
            "source_sha256": source_sha256,
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_workload"], name)


def is_plugin(name: str) -> bool:
    """Whether a workload's name says where to find it."""
    return ":" in name or name.endswith(".py")


def load_plugin(name: str, options: Mapping[str, object]) -> LoadedWorkload:
    """Import a workload and call it with its options.

    Raises:
        ValueError: It cannot be found, imported or called so, or lacks a member.
    """
    where, colon, attribute = name.rpartition(":")
    if not (where and colon and attribute.isidentifier()):
        raise ValueError(
            "your own workload is named path/to/file.py:Name or package.module:Name, got "
            f"{name!r}; add the name of its class or function."
        )
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ValueError(
            f"{where} defines no class or function {attribute!r}; it has "
            f"{', '.join(_own_callables(module)) or 'none at all'}."
        )
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ValueError(f"the options of {name} are its arguments: {error}.") from error
    workload = factory(**options)
    _require_members(name, workload)
    source = Path(cast(str, module.__file__)).read_bytes()
    plugin = _Plugin(workload, hashlib.sha256(source).hexdigest())
    return cast(LoadedWorkload, plugin)


def _import_file(path: Path) -> ModuleType:
    path = path.expanduser()
    if not path.is_file():
        raise ValueError(
            f"workload file {path} does not exist; relative paths start in {Path.cwd()}."
        )
    known_as = f"extrap_workload_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    if path.suffix != ".py":
        raise ValueError(f"a workload's file must be a Python file that ends in .py, got {path}.")
    try:
        return import_source(path.resolve(), known_as)
    except Exception as error:
        raise _cannot_import(str(path), error) from error


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise _cannot_import(name, error) from error


def _cannot_import(where: str, error: Exception) -> ValueError:
    return ValueError(
        f"{where} cannot be imported: {type(error).__name__}: {error}; correct it, or install "
        "what it needs."
    )


def _own_callables(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    ]


def _require_members(name: str, workload: object) -> None:
    missing = [member for member in MEMBERS if not hasattr(workload, member)]
    # TensorWorkload has these two only to say that they must be defined
    missing += [
        member
        for member in TO_DEFINE
        if getattr(type(workload), member, None) is getattr(TensorWorkload, member)
    ]
    if missing:
        raise ValueError(
            f"a workload needs the members {', '.join(MEMBERS)}; {name} gave a "
            f"{type(workload).__name__} without {', '.join(missing)}. Derive it from "
            "extrap.workloads.TensorWorkload and define build and loss."
        )
