"""How much of a large model's cost does a small one before it save, at the large one's quality?

Each small model answers where it is sure enough, and the large model of the default study answers
the rest. The lowest confidence that reaches the large model's share of correct bytes is chosen on
half of 32,768 held-out bytes; costs and shares are of the other half. A cost is that of a forward
pass, 2 operations a parameter without embeddings. Eight pairs of trainings, no seed twice; 95 %
intervals are over pairs, the chance of the held-out text included.

Expected, after the papers below: the large model's quality at 70 % of its cost or less. Found:

- Width 128 before width 1024 costs 56.4 % (47.1 to 65.7 %) and gets as many bytes right within
  half a point: the difference is −.124 (−.448 to +.201) percentage points, where width 1024 gets
  54.2 % right and width 128 alone 51.0 %. It answers 47.4 % of the bytes. As it is picked from
  five, both intervals are those of all five at once (Bonferroni).
- Which small model matters little: 68.3 % at width 32, 64.0 at 64, 57.8 at 256, 49.4 at 512. A
  larger one answers more, and what is left to chance grows: at 512 from 36 to 63 %, and neither
  there nor at 256 are as many bytes told to be right.
- A rule that answers 11 % of the bytes for nothing, and is right in 99.8 % of them, saves next to
  nothing more, 56.3 %: it answers where the small model, at 4 % of the cost, was sure already.
- Asked for the large model's mean loss in nats, cascades save little and unsurely: 85.5 % (75.7 to
  95.4 %) at width 32, and at 64 and 512 the interval reaches beyond 100 %.

Four pairs were trained first: 60.0 % (46.8 to 73.2 %), which did not tell 70 %. The other four
were added for that; of seven pairs the pick would have been width 64, 63.8 % (56.2 to 71.4 %).

Rates are those of the default study's law (`studies/metz.py`): .00316 at width 512 and .00241 at
1024 are its forecasts, the others lie on the line through these two, and within a tenth of an
octave of what `extrap forecast examples/sweep.csv` says of them.

Cost: 48 runs, some five minutes of processor time; not timed on two cores that do nothing
else.

`cascade.csv` has every curve; docs/measured.md has the figures.

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
    pairs=tuple((100 + 2 * i, 101 + 2 * i) for i in range(8)),
    smalls=tuple(tuned(width) for width in (32, 64, 128, 256, 512)),
    large=tuned(1024),
    rule=TextRule(
        name="within the first eight columns of an indented line, off a multiple of four, a "
        "space follows",
        pattern=r"\n(?: {4})? {1,3}\Z",
        answer=" ",
    ),
)
