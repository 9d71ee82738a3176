"""Is the rate that is forecast for a wider convolutional network on MNIST-1D the best one there?

Three convolutions over curves of 40 points, widths 6 to 48; the forecast for 96 and 192 channels
is sealed. There four seeds are trained at the recommended rate, at .75 and 1.5 octaves to either
side of it, so that the best rate there is measured, and at the rate that was best at width 6.

Registered in `registered.md`; `python -m benchmarks.evidence_workloads` computes the figures.

Cost: 147 runs of 1,000 steps and 48 larger ones, five minutes on two cores, half of them at 192
channels. It needs the package `mnist1d`, see `constraints.txt`.

Data: Greydanus and Kobak 2024, "Scaling down deep learning with MNIST-1D", arXiv 2011.14439.
"""

from __future__ import annotations

from pathlib import Path

from extrap.files import import_source
from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload

Series = import_source(Path(__file__).parent / "series" / "kind.py", "extrap_series").Series

AROUND = (1.0, 2**-1.5, 2**-0.75, 2**0.75, 2**1.5)
"""Multiples of the recommended rate at a larger size."""

SERIES = Series(
    name="mnist_1d",
    question="Is the rate forecast for a wider network on MNIST-1D the best one there?",
    studies=(
        StudySpec(
            name="mnist-channels",
            question="How do rate and loss go with the channels?",
            workload=Workload(name="studies/mnist_1d_workload.py:Curves"),  # where you start
            recipe=Recipe(batch_size=64, n_evals=20),
            sizes={"width": (6, 8, 12, 16, 24, 32, 48)},
            tune={"lr": TunedRange(low=2**-9, high=2**-3, n=7)},
            seeds=(3000, 3001, 3002),
            targets=(
                Target(size={"width": 96}, factors=AROUND),
                Target(size={"width": 192}, factors=AROUND),
            ),
            target_seeds=(3000, 3001, 3002, 3003),
        ),
    ),
)
