"""How much of a large model's cost does a small one before it save, at the large one's quality?

Each small model answers where it is sure enough, and the large model of the default study answers
the rest. The lowest confidence that reaches the large model's share of correct bytes is chosen on
half of 32,768 held-out bytes; costs and shares are of the other half. A cost is that of a forward
pass, 2 operations a parameter without embeddings. Four pairs of trainings, no seed twice; 95 %
intervals are over pairs, the chance of the held-out text included.

Expected, after the papers below: the large model's quality at 70 % of its cost or less. Found:

- Width 128 before width 1024 costs 60.0 % (46.8 to 73.2 %) and gets as many bytes right within
  half a point: the difference is +.029 (−.151 to +.209) percentage points, where width 1024 gets
  53.5 % right and width 128 alone 50.6 %. It answers 43.8 % of the bytes. As it is the best of
  five, both intervals are those of all five at once (Bonferroni): that it costs less than 70 % is
  likely, and not told.
- Which small model matters little: 68.9 % at width 32, 64.4 at 64, 57.0 at 256, 48.0 at 512. A
  larger one answers more, and what is left to chance grows: at 512 from 30 to 69 %.
- A rule that answers 11 % of the bytes for nothing, and is right in 99.8 % of them, saves next to
  nothing more, 59.4 %: it answers where the small model, at 4 % of the cost, was sure already.
- Asked for the large model's mean loss in nats, cascades save little and unsurely: 79.8 % (61.6 to
  98.0 %) at width 32, and at all other widths the interval reaches beyond 100 %.

Rates are those of the default study's law (`studies/metz.py`): .00316 at width 512 and .00241 at
1024 are its forecasts, the others lie on the line through these two, and within a tenth of an
octave of what `extrap forecast examples/sweep.csv` says of them.

Cost: 24 runs, 145 seconds of processor time, about two minutes on two cores that do nothing else.

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
