"""A family in which depth sets width, parameters, tokens, batch and compute.

`extrap study run examples/own/size_path.py` from the root of the repository. The path is told to
the function with the size; parameters, tokens and FLOPs are recorded with every run. The function
is a toy: the loss falls as in Hoffmann et al. (2022), and the best rate with the parameters.

Cost: 96 runs for the sweep and two larger ones, seconds on one processor core.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="size-path",
    question="Which rate does depth 34 want?",
    sizes={"depth": (4, 6, 8, 12)},
    path={
        "width": "64 * depth",
        "n_params": "12 * depth * width**2",
        "n_tokens": "20 * n_params",
        "batch_tokens": "2 ** round(log2(8 * sqrt(n_tokens)))",
        "flops": "6 * n_params * n_tokens",
    },
    tune={"lr": TunedRange(low=2**-11, high=2**-4, n=8)},
    targets=(Target(size={"depth": 34}, fixed=False),),
)


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """The loss of a run of `size["n_tokens"]` tokens in batches of `size["batch_tokens"]`."""
    octaves = math.log2(tuned["lr"] / (1.2 * size["n_params"] ** -0.3))
    noise = random.Random(f"{size}{tuned}{seed}").gauss(0, 0.001)
    floor = 1.69 + 406.4 / size["n_params"] ** 0.34 + 410.7 / size["n_tokens"] ** 0.28
    return floor * math.exp(0.01 * octaves**2 + noise)


TRAIN = train
