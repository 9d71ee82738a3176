"""How much of a large model's cost does a small one before it save, at the large one's quality?

Each small model answers where it is sure enough, and the large model of the default study answers
the rest. The lowest confidence that reaches the large model's share of correct bytes is chosen on
half of 32,768 held-out bytes; costs and shares are of the other half. A cost is that of a forward
pass, 2 operations a parameter without embeddings. Four pairs of trainings, no seed twice.

Rates are those of the default study's law (`studies/metz.py`): .00316 at width 512 and .00241 at
1024 are its forecasts, the others lie on the line through these two, and within a tenth of an
octave of what `extrap forecast examples/sweep.csv` says of them.

Cost: WRITE

`cascade.csv` has every curve; `python -m benchmarks.cascades` prints the figures.

Papers: Wang et al. 2022, arXiv 2012.01988; Chen et al. 2023, FrugalGPT, arXiv 2305.05176.
"""

from __future__ import annotations

from extrap.records import CascadeStudy, SizedModel, TextRule, Workload


def tuned(width: int) -> SizedModel:
    """A width at the rate of the default study's law."""
    return SizedModel(size={"width": width}, lr=float(f"{0.003162 * (width / 512) ** -0.39:.4g}"))


CASCADE = CascadeStudy(
    name="cascade",
    question="How much of a large model's cost does a small one before it save, at its quality?",
    workload=Workload(name="bytes-mlp"),
    smalls=tuple(tuned(width) for width in (32, 64, 128, 256, 512)),
    large=tuned(1024),
    rule=TextRule(
        name="within the first eight columns of an indented line, off a multiple of four, a "
        "space follows",
        pattern=r"\n(?: {4})? {1,3}\Z",
        answer=" ",
    ),
)
