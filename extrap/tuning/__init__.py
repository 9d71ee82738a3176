"""Tuning: claim cells in an Optuna storage, train them, record what they gave."""

from __future__ import annotations

from extrap.tuning.events import Notify, TuneEvent
from extrap.tuning.loop import Extend, tune
from extrap.tuning.trainers import TrainFunction

__all__ = ["Extend", "Notify", "TrainFunction", "TuneEvent", "tune"]
