"""Does the best learning rate stay put under muP, where the standard rule lets it fall with width?

Two sweeps that differ in nothing but the width rule: the study under muP, its baseline under the
standard rule, of which muP is a copy at width 64. The report compares how the best rate moves in
one and the other, each with its interval, and what loss they reach.

Expected: under the standard rule the best rate falls as about width^-0.4. Under muP the interval
of the exponent holds 0. What is left is a rise by half from width 16 to 256, most of it above 64,
which the report calls a bend: the rate tuned at width 16 still costs 1 to 2 % of loss at 512.

Cost: twice 120 runs of 1,000 steps and four larger ones, under three minutes on two processor
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

from extrap.records import Target, TunedRange
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
    targets=(Target(size={"width": 512}),),
)
BASELINE = replace(STUDY, name="mup-standard", recipe=METZ.recipe, targets=())
