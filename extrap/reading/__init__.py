"""Tables and storages that people have, turned into `Runs`."""

from __future__ import annotations

from extrap.reading.runs import read_runs, without_password

__all__ = ["read_runs", "without_password"]
