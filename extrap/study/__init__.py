"""Studies: what a kind of study is, study files, and one driver for all kinds.

* `open_study` — the study of any kind that a file defines.
* `run`, `train`, `tune`, `report`, `dry_run` — the driver.
* `Kind`, `Stage`, `Seal`, `RunsByStage` — what a kind of study says.

Names are imported on first use: a study file that derives its study from another one needs no
statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use

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

__all__ = [
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

__getattr__ = on_first_use(
    __name__,
    {
        "driver": "Outcome default_storage dry_run read_study report run runs_of_table train tune",
        "loading": "open_study",
        "protocol": "Kind RunsByStage Seal Stage",
    },
)
