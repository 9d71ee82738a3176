"""Steps to a target against batch size: critical batch sizes, regimes and their laws.

* `steps_to_target` — from loss curves to the step at which each run reaches a target.
* `tuned_steps` — the same at the best learning rate of every batch size.
* `critical_batch` — from a table of steps to a target to critical batch sizes and their laws.
* `rate_law` — the best learning rate against batch size and size.
* `noise_over_training`, `growth`, `agreement` — noise scales, beside critical batch sizes.
* `analyse_task` — all of it for one task of a batch study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.batch_size.batch_laws import BatchLaw, rate_law
    from extrap.analyses.batch_size.batch_results import BatchGroup, BatchPrediction
    from extrap.analyses.batch_size.critical import (
        FLAGS,
        CriticalBatches,
        SizeForecast,
        critical_batch,
    )
    from extrap.analyses.batch_size.noise_course import (
        Agreement,
        agreement,
        growth,
        noise_over_training,
    )
    from extrap.analyses.batch_size.spec import BatchStudy, BatchTask
    from extrap.analyses.batch_size.steps import steps_to_target, tuned_steps
    from extrap.analyses.batch_size.task_results import TaskResult, analyse_task

__all__ = [
    "ANALYSIS",
    "FLAGS",
    "Agreement",
    "BatchGroup",
    "BatchLaw",
    "BatchPrediction",
    "BatchStudy",
    "BatchTask",
    "CriticalBatches",
    "SizeForecast",
    "TaskResult",
    "agreement",
    "analyse_task",
    "critical_batch",
    "growth",
    "noise_over_training",
    "rate_law",
    "steps_to_target",
    "tuned_steps",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"CriticalBatches": "page.critical_blocks"},
    kinds={"BATCHES": "study"},
    commands={"More analyses": "command.critical_batch_command"},
    pages={"batches": "batch size"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "spec": "BatchStudy BatchTask",
        "batch_laws": "BatchLaw rate_law",
        "batch_results": "BatchGroup BatchPrediction",
        "critical": "FLAGS CriticalBatches SizeForecast critical_batch",
        "noise_course": "Agreement agreement growth noise_over_training",
        "steps": "steps_to_target tuned_steps",
        "task_results": "TaskResult analyse_task",
    },
)
