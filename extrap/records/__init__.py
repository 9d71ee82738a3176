"""Immutable records that all other packages use.

Tables of runs are fetched on first use: a process that only trains does without pandas, which
takes as long to import as a small pack takes to train.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.records.command import Command
from extrap.records.intervals import Interval
from extrap.records.overrides import override
from extrap.records.recipe import EXAMPLES_COLUMN, STEPS_COLUMN, TOKENS_COLUMN, TUNABLE, Recipe
from extrap.records.results import (
    Estimate,
    Fit,
    KeptValue,
    Measure,
    Optimum,
    Point,
    Recommendation,
    Remedy,
    RuleRegret,
    Shown,
    Verdict,
    Verdicts,
)
from extrap.records.size_paths import SizePath
from extrap.records.study import (
    CONTRAST,
    OPTUNA_SAMPLERS,
    OWN,
    RECOMMENDED,
    ROLES,
    Cell,
    OnEval,
    RunResult,
    StudySpec,
    Target,
    Train,
    TrainFunction,
    TunedRange,
    Workload,
)

if TYPE_CHECKING:
    from extrap.records.runs import STAGES, WITHOUT_SEED, Runs, condition_text

__all__ = [
    "CONTRAST",
    "EXAMPLES_COLUMN",
    "OPTUNA_SAMPLERS",
    "OWN",
    "RECOMMENDED",
    "ROLES",
    "STAGES",
    "STEPS_COLUMN",
    "TOKENS_COLUMN",
    "TUNABLE",
    "WITHOUT_SEED",
    "Cell",
    "Command",
    "Estimate",
    "Fit",
    "Interval",
    "KeptValue",
    "Measure",
    "OnEval",
    "Optimum",
    "Point",
    "Recipe",
    "Recommendation",
    "Remedy",
    "RuleRegret",
    "RunResult",
    "Runs",
    "Shown",
    "SizePath",
    "StudySpec",
    "Target",
    "Train",
    "TrainFunction",
    "TunedRange",
    "Verdict",
    "Verdicts",
    "Workload",
    "condition_text",
    "override",
]

__getattr__ = on_first_use(__name__, {"runs": "STAGES WITHOUT_SEED Runs condition_text"})
