"""Where will a run's loss end? From its own log and the rest of its learning rates.

* `land` — the loss at the end, with an interval.
* `save_landing`, `judge_landing` — a landing as a sealed file, and the end of the run against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.landing.landing import Landing, land
    from extrap.analyses.landing.sealed import JudgedLanding, judge_landing, save_landing

__all__ = [
    "ANALYSIS",
    "JudgedLanding",
    "Landing",
    "judge_landing",
    "land",
    "save_landing",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"Landing": "page.landing_blocks", "JudgedLanding": "page.judged_blocks"},
    commands={"Check": "command.land_command"},
    pages={"landing": "end of a run"},
    sealed={"landing": "sealed.judged"},
)

__getattr__ = on_first_use(
    __name__,
    {
        "landing": "Landing land",
        "sealed": "JudgedLanding judge_landing save_landing",
    },
)
