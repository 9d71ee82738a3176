"""When a small model may answer for a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.analyses import on_first_use

if TYPE_CHECKING:
    from extrap.analyses.cascade.thresholds import Cascade, cascade, clustered_mean

__all__ = [
    "Cascade",
    "cascade",
    "clustered_mean",
]

__getattr__ = on_first_use(
    __name__,
    {
        "thresholds": "Cascade cascade clustered_mean",
    },
)
