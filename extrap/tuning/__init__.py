"""Tuning: claim cells in an Optuna storage, train them, record what they gave."""

from __future__ import annotations

from extrap.records import Train, TrainFunction
from extrap.training.preemption import Preemption
from extrap.tuning.adoption import adopt_training
from extrap.tuning.events import Notify, TuneEvent
from extrap.tuning.leases import GRACE_S
from extrap.tuning.loop import Extend, Tune, tune
from extrap.tuning.sharing import Merged, merge_storages, shard_cells

__all__ = [
    "GRACE_S",
    "Extend",
    "Merged",
    "Notify",
    "Preemption",
    "Train",
    "TrainFunction",
    "Tune",
    "TuneEvent",
    "adopt_training",
    "merge_storages",
    "shard_cells",
    "tune",
]
