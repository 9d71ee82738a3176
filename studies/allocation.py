"""Wider or longer: how is a budget of compute best split for the model of the default study?

IsoFLOP profiles: at each of five budgets seven widths of the byte MLP train on C / (6 N) bytes,
each at five rates and on two seeds, in batches of 64. Parameters are counted without the table of
embeddings, bytes stay below one epoch. The loss at the best rate of each makes the law; the split
of a budget four times the largest is sealed, then trained there, and beside it half and twice the
parameters on twice and half the bytes.

Expected: WRITE

Cost: WRITE

`allocation.csv` has every run; `python -m benchmarks.allocations` prints its figures.

Papers: Hoffmann et al. 2022, arXiv 2203.15556; Muennighoff et al. 2023, arXiv 2305.16264; Sardana
et al. 2024, arXiv 2401.00448.
"""

from __future__ import annotations

from extrap.records import AllocationStudy, Recipe, StudySpec, TunedRange, Workload

ALLOCATION = AllocationStudy(
    name="allocation",
    question="How is a budget of compute best split between a wider model and a longer training?",
    study=StudySpec(
        name="allocation",
        question="What does each width reach with each budget, at its best rate?",
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(batch_size=64, n_evals=10),
        sizes={"width": (8, 12, 16, 24, 32, 48, 64)},
        tune={"lr": TunedRange(low=2**-9.5, high=2**-5.5, n=5)},
        seeds=(0, 1),
    ),
    budgets=(2e9, 4e9, 8e9, 1.6e10, 3.2e10),
    unique_tokens=2e5,
    inference_tokens=1e7,
)
