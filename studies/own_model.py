"""How to study a model of your own: here a convolutional network on scikit-learn's digits.

The model and its data are a class in a file beside this one, because importing a study imports no
torch. Copy both files, put in what is yours, and run `make study-NAME`.

Expected: the loss falls as a power of the number of channels, and flattens where 1,347 images have
no more to teach (0.040 at 24 channels, 0.038 at 48). The best rate falls to about a third.

Cost: 126 runs of 300 steps and four larger ones, about two minutes on two processor cores.
"""

from __future__ import annotations

from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload

STUDY = StudySpec(
    name="own_model",
    question="What do more channels bring on small handwritten digits?",
    workload=Workload(
        name="studies/own_model_workload.py:Digits",  # from the directory you start in
        options={"noise": 0.1},
    ),
    recipe=Recipe(steps=300, batch_size=64),
    sizes={"width": (4, 6, 8, 12, 16, 24)},
    tune={"lr": TunedRange(low=2**-9, high=2**-3, n=7)},
    seeds=(0, 1, 2),
    targets=(Target(size={"width": 48}),),
)
