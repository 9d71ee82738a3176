"""Which changes of a recipe survive four and eight times the width they were found at?

Two variants of an MLP of three hidden layers over bytes, found at widths 16 to 64: the optimizer
Muon instead of Adam, and a single hidden layer. Both win at every one of these widths. The
forecasts for widths 256 and 512 are sealed before anything is trained there. Expected, from two
other seeds at widths 16 to 64 alone: Muon's gain grows from 1 to 3 % and survives; that of the
shallow network shrinks from 4 % at width 24 to .7 % at 64 and is gone at 256.

Cost: about 600 small runs and 24 large ones, half an hour on two processor cores.

Paper: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
"""

from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup

ADAM = StudySpec(
    name="gate-adam",
    question="How does the loss of the plain recipe fall with width?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (16, 20, 24, 28, 32, 40, 48, 64)},
    tune={"lr": TunedRange(low=2**-10, high=2**-5, n=6)},
    seeds=(2, 3, 4, 5),
    target_seeds=(10, 11, 12, 13),
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
    groups=tuple(
        RecipeGroup(
            name=f"At width {width}",
            question=f"Does the gain found at widths 16 to 64 survive at {width}?",
            arms={"adam": ADAM, "muon": MUON, "one layer": SHALLOW},
            target={"width": width},
            expected="Muon survives; the gain of one layer is gone.",
            check_target=True,
        )
        for width in (256, 512)
    ),
)
