"""Where is the best rate of a wider transformer on more bytes, under the standard rule and muP?

The byte transformer over width and tokens, with both width rules, which agree at width 64. After
each sweep the forecast for two larger sizes is sealed; there runs follow at the recommended rate,
at .75 and 1.5 octaves to either side of it, and at the rate that was best at the smallest size.

This is the reduced form: one seed, less data, two rates beside the recommended one.
`width_rules_full.py` is the one that `registered.md` registers.

Cost: 84 runs and 16 larger ones, one minute on two cores.

Papers: Yang, Hu et al. 2022, arXiv 2203.03466; Li et al. 2025, Step Law, arXiv 2503.04715.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.files import import_source
from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload

Series = import_source(Path(__file__).parent / "series" / "kind.py", "extrap_series").Series

STANDARD = StudySpec(
    name="reduced-standard",
    question="Under the standard rule",
    workload=Workload(name="bytes-transformer", options={"context": 16}),
    recipe=Recipe(
        batch_size=16,
        optimizer="adamw",
        weight_decay=0.1,
        beta2=0.95,
        clip=1.0,
        schedule="cosine",
        n_evals=10,
    ),
    sizes={"width": (16, 32, 64), "tokens": (2**15, 2**16)},
    tune={"lr": TunedRange(low=2**-10, high=2**-4, n=7)},
    seeds=(4000,),
    targets=(
        Target(size={"width": 96, "tokens": 2**16}, factors=(1.0, 0.5, 2.0)),
        Target(size={"width": 96, "tokens": 2**17}, factors=(1.0, 0.5, 2.0)),
    ),
    target_seeds=(4000,),
)


def both_rules(standard: StudySpec, name: str) -> tuple[StudySpec, StudySpec]:
    """A study with the standard width rule, and the same with muP."""
    mup = replace(standard.recipe, parametrization="mup", base_width=64)
    return (
        replace(standard, name=f"{name}-standard"),
        replace(standard, name=f"{name}-mup", question="Under muP", recipe=mup),
    )


SERIES = Series(
    name="width_rules",
    question="Where is the best rate of a wider transformer on more bytes, by both width rules?",
    studies=both_rules(STANDARD, "reduced"),
)
