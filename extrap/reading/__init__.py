"""Tables and storages that people have, turned into `Runs`."""

from __future__ import annotations

from extrap.reading.runs import read_runs
from extrap.reading.tables import read_embedding

__all__ = ["read_embedding", "read_runs"]
