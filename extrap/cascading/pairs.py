"""Small models of several sizes before one large model, each pair trained again several times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from extrap.cascading.choice import cascade
from extrap.cascading.results import Cascade, CascadePoint
from extrap.errors import DataError
from extrap.records import CascadeStudy, Interval, Measure
from extrap.records.codec import shape

MARGIN = 0.005
"""What a quality as good as the large model's may fall short: of the inputs, or of the loss."""
EVERY = 4
"""Of the points of a curve, one in so many is kept."""
MEASURES = ("share", "quality", "difference", "cost")
TABLE = (
    "small",
    "pair",
    "outcome",
    "rule",
    "is_chosen",
    "threshold",
    *(f"{name}{side}" for name in MEASURES for side in ("", "_lower", "_upper")),
    "quality_small",
    "quality_large",
    "cost_small",
    "share_filtered",
    "n_validation",
    "n_judged",
)
"""Columns of the table of curves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeFinding:
    """What one small model before the large one does, over all pairs of trainings.

    Attributes:
        small: The small model's sizes in words.
        outcome: `"correct"`, a share, or `"loss"`, nats.
        rule: Whether the rule answers before the models.
        share: Of all inputs, those that the small model answers at the chosen threshold.
        difference: Quality there minus the large model's.
        cost: Mean cost of an input there, in units of one by the large model alone.
        surely_difference: The difference with an interval that holds for all small models of the
            study at once, after Bonferroni: for the one that was picked among them.
        surely_cost: The cost likewise.
        quality_small: Quality of the small model alone.
        quality_large: Of the large one.
        cost_small: Cost of one input by the small model, in the same unit.
        share_filtered: Of all inputs, those that the rule answers.
        n_pairs: Pairs of trainings.
        n_judged: Held-out inputs of each.
        pair_costs: Cost at the chosen threshold, a pair each.
    """

    small: str
    outcome: str
    rule: bool
    share: Measure
    difference: Measure
    cost: Measure
    surely_difference: Measure
    surely_cost: Measure
    quality_small: Measure
    quality_large: Measure
    cost_small: float
    share_filtered: float
    n_pairs: int
    n_judged: int
    pair_costs: tuple[float, ...]

    @property
    def is_as_good(self) -> bool:
        """Whether it is no worse than by a margin, tested for all small models at once.

        Half a percentage point of the share correct, or .5 % of the large model's mean loss.
        """
        lower, upper = self.surely_difference.ci
        if lower is None or upper is None:
            return False
        if self.outcome == "correct":
            return lower > -MARGIN
        return upper < MARGIN * abs(self.quality_large.value or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CascadeReport:
    """All findings of a cascade study.

    Attributes:
        findings: One for each small model, outcome and with or without the rule.
        table: The curves behind them, as `curve_rows` gives them.
        large: The large model's sizes in words.
        level: Of all intervals.
    """

    findings: tuple[CascadeFinding, ...]
    table: pd.DataFrame
    large: str
    level: float

    @property
    def flags(self) -> tuple[str, ...]:
        """Small models whose quality, the large model's asked, comes out worse where judged."""
        return tuple(
            f"judged-quality-missed: {f.small} by {f.outcome}{' behind the rule' * f.rule}"
            for f in self.findings
            if (f.difference.value or 0.0) * (1 if f.outcome == "correct" else -1) < 0
        )

    def of(self, outcome: str, *, rule: bool = False) -> tuple[CascadeFinding, ...]:
        """The findings of one outcome, smallest model first."""
        return tuple(f for f in self.findings if f.outcome == outcome and f.rule == rule)

    @property
    def best(self) -> CascadeFinding:
        """By the share correct and without a rule the one that surely costs least.

        Its interval ends lowest, among those as good as the large model; as it was picked, its
        own figures are `surely_cost` and `surely_difference`.
        """
        return self.surest("correct")

    def surest(self, outcome: str) -> CascadeFinding:
        """Of one outcome, without a rule: whose interval of the cost ends lowest.

        Among those as good as the large model, if there are any.
        """
        plain = self.of(outcome)
        good = [f for f in plain if f.is_as_good] or list(plain)
        return min(good, key=_upper_cost)


def _upper_cost(finding: CascadeFinding) -> float:
    upper = finding.surely_cost.ci.upper
    return math.inf if upper is None else upper


def curve_rows(
    inputs: Mapping[str, Sequence[float]],
    *,
    small: str,
    pair: int,
    outcome: str,
    rule: bool,
    costs: tuple[float, float],
    validation: float,
    level: float,
) -> list[dict[str, object]]:
    """The curve of one pair of models as rows of a table, the chosen point first.

    Args:
        inputs: Columns as `cascade` takes them.
        small: The small model's sizes in words.
        pair: Number of the pair; seeds the split of the inputs.
        outcome: `"correct"` or `"loss"`.
        rule: Whether a rule answers before.
        costs: Of one input by the small and by the large model.
        validation: Share of the inputs on which the threshold is chosen.
        level: Of the intervals.
    """
    found = cascade(
        pd.DataFrame(inputs),
        cost_small=costs[0],
        cost_large=costs[1],
        validation=validation,
        level=level,
        seed=pair,
    )
    common = {
        "small": small,
        "pair": pair,
        "outcome": outcome,
        "rule": int(rule),
        "quality_small": found.small.value,
        "quality_large": found.large.value,
        "cost_small": costs[0] / costs[1],
        "share_filtered": found.share_filtered,
        "n_validation": found.n_validation,
        "n_judged": found.n_judged,
    }
    points = [(found.chosen, True), *((point, False) for point in _thinned(found))]
    return [{**common, **_row(point), "is_chosen": int(first)} for point, first in points]


