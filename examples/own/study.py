"""A study of ten lines with a training function of one's own.

`extrap study run examples/own/study.py` from the root of the repository. The function is a toy
with known answers, so that all of it takes seconds: the loss is 1.8 + 3 / sqrt(width), the best
rate 0.4 / width^0.7, and a run with a rate of 0.5 or more diverges. Put your training in its
place.

Cost: 120 runs for the sweep and four larger ones, seconds on one processor core.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="own",
    question="How does the loss fall with width, and which rate does width 1024 want?",
    sizes={"width": (16, 32, 64, 128, 256)},
    tune={"lr": TunedRange(low=2**-9, high=2**-2, n=8)},
    targets=(Target(size={"width": 1024}),),
)


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """Train one run and return its held-out loss; nan says that it diverged."""
    octaves = math.log2(tuned["lr"] * size["width"] ** 0.7 / 0.4)
    noise = random.Random(f"{size}{tuned}{seed}").gauss(0, 0.002)
    loss = (1.8 + 3 / math.sqrt(size["width"])) * math.exp(0.02 * octaves**2 + noise)
    return loss if tuned["lr"] < 0.5 else math.nan


TRAIN = train
