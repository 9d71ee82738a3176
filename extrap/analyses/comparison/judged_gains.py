"""What a gain is at each size and at the target, the verdict on it, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from extrap.analyses.comparison.arm_gains import gain_law, loss_posterior
from extrap.analyses.comparison.arm_table import ArmTable, arm_table, size_errors
from extrap.analyses.comparison.comparison_results import Contrast, SizeDifference
from extrap.analyses.comparison.effective_speed import EffectiveSpeed, effective_speed, speed_law
from extrap.analyses.comparison.gate import BETTER_HERE, UNDECIDED, as_share
from extrap.analyses.comparison.next_runs import (
    NextRuns,
    Question,
    cheapest_decision,
    more_seeds,
    second_size,
)
from extrap.analyses.comparison.seed_losses import Arm
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.distributions import NormalMixture
from extrap.fitting.gain import GainLaw
from extrap.records import Interval, Measure
from extrap.records.intervals import LARGEST_LOG

FRESH_SEEDS = 3
"""Runs of both recipes that tell the noise of one size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gains:
    """Two recipes, what is asked of the gain of one over the other, and its law.

    Attributes:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        question: What is asked.
        fix: Pinned parameters of the law of the loss.
        law: Of the gain.
    """

    plain: Arm
    treated: Arm
    question: Question
    fix: Mapping[str, float]
    law: GainLaw

    @classmethod
    def of(cls, plain: Arm, treated: Arm, question: Question, fix: Mapping[str, float]) -> Gains:
        """With the law of the gain, see `gain_law`."""
        law = gain_law(plain, treated, question.columns, question.target, fix)
        return cls(plain=plain, treated=treated, question=question, fix=fix, law=law)

    @property
    def is_of_one_size(self) -> bool:
        """Whether nothing shows how the gain changes with size."""
        return len(self.law.pairs.sizes) == 1

    def judged(self, contrast: Contrast, *, level: float) -> Contrast:
        """The contrast with differences off the law of the gain, and the verdict.

        Args:
            contrast: What the two recipes differ by.
            level: Of the intervals at the measured sizes.
        """
        law, question = self.law, self.question
        noise = self._table.noise if contrast.by_size else None
        assumed = math.exp(float(law.weights @ np.log(law.scatters))) / math.sqrt(2)
        contrast = replace(
            contrast,
            by_size=tuple(self._with_interval(row, level) for row in contrast.by_size),
            noise=assumed if noise is None else noise,
        )
        if self.is_of_one_size:
            return self._judged_here(contrast)
        ahead = SizeDifference(
            size=dict(question.target),
            n_pairs=0,
            plain=Measure(),
            treated=Measure(),
            difference=_difference(law.predict(question.target), question.gate.level),
            is_forecast=True,
        )
        contrast = replace(contrast, at_target=ahead)
        verdict = question.gate.judge(contrast.decisive.gain, question.gate.before(law))
        return replace(contrast, verdict=verdict)

    def _judged_here(self, contrast: Contrast) -> Contrast:
        """The verdict at the only size; none on any other."""
        if self._is_target_measured:
            verdict = self.question.gate.judge_here(contrast.decisive.gain)
            return replace(contrast, verdict=verdict)
        why = "nothing is known of larger sizes; run both recipes at a second size."
        return replace(contrast, refusals={"at_target": why, **contrast.refusals})

    @property
    def _is_target_measured(self) -> bool:
        return bool(np.isclose(self.question.logs, self.question.goal).all(axis=1).any())

    def _with_interval(self, row: SizeDifference, level: float) -> SizeDifference:
        """A measured size; where seeds give no interval, that of the law, with the measured."""
        if row.difference.value is not None:
            return row
        is_target = self.is_of_one_size and self._is_target_measured
        gain = self.law.predict(row.size)
        expected = _difference(gain, self.question.gate.level if is_target else level)
        return replace(row, difference=_around(row, expected), is_by_law=True)

    def next_runs(self, contrast: Contrast) -> NextRuns | None:
        """The cheapest runs that would decide; of a recipe that is better here a second size."""
        question, decisive, is_single = self.question, contrast.decisive, self.is_of_one_size
        if contrast.verdict not in (UNDECIDED, BETTER_HERE):
            return None
        if decisive.is_forecast or not self._is_target_measured:
            return cheapest_decision(self.law, question)
        n_seeds, errors = self._table.n_seeds, size_errors(self._table)
        if contrast.verdict == BETTER_HERE:
            return second_size(question, min(n_seeds, FRESH_SEEDS))
        if errors is None or (is_single and n_seeds < FRESH_SEEDS):
            why = "to measure the noise"
            return question.proposal(question.goal, FRESH_SEEDS, None, why)
        row = contrast.by_size.index(decisive)
        return more_seeds(-float(self._table.differences[row]), errors[row], n_seeds, question)

    @property
    def _table(self) -> ArmTable:
        return arm_table(self.plain, self.treated)

    def speeds(
        self, contrast: Contrast, log_speeds: Mapping[float, float], *, level: float
    ) -> tuple[EffectiveSpeed, ...]:
        """Effective speeds at the measured sizes and at the target.

        A speed is of one size: it has none where the gain is over several columns, as no single
        one of these says at which size the plain recipe reaches a loss.

        Args:
            contrast: What the two recipes differ by.
            log_speeds: First size column → ln of the ratio of their speeds; may be empty.
            level: Of the intervals.
        """
        law, question = self.law, self.question
        has_law = min(len(self.plain.by_size), len(law.pairs.sizes)) >= LEAST_SIZES_OF_LAW
        is_single = len(law.pairs.columns) == 1
        if not (has_law and is_single and log_speeds) or question.powers is None:
            return ()
        column = question.columns[0]
        of_loss, of_speed = loss_posterior(self.plain, column, self.fix), speed_law(log_speeds)
        sizes = [(row.size, False) for row in contrast.by_size] + [(question.target, True)]
        rows = []
        for size, is_forecast in sizes:
            speed, gain = of_speed.predict({"size": size[column]}), law.predict(size)
            factor = effective_speed(
                of_loss,
                size[column],
                gain=gain,
                speed=speed,
                power=question.power_of_line,
                level=level,
            )
            ratio = Measure(value=speed.mean, ci=speed.interval(level)).map(math.exp)
            rows.append(
                EffectiveSpeed(
                    size=dict(size), speed=ratio, factor=factor, is_forecast=is_forecast
                )
            )
        return tuple(rows)


def _difference(gain: NormalMixture, level: float) -> Measure:
    """Treated / plain − 1."""
    low, high = as_share(gain, level)
    assert low is not None
    assert high is not None
    value = math.expm1(min(-gain.mean, LARGEST_LOG))
    return Measure(value=value, ci=Interval(-high, -low))


def _around(measured: SizeDifference, expected: Measure) -> Measure:
    """The measured difference, with the interval of the law drawn as far as it."""
    plain, treated = measured.plain.value, measured.treated.value
    if plain is None or treated is None:
        return expected
    value, (low, high) = treated / plain - 1, expected.ci
    assert low is not None
    assert high is not None
    return Measure(value=value, ci=Interval(min(low, value), max(high, value)))
