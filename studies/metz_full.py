"""Metz' whole study: 12 widths × 12 rates × 3 seeds, 30,000 steps each, 432 runs.

Question: does the loss law of the tuned runs hold from width 16 to 4096, and does the best rate
fall as a power of the width all the way?

Expected: yes, the best rate falling by a quarter to a third for each doubling, and the loss at the
rate tuned at small width turning up beyond. Here on the bytes of Python's own source instead of
images; `--set workload.name=studies/metz_workload.py:Images --set workload.path=FILE.npz` is his
own, for who has the data.

Found, widths to 2048 (metz_full.csv): the best rate falls from 0.0041 to 0.0003, and the loss at
the rate of width 16 turns up beyond 512, 15 % above the tuned one at 2048.

Cost: 8 minutes on one NVIDIA H200 for the widths to 2048 and, estimated, 15 more for the last two;
weeks on two processor cores. It resumes where it was stopped, so it can be run in pieces.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling".
"""

from __future__ import annotations

from extrap.records import Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="metz_full",
    question="Do the laws of tuned rate and loss hold from width 16 to 4096?",
    workload=Workload(name="bytes-mlp"),
    recipe=Recipe(steps=30_000, batch_size=128, precision="tf32"),
    sizes={"width": (16, 24, 32, 64, 96, 128, 256, 512, 1024, 2048, 3072, 4096)},
    tune={"lr": TunedRange(low=2**-15, high=2**-4, n=12)},
    seeds=(0, 1, 2),
    growth=0,
)
