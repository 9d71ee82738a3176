"""Tables and storages that people have, turned into `Runs`.

What reads them is imported on first use: the command line describes its options without pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use

if TYPE_CHECKING:
    from extrap.reading.reader import read_runs
    from extrap.reading.table_files import read_embedding

__all__ = ["read_embedding", "read_runs"]

__getattr__ = on_first_use(__name__, {"reader": "read_runs", "table_files": "read_embedding"})
