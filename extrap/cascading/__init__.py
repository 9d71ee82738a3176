"""A small model before a large one: at which confidence it may answer, and what that saves.

What to use when:

* `cascade` — from saved predictions of two models to a threshold, its cost and its quality.
* `judge_pairs` — what several small models save, over pairs of trainings.
"""

from __future__ import annotations

from extrap.cascading.choice import cascade
from extrap.cascading.pairs import (
    MARGIN,
    CascadeFinding,
    CascadeReport,
    curve_rows,
    judge_pairs,
)
from extrap.cascading.results import Cascade, CascadePoint

__all__ = [
    "MARGIN",
    "Cascade",
    "CascadeFinding",
    "CascadePoint",
    "CascadeReport",
    "cascade",
    "curve_rows",
    "judge_pairs",
]
