"""What tuning tells whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneEvent:
    """Where a stage stands.

    Attributes:
        stage: `"tune"` or `"check"`.
        size: Size of the pack in training.
        n_runs: Runs in the pack.
        fraction: Part of the pack that is done, in [0, 1].
        cost_done: FLOPs of the stage that are spent; with a training function of one's own, runs
            instead of FLOPs.
        cost_total: FLOPs of every cell the stage wants so far; it rises when the grid grows.
        is_finished: Whether the pack is done and recorded.
        wall_s: Seconds since the pack was handed out.
        layout: How it is trained, for people; empty before that is decided.
        study: Name of the sweep.
    """

    stage: str
    size: Mapping[str, float]
    n_runs: int
    fraction: float
    cost_done: float
    cost_total: float
    is_finished: bool
    wall_s: float
    layout: str = ""
    study: str = ""


Notify = Callable[[TuneEvent], None]
