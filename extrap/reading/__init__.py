"""Tables and storages that people have, turned into `Runs`.

Each is fetched on first use: who reads a page of ours needs no tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.reading.embeddings import read_embedding
    from extrap.reading.runs import read_runs

__all__ = ["read_embedding", "read_runs"]

_HOMES = {"read_embedding": "embeddings", "read_runs": "runs"}
"""Name → the module that defines it."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
