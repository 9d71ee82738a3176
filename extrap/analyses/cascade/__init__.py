"""When a small model may answer for a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.cascade.thresholds import Cascade, cascade, clustered_mean

__all__ = [
    "ANALYSIS",
    "Cascade",
    "cascade",
    "clustered_mean",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"Cascade": "page.cascade_blocks"},
    commands={"More analyses": "command.cascade_command"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "thresholds": "Cascade cascade clustered_mean",
    },
)
