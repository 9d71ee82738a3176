"""What a gain is at each size and at the target, the verdict on it, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from extrap.analyses.comparison.arm_gains import loss_posterior
from extrap.analyses.comparison.comparison_results import Contrast, SizeDifference
from extrap.analyses.comparison.contrasts import MIN_SIZES
from extrap.analyses.comparison.effective_speed import EffectiveSpeed, effective_speed, speed_law
from extrap.analyses.comparison.gain import USUAL_GAIN, Gain, GainLaw
from extrap.analyses.comparison.gate import (
    UNDECIDED,
    Gate,
    NextRuns,
    as_share,
    cheapest_decision,
)
from extrap.analyses.comparison.seed_losses import Arm
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

    def judged(self, found: Contrast, *, level: float) -> Contrast:
        """The contrast with differences off the law of the gain, and the verdict.

        Args:
            found: What the two recipes differ by.
            level: Of the intervals at the measured sizes.
        """
        law = self.law
        if law is None:
            return self._without_law(found)
        target = law.doublings(self.target[self.columns[0]])
        found = replace(found, by_size=self._by_size(found, law, level))
        is_large = max(map(abs, law.pairs.gains)) > USUAL_GAIN
        if found.at_target is None or not is_large or found.has_misfit:
            ahead = SizeDifference(
                size=dict(self.target),
                n_pairs=0,
                plain=Measure(),
                treated=Measure(),
                difference=_difference(law.at(target), self.gate.level),
                is_forecast=True,
            )
            found = replace(found, at_target=ahead)
        verdict = self.gate.judge(found.decisive.gain, self.gate.before(law))
        return replace(found, verdict=verdict)

    def next_runs(self, found: Contrast) -> NextRuns | None:
        """The cheapest runs that would decide; None unless the law of the gain leaves it open."""
        place = found.decisive
        is_by_laws = place.plain.value is not None
        if self.law is None or found.verdict != UNDECIDED or is_by_laws or not place.is_forecast:
            return None
        return cheapest_decision(
            self.law,
            self.law.doublings(self.target[self.columns[0]]),
            gate=self.gate,
            column=self.columns[0],
            power=self.power,
        )

    def _without_law(self, found: Contrast) -> Contrast:
        """The verdict where only a measured difference, or one off two laws, can tell."""
        if found.at_target is None:
            place = found.measured_at(self.target)
            if place is None:
                why = (
                    f"a verdict needs the target among the measured sizes, with two seeds of both "
                    f"recipes, or {MIN_SIZES} sizes; add sizes."
                )
                refusals = {"at_target": why, **found.refusals}
                return replace(found, verdict=UNDECIDED, refusals=refusals)
            return replace(found, verdict=self.gate.judge(place.gain, ()))
        before = [place.gain for place in found.by_size]
        return replace(found, verdict=self.gate.judge(found.decisive.gain, before))

    def _by_size(self, found: Contrast, law: GainLaw, level: float) -> tuple[SizeDifference, ...]:
        """The measured sizes; where seeds give no interval, that of the law, with the measured."""
        places = []
        for place in found.by_size:
            if place.difference.value is None:
                gain = law.at(law.doublings(place.size[self.columns[0]]))
                difference = _around(place, _difference(gain, level))
                place = replace(place, difference=difference, is_by_law=True)
            places.append(place)
        return tuple(places)

    def speeds(
        self, found: Contrast, log_speeds: Mapping[float, float], *, level: float
    ) -> tuple[EffectiveSpeed, ...]:
        """Effective speeds at the measured sizes and at the target.

        Args:
            found: What the two recipes differ by.
            log_speeds: First size column → ln of the ratio of their speeds; may be empty.
            level: Of the intervals.
        """
        if self.law is None or self.power is None or not log_speeds:
            return ()
        of_loss = loss_posterior(self.plain, self.columns[0], self.fix)
        of_speed = speed_law(log_speeds, self.law.pairs.smallest)
        sizes = [(place.size, False) for place in found.by_size] + [(self.target, True)]
        rows = []
        for size, is_forecast in sizes:
            u = self.law.doublings(size[self.columns[0]])
            speed, gain = of_speed.at(u), self.law.at(u)
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


def _difference(gain: Gain, level: float) -> Measure:
    """Treated / plain − 1."""
    low, high = as_share(gain, level)
    assert low is not None
    assert high is not None
    value = math.expm1(min(-gain.mean, LARGEST_LOG))
    return Measure(value=value, ci=Interval(-high, -low))


def _around(place: SizeDifference, expected: Measure) -> Measure:
    """The measured difference, with the interval of the law drawn as far as it."""
    plain, treated = place.plain.value, place.treated.value
    if plain is None or treated is None:
        return expected
    value, (low, high) = treated / plain - 1, expected.ci
    assert low is not None
    assert high is not None
    return Measure(value=value, ci=Interval(min(low, value), max(high, value)))
