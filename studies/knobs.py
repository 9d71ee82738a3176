"""Which fixed value breaks next, once the learning rate is tuned at every size?

The rate is swept at three small widths. Then, at the best rate of each width, every other value
of the recipe is moved to its half and its double, one at a time and with the same seeds, and
ranked by what holding it fixed will cost at width 1024 and by how fast its best value drifts.

Expected: TO BE MEASURED.

Cost: 60 runs for the rate and 270 with a knob moved, of 1,000 steps.

`extrap knobs FILE` asks the same of any study file, this one's `KNOBS` only says which knobs and
sizes. `--at width=256` asks about another width.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling", leaves it open.
"""

from __future__ import annotations

from extrap.records import KnobStudy, Recipe, StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="knobs",
    question="Which fixed value breaks next?",
    workload=Workload(name="bytes-mlp", options={"depth": 3}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 48, 144)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
    seeds=(0, 1, 2, 3),
)
KNOBS = KnobStudy(name="knobs", study=STUDY, seeds=(0, 1, 2, 3, 4), target={"width": 1024})
