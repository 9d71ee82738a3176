"""How much of a large model's cost does a small one before it save, at the large one's quality?

Each small model answers where it is sure enough, and the large model of the default study answers
the rest. The lowest confidence that reaches the large model's share of correct bytes is chosen on
half of 32,768 held-out bytes; costs and shares are of the other half. Eight pairs of trainings, no
seed twice; 95 % intervals are over pairs, the chance of the held-out text included.

Expected, after the papers below: the large model's quality at 70 % of its cost or less. Found,
with intervals for all five small models at once, as one is picked among them (Bonferroni):

- Width 128 before width 1024 costs 58.9 % (50.6 to 67.1 %) and gets as many bytes right within
  half a point: the difference is −.097 (−.306 to +.113) percentage points, where width 1024 gets
  54.0 % right and width 128 alone 50.8 %. It answers 44.9 % of the bytes. Trained by the package,
  commit 6310f3e, it was 56.4 % (47.1 to 65.7 %).
- Which small model matters little: 67.1 % at width 32, 65.0 at 64, 53.0 at 256, 59.4 at 512. A
  larger one answers more, and what is left to chance grows: at 512 from 44 to 75 %.
- Asked for the large model's mean loss in nats, cascades save little and unsurely: 86.7 % (73.7 to
  99.6 %) at width 32, and at all others the interval reaches beyond 100 %.

Rates lie on the line through the default study's forecasts at widths 512 and 1024, within a tenth
of an octave of what `extrap forecast examples/sweep.csv` says of them.

Cost: 48 runs, six minutes on one core. `pairs.csv` has every pair.

Papers: Wang et al. 2022, arXiv 2012.01988; Chen et al. 2023, FrugalGPT, arXiv 2305.05176.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extrap import DataError, StudySpec, TunedRange
from extrap.records import Cell
from extrap.records.own_training import study_function
from extrap.study import Kind, RunsByStage, Stage
from extrap.study.protocol import only

if TYPE_CHECKING:
    import pandas as pd

    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About

LIMITS = (
    "A cost is a count of operations, twice the parameters without embeddings for an input; the "
    "time of two models in turn may differ.",
    "Thresholds are chosen on one half of the held-out inputs and judged on the other; on other "
    "text, choose the threshold anew.",
    "As good as the large model: significantly less than half a percentage point of the share "
    "correct below it, or 0.5 % of its mean loss above.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascades:
    """Small models before a large one.

    Attributes:
        name: Of the study.
        question: One sentence.
        smalls: Widths of the small models.
        large: Width of the large one.
        pairs: Seeds of the small and of the large model, a pair each.
    """

    name: str
    question: str
    smalls: tuple[int, ...]
    large: int
    pairs: tuple[tuple[int, int], ...]


class CascadeKind(Kind):
    """`CASCADE`: every model is trained at its own rate, and its answers are kept in a folder."""

    symbol = "CASCADE"
    record = Cascades

    def specs(self) -> tuple[StudySpec, ...]:
        """One: what each width is trained at is fixed, and nothing is tuned."""
        widths = (*self.study.smalls, self.study.large)
        rates = [tuned_rate(width) for width in widths]
        return (
            StudySpec(
                name=self.name,
                question=self.question,
                sizes={"width": widths},
                tune={"lr": TunedRange(low=min(rates), high=max(rates), n=2)},
                seeds=tuple(seed for pair in self.study.pairs for seed in pair),
            ),
        )

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """All trainings, the small ones first."""
        smalls, larges = zip(*self.study.pairs, strict=True)
        trainings = [*((width, smalls) for width in self.study.smalls), (self.study.large, larges)]
        cells = [
            Cell.of({"width": width}, {"lr": tuned_rate(width)}, seed)
            for width, seeds in trainings
            for seed in seeds
        ]
        yield [Stage(spec=self.specs()[0], wants=only(cells))]

    def training_of(self, spec: StudySpec) -> Any:
        """Plain PyTorch; another version of it is another study."""
        return study_function(train, study=__file__)

    def analyse(self, runs: RunsByStage) -> pd.DataFrame:
        """What each pair of models saves: a row for each small model, pair and way."""
        import pandas as pd
        from judging import WAYS, judge_pair
        from training import place, workload

        study, rows = self.study, []
        widths = (*study.smalls, study.large)
        cost = {width: 2.0 * workload().n_params({"width": width}) for width in widths}

        def answers(width: int, seed: int) -> pd.DataFrame:
            path = place(width, seed)
            if not path.is_file():
                raise DataError(f"{path} is missing; run the study anew, with another storage.")
            return pd.read_parquet(path)

        for way in WAYS:
            for width in study.smalls:
                for pair, (small_seed, large_seed) in enumerate(study.pairs):
                    small, large = answers(width, small_seed), answers(study.large, large_seed)
                    inputs = pd.DataFrame(
                        {
                            "confidence_small": small["confidence"],
                            f"{way}_small": small[way],
                            f"{way}_large": large[way],
                        }
                    )
                    row = judge_pair(inputs, costs=(cost[width], cost[study.large]), pair=pair)
                    rows.append({"small": width, "way": way, **row})
        return pd.DataFrame(rows)

    def tables(self, result: pd.DataFrame, runs: RunsByStage) -> Mapping[str, pd.DataFrame]:
        """The pairs, and the runs."""
        return {"pairs": result, **super().tables(result, runs)}

    def page(self, result: pd.DataFrame, runs: RunsByStage, about: About) -> Page:
        """The small model to take, and the table of all."""
        from judging import LEVEL, WAYS, findings, surest

        from extrap.records.numbers import format_percent
        from extrap.reporting.blocks import Answer
        from extrap.reporting.study_page import estimate, in_percent, study_page
        from extrap.reporting.tables import tabulated

        found = findings(result)
        best, large = surest(found, "correct"), self.study.large
        points = estimate(best.difference.map(lambda share: 100 * share))
        what = f"Put width {best.small} before width {large}: that costs {in_percent(best.cost)} "
        what += f"of width {large} alone and changes the accuracy by {points} percentage "
        what += "points."
        is_good = "is" if best.is_as_good else "is not shown to be"
        table = tabulated(
            f"At the threshold chosen for the quality of width {large}: means of "
            f"{len(self.study.pairs)} pairs of trainings, {100 * LEVEL:g} % intervals for all "
            "small models at once",
            found,
            {
                "small model": lambda f: f"width {f.small}, {WAYS[f.way]}",
                "as good": lambda f: "yes" if f.is_as_good else "not shown",
                "cost": lambda f: in_percent(f.cost),
                "it answers": lambda f: format_percent(f.share, signed=False),
                "difference": lambda f: estimate(f.difference),
                "small alone": lambda f: f"{f.quality_small:.4g}",
                "large alone": lambda f: f"{f.quality_large:.4g}",
            },
            note="Difference: of the accuracy, or nats.",
        )
        answer = Answer(
            text=what,
            confidence=f"Its accuracy {is_good} as good as that of the large model.",
            color="good" if best.is_as_good else "warn",
        )
        return study_page("cascade", about, [answer, table], caveats=LIMITS)


def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> dict[str, float]:
    """The training, for which alone torch is imported."""
    import training

    return training.train(size, tuned, seed)


def tuned_rate(width: int) -> float:
    """The rate of the default study's law."""
    return float(f"{0.003162 * (width / 512) ** -0.39:.4g}")


CASCADE = Cascades(
    name="cascade",
    question="How much of a large model's cost does a small one before it save, at its quality?",
    smalls=(32, 64, 128, 256, 512),
    large=1024,
    pairs=tuple((100 + 2 * i, 101 + 2 * i) for i in range(8)),
)
