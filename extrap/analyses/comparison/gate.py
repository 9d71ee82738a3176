"""The verdict on a variant at the target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.distributions import NormalMixture
from extrap.fitting.gain import GainLaw
from extrap.records import Interval
from extrap.records.intervals import LARGEST_LOG

SURVIVES, HURTS, FADES = "survives", "hurts", "fades"
NO_DIFFERENCE, UNDECIDED = "no difference", "undecided"
BETTER_HERE, WORSE_HERE = "better here", "worse here"
"""Verdicts, see `Gate.judge` and `Gate.judge_here`."""
VERDICTS = (SURVIVES, BETTER_HERE, UNDECIDED, FADES, NO_DIFFERENCE, WORSE_HERE, HURTS)
"""Best first."""
MIN_GAIN = 0.002
"""δ, the least gain that matters, as a share of the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Thresholds for the verdict on a gain.

    Attributes:
        min_gain: δ, the least gain that matters, as a share of the loss.
        survives_above: Gain above which a recipe survives: δ if it was asked for, else 0.
        level: Confidence level of the interval at the target.
    """

    min_gain: float = MIN_GAIN
    survives_above: float = 0.0
    level: float = 0.95

    def judge(self, ahead: Interval, before: Sequence[Interval]) -> str:
        """Verdict on a gain at the target.

        Args:
            ahead: Interval of the gain at the target, a share of the loss.
            before: Those at the measured sizes.

        Returns:
            `survives` where the interval lies above `survives_above`; `hurts` below 0; `fades`
            below δ where one before lies above; `no difference` within δ on both sides; else
            `undecided`.
        """
        low, high = ahead
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if low > self.survives_above:
            return SURVIVES
        if high < 0:
            return HURTS
        if high < self.min_gain and any((gain.lower or 0.0) > self.min_gain for gain in before):
            return FADES
        is_small = -self.min_gain < low and high < self.min_gain
        return NO_DIFFERENCE if is_small else UNDECIDED

    def judge_here(self, gain: Interval) -> str:
        """Verdict on a gain at the only size that was run, of which nothing follows for others."""
        verdict = self.judge(gain, ())
        return {SURVIVES: BETTER_HERE, HURTS: WORSE_HERE}.get(verdict, verdict)

    def judge_law(self, law: GainLaw, target: Mapping[str, float]) -> str:
        """What becomes of the gain of a law at the target."""
        ahead = as_share(law.predict(target), self.level)
        if ahead.upper is not None and 0 <= ahead.upper < self.min_gain:
            return self.judge(ahead, self.before(law))
        return self.judge(ahead, ())

    def before(self, law: GainLaw) -> list[Interval]:
        """Intervals of the gain of a law at its measured sizes."""
        sizes = [dict(zip(law.pairs.columns, key, strict=True)) for key in law.pairs.sizes]
        return [as_share(law.predict(size), self.level) for size in sizes]


def as_share(gain: NormalMixture, level: float) -> Interval:
    """The interval of a gain as a share of the loss, `1 − exp(−gain)`."""
    return interval_as_share(*gain.interval(level))


def interval_as_share(low: float | None, high: float | None) -> Interval:
    """As `as_share`, of an interval of the log ratio."""
    logs = np.clip([-(low or 0.0), -(high or 0.0)], None, LARGEST_LOG)
    return Interval(*(-np.expm1(logs)).tolist())