def _thinned(found: Cascade) -> tuple[CascadePoint, ...]:
    """Every so manyth point of the curve, and its last."""
    return (*found.curve[:-1:EVERY], found.curve[-1])


def _row(point: CascadePoint) -> dict[str, float]:
    row = {"threshold": math.nan if point.threshold is None else point.threshold}
    for name in MEASURES:
        measure: Measure = getattr(point, name)
        row |= {
            name: measure.value or 0.0,
            f"{name}_lower": measure.ci.lower or 0.0,
            f"{name}_upper": measure.ci.upper or 0.0,
        }
    return row


def judge_pairs(study: CascadeStudy, table: pd.DataFrame) -> CascadeReport:
    """What each small model saves, over pairs of trainings, with Student's t intervals.

    Thresholds are chosen pair by pair, each on a split of the inputs of its own, so that trainings
    and choices differ between pairs. The held-out text is one and the same: its chance, the median
    of the pairs' own intervals on all inputs, is added in quadrature to shares, costs and
    differences, so that they hold for new text of the kind too.

    Args:
        study: The study.
        table: The curves of all pairs, as from `curve_rows`.

    Raises:
        DataError: The table lacks a column, a small model or a pair.
    """
    missing = [name for name in TABLE if name not in table]
    if missing:
        raise DataError(
            f"a table of cascades lacks {', '.join(missing)}; run the study, which writes one "
            "beside its report."
        )
    chosen = table[table["is_chosen"] == 1]
    findings = []
    for outcome, rule in _ways(study):
        for model in study.smalls:
            rows = chosen[
                (chosen["small"] == model.label)
                & (chosen["outcome"] == outcome)
                & (chosen["rule"] == int(rule))
            ]
            if len(rows) != len(study.pairs):
                raise DataError(
                    f"{model.label} needs a cascade by {outcome} for each of "
                    f"{len(study.pairs)} pairs, the table has {len(rows)}; run the study "
                    "again."
                )
            findings.append(
                _finding(
                    rows,
                    model.label,
                    outcome,
                    rule=rule,
                    level=study.level,
                    n_smalls=len(study.smalls),
                )
            )
    return CascadeReport(
        findings=tuple(findings), table=table, large=study.large.label, level=study.level
    )


def _ways(study: CascadeStudy) -> list[tuple[str, bool]]:
    """Outcome, and whether a rule answers first: a rule gives answers and no probabilities."""
    return [("correct", False), *([("correct", True)] if study.rule else []), ("loss", False)]


def _finding(
    rows: pd.DataFrame, small: str, outcome: str, *, rule: bool, level: float, n_smalls: int
) -> CascadeFinding:
    small_cost = float(rows["cost_small"].iloc[0])
    filtered = float(rows["share_filtered"].mean())
    least = (1 - filtered) * small_cost  # a rule costs nothing
    most = least + 1 - filtered
    surely = 1 - (1 - level) / n_smalls

    def mean(
        name: str, bounds: tuple[float, float] = (-math.inf, math.inf), at: float = level
    ) -> Measure:
        half = _text_half(rows, name) * _normal(at) / _normal(level)
        return _mean(rows[name].to_list(), level=at, bounds=bounds, text_half=half)

    return CascadeFinding(
        small=small,
        outcome=outcome,
        rule=rule,
        share=mean("share", (0.0, 1.0)),
        difference=mean("difference"),
        cost=mean("cost", (least, most)),
        surely_difference=mean("difference", at=surely),
        surely_cost=mean("cost", (least, most), surely),
        quality_small=mean("quality_small"),
        quality_large=mean("quality_large"),
        cost_small=small_cost,
        share_filtered=filtered,
        n_pairs=len(rows),
        n_judged=int(rows["n_judged"].iloc[0]),
        pair_costs=tuple(rows["cost"].to_list()),
    )


def _text_half(rows: pd.DataFrame, name: str) -> float:
    """Half an interval for the chance of the held-out text, which all pairs share.

    That of a pair is of the inputs that judge; all pairs together see the others too.
    """
    if f"{name}_lower" not in rows:
        return 0.0
    half = float(np.median(rows[f"{name}_upper"] - rows[f"{name}_lower"])) / 2
    judged = rows["n_judged"] / (rows["n_judged"] + rows["n_validation"])
    return half * math.sqrt(float(judged.mean()))


def _normal(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


def _mean(
    values: Iterable[float], *, level: float, bounds: tuple[float, float], text_half: float
) -> Measure:
    """Mean over pairs with Student's t interval, inside the range that is possible."""
    numbers = np.asarray(list(values), dtype=float)
    mean, n = float(numbers.mean()), len(numbers)
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * numbers.std(ddof=1) / math.sqrt(n))
    half = math.hypot(half, text_half)
    lower, upper = max(mean - half, bounds[0]), min(mean + half, bounds[1])
    return Measure(value=mean, ci=Interval(min(lower, mean), max(upper, mean)))


shape(
    CascadeReport,
    kind="extrap-cascade-study",
    omit=("table",),
    add={"flags": lambda report: report.flags},
)
