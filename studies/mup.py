"""Does the best learning rate stay put under muP, where the standard rule lets it fall with width?

Two recipes that differ in nothing but the width rule: the standard one, and muP, which equals it
at width 64. Each is tuned at every width, the losses are compared, and both are trained at width
512 at the rates forecast for it.

Expected: under the standard rule the best rate falls as about width^-0.4; under muP it stays.

Found: it goes as width^(-.41 ± .02) under the standard rule and as width^(.19 ± .02) under muP,
from .0059 at width 16 to .0099 at 256, so it does not quite stay. At width 512 two runs at the
rates forecast for it end 2.1 % (1.2 to 2.9 %) lower under muP; the sealed forecast was 1.8 % (.8
to 2.7 %). What keeping the rate of width 16 costs there is measured in `mup_transfer.py`.

Cost: twice 120 runs of 1,000 steps and four larger ones, three to seven minutes on two processor
cores.

`extrap coord-check studies/mup.py` looks at the same question before anything is tuned: whether a
few updates move every layer equally far at every width. Variants: `--set recipe.base_width=256`,
or `--set recipe.optimizer=sgd --set tune.lr.low=0.03 --set tune.lr.high=1`.

Paper: Yang, Hu et al. 2022, "Tensor Programs V: Tuning Large Neural Networks via Zero-Shot
Hyperparameter Transfer", arXiv 2203.03466.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.analyses.comparison import ComparisonStudy, RecipeGroup
from extrap.records import TunedRange
from extrap.study import open_study

METZ = open_study(Path(__file__).with_name("metz.py"), symbol="STUDY").study

STUDY = replace(
    METZ,
    name="mup",
    question="Does the best learning rate stay put under muP?",
    recipe=replace(METZ.recipe, parametrization="mup", base_width=64),
    sizes={"width": (16, 32, 64, 128, 256)},
    tune={"lr": TunedRange(low=2**-10, high=2**-5, n=8)},
    seeds=(0, 1, 2),
    targets=(),
)
STANDARD = replace(STUDY, name="mup-standard", recipe=METZ.recipe)

COMPARISON = ComparisonStudy(
    name="mup",
    question=STUDY.question,
    groups=(
        RecipeGroup(
            name="Width rule",
            question="Does muP keep the best learning rate, and what does that do to the loss?",
            arms={"standard": STANDARD, "muP": STUDY},
            target={"width": 512},
            expected="Under the standard rule the best rate falls with width; under muP it does "
            "not (Yang, Hu et al. 2022, Figure 1).",
            check_target=True,
        ),
    ),
)
