"""Which fixed value breaks next, once the learning rate is tuned at every size?

The rate is swept at three small widths. Then, at the best rate of each width, every other value
of the recipe is moved to its half and its double, one at a time and with the same seeds, and
ranked by what holding it fixed will cost at width 1024 and by how fast its best value drifts.

Expected: depth and beta1 cost most at 1024, 5 % (2 to 8) and 1.6 % (.3 to 2.9) of the loss: two
layers and a beta1 of .8 are better at every width, in runs of 1,000 steps. The initialisation
should be 1.7 times as large at 1024, 1.3 % (.2 to 3.4), and no drift of it is told from noise.
Warm-up, beta2, eps, weight decay and precision cost at most 1.0 to 1.5 %, decay 2.9.
Two runs each at width 512 bore it out: depth 2 gained 3.0 %, beta1 .8 2.3 %, init_scale 2 1.4 %.

Cost: 64 runs for the rate and 270 with a knob moved, of 1,000 steps: 280 seconds of processor
time, two minutes on two cores that do nothing else.

`extrap knobs FILE` asks the same of any study file, this one's `KNOBS` only says which knobs and
sizes. `--at width=256` asks about another width.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling", leaves it open.
"""

from __future__ import annotations

from extrap.records import KnobStudy, Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="knobs",
    question="Which fixed value should be tuned before scaling up?",
    workload=Workload(name="bytes-mlp", options={"depth": 3}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 48, 144)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
    seeds=(0, 1, 2, 3),
)
KNOBS = KnobStudy(name="knobs", study=STUDY, seeds=(0, 1, 2, 3, 4), target={"width": 1024})
