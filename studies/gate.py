"""Which changes of a recipe survive four and eight times the width they were found at?

Two variants of an MLP of three hidden layers over bytes, found at widths 16 to 64: the optimizer
Muon instead of Adam, and a single hidden layer. Both win at every one of these widths. The
forecasts for widths 256 and 512 are sealed before anything is trained there. A gain below 1 % does
not matter here: the tuned losses of two seeds differ by .6 %.

Expected, from the seeds 2 to 9, trained before: Muon gains 1 % at width 16, 3 % at 64, and
survives (5.7 % at 256, 7.0 % at 512); one layer gains 3.9 % at width 16, 1.7 % at 64, and fades.
Found: Muon survives with 5.8 % (5.2 to 6.3 %) and 7.6 % (7.0 to 8.1 %), the second just outside
its forecast; one layer fades, with .1 % (−.7 to .9 %) at 256 and .2 % (−.6 to .9 %) at 512.

Cost: about 900 small runs and 36 large ones, half an hour on two processor cores.

Paper: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
"""

from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup

ADAM = StudySpec(
    name="gate-adam",
    question="How does the loss of the plain recipe fall with width?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (16, 20, 24, 28, 32, 40, 48, 64)},
    tune={"lr": TunedRange(low=2**-10, high=2**-5, n=6)},
    seeds=(10, 11, 12, 13, 14, 15),
    target_seeds=(20, 21, 22, 23, 24, 25),
)
MUON = replace(
    ADAM,
    name="gate-muon",
    recipe=Recipe(optimizer="muon"),
    tune={"lr": TunedRange(low=2**-9, high=2**-4, n=6)},
)
SHALLOW = replace(
    ADAM,
    name="gate-shallow",
    workload=Workload(name="bytes-mlp", options={"depth": 1}),
)
COMPARISON = ComparisonStudy(
    name="gate",
    question="Which changes of a recipe survive four and eight times the width?",
    min_gain=0.01,
    groups=tuple(
        RecipeGroup(
            name=f"At width {width}",
            question=f"Does the gain found at widths 16 to 64 survive at {width}?",
            arms={"adam": ADAM, "muon": MUON, "one layer": SHALLOW},
            target={"width": width},
            expected="Muon survives; one layer fades.",
            check_target=True,
        )
        for width in (256, 512)
    ),
)
