"""The whole of `width_rules.py`: three lengths and seeds, 4.5 and 8 times the largest compute.

Registered in `registered.md`; `python -m benchmarks.evidence_workloads` computes the figures.

Cost: 378 runs and 96 larger ones, 19 minutes on two cores; it resumes where it was stopped.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source
from extrap.records import Target

HERE = Path(__file__).parent
reduced = import_source(HERE / "width_rules.py", "extrap_width_rules")
AROUND = (1.0, 2**-1.5, 2**-0.75, 2**0.75, 2**1.5)
"""Multiples of the recommended rate at a larger size."""

STANDARD = replace(
    reduced.STANDARD,
    sizes={"width": (16, 32, 64), "tokens": (2**16, 2**17, 2**18)},
    seeds=(4100, 4101, 4102),
    targets=(
        Target(size={"width": 96, "tokens": 2**19}, factors=AROUND),
        Target(size={"width": 128, "tokens": 2**19}, factors=AROUND),
    ),
    target_seeds=(4100, 4101, 4102, 4103),
)
SERIES = reduced.Series(
    name="width_rules_full",
    question=reduced.SERIES.question,
    studies=reduced.both_rules(STANDARD, "transformer"),
)
