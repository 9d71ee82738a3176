"""Training: all runs of one size as one program.

Packing changes speed only: a run's result does not depend on which others are in its pack. Names
are fetched on first use: training of the user's own does without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.training.coordinates import CoordinateCheck, coordinate_check
    from extrap.training.layouts import Layout
    from extrap.training.loop import find_device, n_gpus, train
    from extrap.training.memory import most_runs
    from extrap.training.noise_meter import NoiseMeter
    from extrap.training.packs import Pack, flops_6nd

__all__ = [
    "CoordinateCheck",
    "Layout",
    "NoiseMeter",
    "Pack",
    "coordinate_check",
    "find_device",
    "flops_6nd",
    "most_runs",
    "n_gpus",
    "train",
]

_HOMES = {
    "Layout": "layouts",
    "NoiseMeter": "noise_meter",
    **dict.fromkeys(("CoordinateCheck", "coordinate_check"), "coordinates"),
    **dict.fromkeys(("Pack", "flops_6nd"), "packs"),
    "most_runs": "memory",
    **dict.fromkeys(("find_device", "n_gpus", "train"), "loop"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
