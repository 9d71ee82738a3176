"""Training: all runs of one size as one program, or as one a core.

Packing changes speed only: a run's result does not depend on which others are in its pack.
"""

from __future__ import annotations

from extrap.training.coordinates import CoordinateCheck, coordinate_check
from extrap.training.costs import flops_6nd
from extrap.training.crew import Crew
from extrap.training.engine import find_device, train
from extrap.training.layouts import Layout, n_cores
from extrap.training.memory import most_runs
from extrap.training.packs import Pack

__all__ = [
    "CoordinateCheck",
    "Crew",
    "Layout",
    "Pack",
    "coordinate_check",
    "find_device",
    "flops_6nd",
    "most_runs",
    "n_cores",
    "train",
]
