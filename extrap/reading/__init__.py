"""Tables and storages that people have, turned into `Runs`."""

from __future__ import annotations

from extrap.reading.reader import read_runs
from extrap.reading.table_files import read_embedding

__all__ = ["read_embedding", "read_runs"]
