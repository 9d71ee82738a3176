"""Studies: what a kind of study is, study files, and one driver for all kinds.

* `open_study` — the study of any kind that a file defines.
* `run`, `train`, `report`, `dry_run` — the driver.
* `Kind`, `Stage`, `Seal`, `RunsByStage` — what a kind of study says.
"""

from __future__ import annotations

from extrap.study.driver import (
    Outcome,
    default_storage,
    dry_run,
    read_study,
    report,
    run,
    runs_of_table,
    train,
)
from extrap.study.files import KINDS, kind_of, open_study
from extrap.study.protocol import Kind, RunsByStage, Seal, Stage

__all__ = [
    "KINDS",
    "Kind",
    "Outcome",
    "RunsByStage",
    "Seal",
    "Stage",
    "default_storage",
    "dry_run",
    "kind_of",
    "open_study",
    "read_study",
    "report",
    "run",
    "runs_of_table",
    "train",
]
