"""The nouns: immutable records that every other room passes around."""

from __future__ import annotations

from extrap.records.overrides import override
from extrap.records.results import Estimate, Fit, Interval, Optimum, Point, Verdict
from extrap.records.runs import STAGES, STATUSES, Runs, condition_text
from extrap.records.study import (
    Cell,
    OnEval,
    Recipe,
    RunResult,
    StudySpec,
    Target,
    TunedRange,
    Workload,
)

__all__ = [
    "STAGES",
    "STATUSES",
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
