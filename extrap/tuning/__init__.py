"""Tuning: claim cells in an Optuna storage, train them, record what they gave."""

from __future__ import annotations

from extrap.training.preemption import Preemption
from extrap.tuning.events import Notify, TuneEvent
from extrap.tuning.leases import GRACE_S
from extrap.tuning.loop import Extend, Tune, tune
from extrap.tuning.sharing import Merged, merge_storages, shard_cells
from extrap.tuning.trainers import TrainFunction

__all__ = [
    "GRACE_S",
    "Extend",
    "Merged",
    "Notify",
    "Preemption",
    "TrainFunction",
    "Tune",
    "TuneEvent",
    "merge_storages",
    "shard_cells",
    "tune",
]
