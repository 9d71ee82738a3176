"""Training: all runs of one size as one program on one device.

Packing changes speed only: a run's result does not depend on which others are in its pack.
"""

from __future__ import annotations

from extrap.training.costs import flops_6nd
from extrap.training.loop import train
from extrap.training.packs import Pack

__all__ = ["Pack", "flops_6nd", "train"]
