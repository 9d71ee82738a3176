"""Tables and storages that people have, turned into `Runs`."""

from __future__ import annotations

from extrap.reading.embeddings import read_embedding
from extrap.reading.runs import read_runs

__all__ = ["read_embedding", "read_runs"]
