"""Studies: what a kind of study is, study files, and one driver for all kinds.

* `open_study` — the study of any kind that a file defines.
* `run`, `train`, `tune`, `report`, `dry_run` — the driver.
* `Kind`, `Stage`, `Seal`, `RunsByStage` — what a kind of study says.

Names are imported on first use: a study file that derives its study from another one needs no
statistics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.study.driver import (
        Outcome,
        default_storage,
        dry_run,
        read_study,
        report,
        run,
        runs_of_table,
        train,
        tune,
    )
    from extrap.study.loading import open_study
    from extrap.study.protocol import Kind, RunsByStage, Seal, Stage
    from extrap.study_folders import KINDS

__all__ = [
    "KINDS",
    "Kind",
    "Outcome",
    "RunsByStage",
    "Seal",
    "Stage",
    "default_storage",
    "dry_run",
    "open_study",
    "read_study",
    "report",
    "run",
    "runs_of_table",
    "train",
    "tune",
]

_HOMES = {
    "open_study": "loading",
    **dict.fromkeys(("KINDS", "Kind", "RunsByStage", "Seal", "Stage"), "protocol"),
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'driver')}"), name)
