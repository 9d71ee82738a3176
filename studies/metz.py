"""Does one learning rate, tuned once at a small width, do for larger models?

Expected: no. The loss at the rate tuned at width 16 follows a clean law over the small widths,
flattens near width 96 and turns up beyond. Tuned at each width, the optimal rate falls as a power
of the width, about -0.4, and the laws of rate and loss forecast widths 512 and 1024.

Cost: 288 runs of 1,000 steps for the sweep and some ten larger ones, three minutes on two
processor cores.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling".
"""

from __future__ import annotations

from extrap.records import StudySpec, Target, TunedRange, Workload

STUDY = StudySpec(
    name="metz",
    question="Does a learning rate tuned once at a small width do for larger models?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (16, 24, 32, 48, 64, 96, 128, 192)},
    tune={"lr": TunedRange(low=2**-10, high=2**-4, n=9)},
    seeds=(0, 1, 2, 3),
    targets=(
        Target(size={"width": 512}, factors=(1.0, 0.5, 2.0)),
        Target(size={"width": 1024}),
    ),
    target_seeds=(0, 1),
)
