"""Training: all runs of one size as one program.

Packing changes speed only: a run's result does not depend on which others are in its pack. Names
are fetched on first use: training of the user's own does without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use

if TYPE_CHECKING:
    from extrap.training.layouts import Layout
    from extrap.training.loop import find_device, n_gpus, train
    from extrap.training.memory import most_runs
    from extrap.training.noise_meter import NoiseMeter
    from extrap.training.packs import Pack, flops_6nd

__all__ = [
    "Layout",
    "NoiseMeter",
    "Pack",
    "find_device",
    "flops_6nd",
    "most_runs",
    "n_gpus",
    "train",
]

__getattr__ = on_first_use(
    __name__,
    {
        "layouts": "Layout",
        "loop": "find_device n_gpus train",
        "memory": "most_runs",
        "noise_meter": "NoiseMeter",
        "packs": "Pack flops_6nd",
    },
)
