"""What a gain is at each size and at the target, the verdict on it, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extrap.analyses.comparison.arm_gains import MIN_SIZES, gain_law, loss_posterior
from extrap.analyses.comparison.comparison_results import Contrast, SizeDifference
from extrap.analyses.comparison.effective_speed import EffectiveSpeed, effective_speed, speed_law
from extrap.analyses.comparison.gain import USUAL_GAIN, GainLaw
from extrap.analyses.comparison.gate import UNDECIDED, Gate, cheapest_decision
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
    """

    plain: Arm
    treated: Arm
    columns: Sequence[str]
    target: Mapping[str, float]
    gate: Gate
    fix: Mapping[str, float]
    power: float | None

    def decided(
        self, found: Contrast, log_speeds: Mapping[float, float], *, level: float
    ) -> Contrast:
        """The contrast with differences off the law of the gain, and the verdict.

        Args:
            found: What the two recipes differ by.
            log_speeds: First size column → ln of the ratio of their speeds.
            level: Of the intervals at the measured sizes and of speeds.
        """
        made = gain_law(self.plain, self.treated, self.columns[0], self.fix)
        if made is None:
            return self._without_law(found)
        law, smallest = made
        column = self.columns[0]
        target = math.log2(self.target[column] / smallest)
        found = replace(found, by_size=self._by_size(found, law, level))
        ahead = found.at_target
        by_laws = max(map(abs, law.pairs.gains)) > USUAL_GAIN and not found.has_misfit
        if ahead is None or not by_laws:
            nothing = Measure()
            ahead = SizeDifference(
                size=dict(self.target),
                n_pairs=0,
                plain=nothing,
                treated=nothing,
                difference=_difference(law, target, self.gate.level),
                is_forecast=True,
            )
        found = replace(found, at_target=ahead)
        verdict = self.gate.judge(
            found.decisive.gain, [self.gate.share(law, u) for u in law.pairs.doublings]
        )
        next_runs = None
        if verdict == UNDECIDED and found.decisive.is_forecast:
            next_runs = cheapest_decision(
                law, target, gate=self.gate, smallest={column: smallest}, power=self.power
            )
        return replace(
            found,
            verdict=verdict,
            next_runs=next_runs,
            speeds=self._speeds(found, law, smallest, log_speeds, level),
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
        if not found.by_size:
            return ()
        places = zip(found.by_size, law.pairs.doublings, strict=True)
        return tuple(
            place
            if place.difference.value is not None
            else replace(place, difference=_around(place, _difference(law, u, level)))
            for place, u in places
        )

    def _speeds(
        self,
        found: Contrast,
        law: GainLaw,
        smallest: float,
        log_speeds: Mapping[float, float],
        level: float,
    ) -> tuple[EffectiveSpeed, ...]:
        if not log_speeds or self.power is None:
            return ()
        column = self.columns[0]
        of_loss = loss_posterior(self.plain, column, self.fix)
        of_speed = speed_law(log_speeds, smallest)
        sizes = [(place.size, False) for place in found.by_size] + [(self.target, True)]
        rows = []
        for size, is_forecast in sizes:
            u = math.log2(size[column] / smallest)
            speed, gain = of_speed.at(u), law.at(u)
            ends = speed.interval(level)
            rows.append(
                EffectiveSpeed(
                    size=dict(size),
                    speed=Measure(value=speed.mean, ci=ends).map(math.exp),
                    factor=effective_speed(
                        of_loss,
                        size[column],
                        gain=gain,
                        speed=speed,
                        power=self.power,
                        level=level,
                    ),
                    is_forecast=is_forecast,
                )
            )
        return tuple(rows)


def _difference(law: GainLaw, doublings: float, level: float) -> Measure:
    """Treated / plain − 1."""
    gain = law.at(doublings)
    low, high = gain.interval(level)
    logs = np.clip([-gain.mean, -(high or 0.0), -(low or 0.0)], None, LARGEST_LOG)
    value, lower, upper = np.expm1(logs).tolist()
    return Measure(value=value, ci=Interval(lower, upper))


def _around(place: SizeDifference, expected: Measure) -> Measure:
    """The measured difference, with the interval of the law drawn as far as it."""
    plain, treated = place.plain.value, place.treated.value
    if plain is None or treated is None:
        return expected
    value, (low, high) = treated / plain - 1, expected.ci
    assert low is not None
    assert high is not None
    return Measure(value=value, ci=Interval(min(low, value), max(high, value)))
