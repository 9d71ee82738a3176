"""The nouns: immutable records that every other room passes around."""

from __future__ import annotations

from extrap.records.overrides import override
from extrap.records.recipe import DATA_SIZE, TUNABLE, Recipe
from extrap.records.results import Estimate, Fit, Interval, Optimum, Point, Verdict
from extrap.records.runs import STAGES, STATUSES, Runs, condition_text
from extrap.records.study import (
    Cell,
    OnEval,
    RunResult,
    StudySpec,
    Target,
    TunedRange,
    Workload,
)

__all__ = [
    "DATA_SIZE",
    "STAGES",
    "STATUSES",
    "TUNABLE",
    "Cell",
    "Estimate",
    "Fit",
    "Interval",
    "OnEval",
    "Optimum",
    "Point",
    "Recipe",
    "RunResult",
    "Runs",
    "StudySpec",
    "Target",
    "TunedRange",
    "Verdict",
    "Workload",
    "condition_text",
    "override",
]
