"""What a small model before a large one saves, over pairs of trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from extrap import cascade
from extrap.records import Interval, Measure

MARGIN = 0.005
"""What a quality as good as the large model's may fall short: of the inputs, or of the loss."""
LEVEL = 0.95
WAYS = {"correct": "accuracy", "loss": "mean loss"}
"""What is asked of a cascade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one small model before the large one does, over all pairs of trainings.

    Intervals hold for all small models at once (Bonferroni): one is picked among them.

    Attributes:
        small: Width of the small model.
        way: What was asked, a key of `WAYS`.
        cost: Mean cost of an input, in units of one by the large model alone.
        difference: Share of correct answers, or mean loss, minus the large model's.
        share: Of all inputs, those that the small model answers.
        quality_small: Of the small model alone.
        quality_large: Of the large one.
    """

    small: int
    way: str
    cost: Measure
    difference: Measure
    share: float
    quality_small: float
    quality_large: float

    @property
    def is_as_good(self) -> bool:
        """Whether it is no worse than by the margin."""
        lower, upper = map(_known, self.difference.ci)
        return upper < MARGIN * self.quality_large if self.way == "loss" else lower > -MARGIN


def judge_pair(inputs: pd.DataFrame, *, costs: tuple[float, float], pair: int) -> dict[str, float]:
    """One pair of models as a row: the threshold is chosen on half of the inputs, judged on half.

    Args:
        inputs: Columns as `extrap.cascade` takes them.
        costs: Of one input by the small and by the large model.
        pair: Number of the pair; seeds the split of the inputs.
    """
    found = cascade(inputs, cost_small=costs[0], cost_large=costs[1], level=LEVEL, seed=pair)
    row: dict[str, float] = {"pair": pair}
    for name in ("cost", "difference"):
        measure: Measure = getattr(found.chosen, name)
        row[name] = _known(measure.value)
        row[f"{name}_half"] = (_known(measure.ci.upper) - _known(measure.ci.lower)) / 2
    return {
        **row,
        "share": _known(found.chosen.share.value),
        "quality_small": _known(found.small.value),
        "quality_large": _known(found.large.value),
        "judged": found.n_judged / (found.n_judged + found.n_validation),
    }


def findings(pairs: pd.DataFrame) -> list[Finding]:
    """What each small model does, by what is asked of it, in the order of the table.

    Student's t intervals over pairs. All pairs share the held-out text: its chance, the median of
    the pairs' own intervals on all inputs, is added in quadrature.

    Args:
        pairs: Rows of `judge_pair` with the columns `small` and `way`.
    """
    level = 1 - (1 - LEVEL) / pairs["small"].nunique()
    return [
        Finding(
            small=int(small),
            way=str(way),
            cost=_mean(rows, "cost", level),
            difference=_mean(rows, "difference", level),
            **{n: float(rows[n].mean()) for n in ("share", "quality_small", "quality_large")},
        )
        for (way, small), rows in pairs.groupby(["way", "small"], sort=False)
    ]


def surest(found: Sequence[Finding], way: str) -> Finding:
    """Whose interval of the cost ends lowest, among those as good as the large model if any is."""
    own = [finding for finding in found if finding.way == way]
    return min([f for f in own if f.is_as_good] or own, key=lambda f: _known(f.cost.ci.upper))


def _mean(rows: pd.DataFrame, name: str, level: float) -> Measure:
    values, n = rows[name].to_numpy(), len(rows)
    own = stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n)
    text = float(np.median(rows[f"{name}_half"])) * math.sqrt(float(rows["judged"].mean()))
    text *= stats.norm.ppf((1 + level) / 2) / stats.norm.ppf((1 + LEVEL) / 2)
    mean, half = float(values.mean()), math.hypot(own, text)
    return Measure(value=mean, ci=Interval(mean - half, mean + half))


def _known(value: float | None) -> float:
    return math.nan if value is None else value
