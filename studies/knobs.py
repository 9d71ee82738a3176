"""Which fixed value should be tuned before scaling up, once the rate is tuned at every size?

Depth, the distance of beta1 from 1, the scale of the initialisation, warm-up and weight decay are
halved and doubled, one at a time, in an MLP on bytes. Every such recipe has its own best rate at
every width.

Expected, from runs at the best rates of the plain recipe, with 3 layers and 5 seeds: at width
1024 the depth costs 5 % (2 to 8) of the loss, and 2 layers are better; beta1 1.6 % (.3 to 2.9),
and .8 is better; init_scale 1.3 % (.2 to 3.4), warm-up and weight decay at most 1.5 %. Two runs
each at width 512 gained 3.0 % by depth 2, 2.3 % by beta1 .8 and 1.4 % by init_scale 2.

Found: of 10 changes one survives at width 1024 and one hurts, both of the depth. 2 layers instead
of 4 gain 6.8 % (4.9 to 8.5 %) at width 144, and 7.1 % (2.4 to 11.8 %) is forecast; 8 layers cost
15.8 % (11.8 to 19.8 %), 17.7 % (6.5 to 29.8 %). The 8 others are undecided there. Of these the
scale of the initialisation moves the loss most: twice gains 3.6 % (2.1 to 5.0 %) at width 144,
half costs 4.4 % (2.2 to 6.7 %). Half the distance of beta1 from 1 costs 2.9 % (1.0 to 4.7 %)
there; warm-up and weight decay move the forecast by at most 1.4 %.

Cost: 467 runs of 1,000 steps with those where a best rate lies at an edge, six minutes on two
processor cores.

Paper: Luke Metz 2022, "On the difficulty of extrapolation with NN scaling", leaves it open.
"""

from __future__ import annotations

from extrap.analyses.comparison import ComparisonStudy, moves
from extrap.records import Recipe, StudySpec, TunedRange, Workload

PLAIN = StudySpec(
    name="knobs-plain",
    question="How does the loss fall with width where no value is moved?",
    workload=Workload(name="bytes-mlp", options={"depth": 4}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 48, 144)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=3)},
    seeds=(0, 1, 2),
    growth=1,
)
MOVED = ("depth", "beta1", "init_scale", "warmup", "weight_decay")
COMPARISON = ComparisonStudy(
    name="knobs",
    question="Which fixed value should be tuned before scaling up?",
    groups=(moves(PLAIN, MOVED, target={"width": 1024}),),
)
