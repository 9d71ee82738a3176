"""Steps to a target against batch size: critical batch sizes, regimes, their laws, learning rates.

What to use when:

* `steps_to_target` — from loss curves to the step at which each run reaches a target.
* `tuned_steps`, `seed_steps` — the same at the best learning rate of every batch size.
* `critical_batch` — from a table of steps to a target to critical batch sizes and their laws.
"""

from __future__ import annotations

from extrap.batching.critical import FLAGS, CriticalBatches, critical_batch
from extrap.batching.documents import critical_batches_document, size_forecast_document
from extrap.batching.noise_courses import (
    Collapse,
    collapse,
    growth,
    noise_over_training,
    noise_until,
    pool_gradients,
)
from extrap.batching.results import (
    BatchGroup,
    BatchPoint,
    BatchPrediction,
    FrontPoint,
    Regimes,
    Segments,
)
from extrap.batching.size_laws import BatchLaw, SizeForecast
from extrap.batching.targets import seed_steps, smooth_curve, steps_to_target, tuned_steps
from extrap.batching.tasks import (
    FrontForecast,
    TaskResult,
    analyse_task,
    check_front,
    forecast_front,
)

__all__ = [
    "FLAGS",
    "BatchGroup",
    "BatchLaw",
    "BatchPoint",
    "BatchPrediction",
    "Collapse",
    "CriticalBatches",
    "FrontForecast",
    "FrontPoint",
    "Regimes",
    "Segments",
    "SizeForecast",
    "TaskResult",
    "analyse_task",
    "check_front",
    "collapse",
    "critical_batch",
    "critical_batches_document",
    "forecast_front",
    "growth",
    "noise_over_training",
    "noise_until",
    "pool_gradients",
    "seed_steps",
    "size_forecast_document",
    "smooth_curve",
    "steps_to_target",
    "tuned_steps",
]
