"""What a gain is at each size and at the target, the verdict on it, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from extrap.analyses.comparison.arm_gains import loss_posterior
from extrap.analyses.comparison.comparison_results import Contrast, SizeDifference
from extrap.analyses.comparison.effective_speed import EffectiveSpeed, effective_speed, speed_law
from extrap.analyses.comparison.gain import USUAL_GAIN, GainLaw
from extrap.analyses.comparison.gate import (
    UNDECIDED,
    Gate,
    NextRuns,
    as_share,
    cheapest_decision,
)
from extrap.analyses.comparison.seed_losses import Arm
from extrap.fitting.designs import LEAST_SIZES_OF_LAW
from extrap.fitting.distributions import NormalMixture
from extrap.records import Interval, Measure
from extrap.records.intervals import LARGEST_LOG


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gains:
    """Two recipes, and what is asked of the gain of one over the other.

    Attributes:
        plain: Tuned losses of the plain recipe.
        treated: Those of the treated one.
        columns: Size columns.
        target: The size asked for.
        gate: What is asked.
        fix: Pinned parameters of the law of the loss.
        power: Of the first size column that the cost of a run follows; None if it is not known.
        law: Of the gain; None where the sizes do not tell one.
    """

    plain: Arm
    treated: Arm
    columns: Sequence[str]
    target: Mapping[str, float]
    gate: Gate
    fix: Mapping[str, float]
    power: float | None
    law: GainLaw | None

    def judged(self, contrast: Contrast, *, level: float) -> Contrast:
        """The contrast with differences off the law of the gain, and the verdict.

        Args:
            contrast: What the two recipes differ by.
            level: Of the intervals at the measured sizes.
        """
        law = self.law
        if law is None:
            return self._without_law(contrast)
        target = law.doublings(self.target[self.columns[0]])
        contrast = replace(contrast, by_size=self._by_size(contrast, law, level))
        is_large = max(map(abs, law.pairs.gains)) > USUAL_GAIN
        if contrast.at_target is None or not is_large or contrast.has_misfit:
            ahead = SizeDifference(
                size=dict(self.target),
                n_pairs=0,
                plain=Measure(),
                treated=Measure(),
                difference=_difference(law.predict(target), self.gate.level),
                is_forecast=True,
            )
            contrast = replace(contrast, at_target=ahead)
        verdict = self.gate.judge(contrast.decisive.gain, self.gate.before(law))
        return replace(contrast, verdict=verdict)

    def next_runs(self, contrast: Contrast) -> NextRuns | None:
        """The cheapest runs that would decide; None unless the law of the gain leaves it open."""
        decisive = contrast.decisive
        is_by_laws = decisive.plain.value is not None
        if (
            self.law is None
            or contrast.verdict != UNDECIDED
            or is_by_laws
            or not decisive.is_forecast
        ):
            return None
        return cheapest_decision(
            self.law,
            self.law.doublings(self.target[self.columns[0]]),
            gate=self.gate,
            column=self.columns[0],
            power=self.power,
        )

    def _without_law(self, contrast: Contrast) -> Contrast:
        """The verdict where only a measured difference, or one off two laws, can tell."""
        if contrast.at_target is None:
            measured = contrast.measured_at(self.target)
            if measured is None:
                why = (
                    f"a verdict needs the target among the measured sizes, with two seeds of both "
                    f"recipes, or {LEAST_SIZES_OF_LAW} sizes; add sizes."
                )
                refusals = {"at_target": why, **contrast.refusals}
                return replace(contrast, verdict=UNDECIDED, refusals=refusals)
            return replace(contrast, verdict=self.gate.judge(measured.gain, ()))
        before = [row.gain for row in contrast.by_size]
        return replace(contrast, verdict=self.gate.judge(contrast.decisive.gain, before))

    def _by_size(
        self, contrast: Contrast, law: GainLaw, level: float
    ) -> tuple[SizeDifference, ...]:
        """The measured sizes; where seeds give no interval, that of the law, with the measured."""
        rows = []
        for row in contrast.by_size:
            if row.difference.value is None:
                gain = law.predict(law.doublings(row.size[self.columns[0]]))
                difference = _around(row, _difference(gain, level))
                row = replace(row, difference=difference, is_by_law=True)
            rows.append(row)
        return tuple(rows)

    def speeds(
        self, contrast: Contrast, log_speeds: Mapping[float, float], *, level: float
    ) -> tuple[EffectiveSpeed, ...]:
        """Effective speeds at the measured sizes and at the target.

        Args:
            contrast: What the two recipes differ by.
            log_speeds: First size column → ln of the ratio of their speeds; may be empty.
            level: Of the intervals.
        """
        if self.law is None or self.power is None or not log_speeds:
            return ()
        of_loss = loss_posterior(self.plain, self.columns[0], self.fix)
        of_speed = speed_law(log_speeds, self.law.pairs.smallest)
        sizes = [(row.size, False) for row in contrast.by_size] + [(self.target, True)]
        rows = []
        for size, is_forecast in sizes:
            u = self.law.doublings(size[self.columns[0]])
            speed, gain = of_speed.predict(u), self.law.predict(u)
            factor = effective_speed(
                of_loss,
                size[self.columns[0]],
                gain=gain,
                speed=speed,
                power=self.power,
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
