"""Steps to a target against batch size: critical batch sizes, regimes, their laws, learning rates.

What to use when:

* `steps_to_target` — from loss curves to the step at which each run reaches a target.
* `tuned_steps`, `seed_steps` — the same at the best learning rate of every batch size.
* `critical_batch` — from a table of steps to a target to critical batch sizes and their laws.
* `agreement` — mean noise scales against critical batch sizes, over tasks and targets.
* `rate_law`, `joint_rate_law` — the best learning rate against batch size, and against size too.
"""

from __future__ import annotations

from extrap.batching.agreement import Agreement, agreement
from extrap.batching.critical import FLAGS, CriticalBatches, critical_batch
from extrap.batching.noise_courses import (
    growth,
    noise_over_training,
    noise_until,
    pool_gradients,
)
from extrap.batching.power_laws import BatchLaw
from extrap.batching.rates import RATE_RULES, RateLaw, RateRule, joint_rate_law, rate_law
from extrap.batching.results import (
    BatchGroup,
    BatchPoint,
    BatchPrediction,
    Regimes,
)
from extrap.batching.size_laws import SizeForecast
from extrap.batching.targets import seed_steps, smooth_curve, steps_to_target, tuned_steps
from extrap.batching.tasks import TaskResult, analyse_task

__all__ = [
    "FLAGS",
    "RATE_RULES",
    "Agreement",
    "BatchGroup",
    "BatchLaw",
    "BatchPoint",
    "BatchPrediction",
    "CriticalBatches",
    "RateLaw",
    "RateRule",
    "Regimes",
    "SizeForecast",
    "TaskResult",
    "agreement",
    "analyse_task",
    "critical_batch",
    "growth",
    "joint_rate_law",
    "noise_over_training",
    "noise_until",
    "pool_gradients",
    "rate_law",
    "seed_steps",
    "smooth_curve",
    "steps_to_target",
    "tuned_steps",
]
