"""Does the length of warm-up or decay, or the shape of the decay, change where a sweep leads?

Metz' note leaves open what the schedule does to the laws. Here the byte MLP of `metz.py` is tuned
anew, at four widths, for each of nine schedules: warm-up and decay half and twice as long, a decay
by 1 − √x, a linear one and a cosine over the whole run, and no warm-up. Losses at width 512 are
forecast, sealed and trained, each at its own rate.

Registered in `registered.md`; `python -m benchmarks.evidence_schedules` computes the figures.

Cost: 648 runs of 1,000 steps and 27 larger ones, seven minutes on two cores.

Papers: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling"; Hägele et al. 2024,
"Scaling laws and compute-optimal training beyond fixed training durations", arXiv 2405.18392.
"""

from __future__ import annotations

from dataclasses import replace

from extrap.analyses.comparison import ComparisonStudy, ablations, moves
from extrap.records import Recipe, StudySpec, TunedRange, Workload

PLAIN = StudySpec(
    name="schedules-plain",
    question="How does the loss fall with width where no schedule is changed?",
    workload=Workload(name="bytes-mlp"),
    recipe=Recipe(decay=0.4),  # of which twice fits in a run
    sizes={"width": (16, 32, 64, 128)},
    tune={"lr": TunedRange(low=2**-10, high=2**-5, n=6)},
    seeds=(5000, 5001, 5002),
    target_seeds=(5000, 5001, 5002),
    growth=2,
)
TARGET = {"width": 512}
LENGTHS = replace(
    moves(PLAIN, ("warmup", "decay"), target=TARGET),
    name="Lengths",
    question="Do warm-up and decay of other lengths change the loss or its law?",
    expected="Within 2 % at every width; a decay of .2 is worse, of .8 better.",
    check_target=True,
)
SHAPES = replace(
    ablations(
        PLAIN,
        {
            "1 − √x": replace(PLAIN.recipe, schedule="wsd-sqrt"),
            "linear": replace(PLAIN.recipe, schedule="linear"),
            "cosine": replace(PLAIN.recipe, schedule="cosine"),
            "no warm-up": replace(PLAIN.recipe, warmup=0.0),
        },
    ),
    name="Shapes",
    question="Do other shapes of the decay change the loss or its law?",
    target=TARGET,
    expected="Hägele et al. 2024: 1 − √x is a little better than a line of the same length.",
    check_target=True,
)
COMPARISON = ComparisonStudy(
    name="schedules",
    question="Do the lengths and the shape of a schedule change where a sweep leads?",
    groups=(LENGTHS, SHAPES),
)
