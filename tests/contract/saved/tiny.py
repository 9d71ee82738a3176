"""The study whose storage is `tiny.sql`; its loss is known in closed form."""

import math
from collections.abc import Mapping

from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="tiny",
    question="What does a study leave behind?",
    sizes={"width": (16, 32, 64, 128)},
    tune={"lr": TunedRange(low=2**-8, high=2**-3, n=6)},
    seeds=(0, 1),
    targets=(Target(size={"width": 512}),),
    growth=0,
)


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """1.8 + 3 / √width at lr = 0.4 / width^0.7; a rate of 0.12 or more diverges."""
    octaves = math.log2(tuned["lr"] * size["width"] ** 0.7 / 0.4)
    noise = 0.002 * math.sin(7 * seed + size["width"] + 1000 * tuned["lr"])
    loss = (1.8 + 3 / math.sqrt(size["width"])) * math.exp(0.02 * octaves**2 + noise)
    return loss if tuned["lr"] < 0.12 else math.nan


TRAIN = train
