"""The verdict on a variant at the target, and the cheapest runs that would decide one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.analyses.comparison.gain import GainLaw, fit_gain
from extrap.records import Interval
from extrap.records.intervals import LARGEST_LOG

SURVIVES, HURTS, FADES = "survives", "hurts", "fades"
NO_DIFFERENCE, UNDECIDED = "no difference", "undecided"
VERDICTS = (SURVIVES, UNDECIDED, FADES, NO_DIFFERENCE, HURTS)
PASSED, FAILED, OPEN = 0, 1, 4
"""Exit codes of a gate."""
MIN_GAIN = 0.002
"""δ, the least gain that matters, as a share of the loss."""
N_OUTCOMES = 9
"""Equally likely results of new runs that are looked at."""
LIKELY = 0.5
"""Probability of a verdict for which runs are proposed."""
N_PAIRS, MOST_STEPS = (1, 2, 3, 5, 8, 12, 20), 6
"""New pairs at one size, and how many sizes beyond the largest one, that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRuns:
    """New runs of both recipes at one size.

    Attributes:
        size: First size column → value.
        n_seeds: Runs of each recipe.
        cost: Of all of them, over that of one run at the target; None where it is not known.
        chance: Probability that they decide.
    """

    size: Mapping[str, float]
    n_seeds: int
    cost: float | None
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What is asked of a gain.

    Attributes:
        min_gain: δ, the least gain that matters, as a share of the loss.
        is_asked: Whether δ was asked for; else any gain survives.
        level: Of the intervals.
    """

    min_gain: float = MIN_GAIN
    is_asked: bool = False
    level: float = 0.95

    def judge(self, ahead: Interval, before: Sequence[Interval]) -> str:
        """What becomes of a gain at the target.

        `survives`: its interval lies above 0, above δ if that was asked for; `hurts`: below 0;
        `fades`: at a smaller size it lies above δ, at the target below; `no difference`: within δ
        on both sides; else `undecided`.

        Args:
            ahead: Interval of the gain at the target, a share of the loss.
            before: Those at the measured sizes.
        """
        low, high = ahead
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if low > (self.min_gain if self.is_asked else 0.0):
            return SURVIVES
        if high < 0:
            return HURTS
        if high < self.min_gain and any((each.lower or 0.0) > self.min_gain for each in before):
            return FADES
        is_small = -self.min_gain < low and high < self.min_gain
        return NO_DIFFERENCE if is_small else UNDECIDED

    def judge_law(self, law: GainLaw, target: float) -> str:
        """The same of a law, so many doublings from the smallest size."""
        ahead = self.share(law, target)
        verdict = self.judge(ahead, ())
        if verdict != UNDECIDED and verdict != NO_DIFFERENCE:
            return verdict
        return self.judge(ahead, [self.share(law, u) for u in law.pairs.doublings])

    def share(self, law: GainLaw, doublings: float) -> Interval:
        """The interval of a gain as a share of the loss."""
        low, high = law.at(doublings).interval(self.level)
        logs = np.clip([-(low or 0.0), -(high or 0.0)], None, LARGEST_LOG)
        return Interval(*(-np.expm1(logs)).tolist())


def cheapest_decision(
    law: GainLaw,
    target: float,
    *,
    gate: Gate,
    smallest: Mapping[str, float],
    power: float | None,
) -> NextRuns | None:
    """The cheapest new runs that decide as likely as not, else the likeliest ones.

    Looked at are more pairs at the largest size, and at sizes beyond it up to the target, in the
    steps of the sweep.

    Args:
        law: Of the gain.
        target: Doublings of the target from the smallest size.
        gate: What is asked of it.
        smallest: First size column → its smallest value.
        power: Of size that the cost of a run follows; None if it is not known.
    """
    steps = np.diff(np.unique(np.round(law.pairs.doublings, 9)))
    step = float(np.median(steps)) if len(steps) else 1.0
    n_steps = max(1, min(MOST_STEPS, math.ceil((target - law.largest) / step - 1e-9)))
    beyond = [law.largest + step * (i + 1) for i in range(n_steps)]
    places = sorted({law.largest, *(min(u, max(target, law.largest)) for u in beyond)})
    grows = 1.0 if power is None else power
    options = [
        (2 * n * 2.0 ** (grows * (place - target)), place, n) for place in places for n in N_PAIRS
    ]
    best = None
    for cost, place, n in sorted(options):
        found = NextRuns(
            size={column: value * 2.0**place for column, value in smallest.items()},
            n_seeds=n,
            cost=None if power is None else cost,
            chance=_chance(law, target, gate, place, n),
        )
        if found.chance >= LIKELY:
            return found
        best = found if best is None or found.chance > best.chance else best
    return best if best is not None and best.chance > 0 else None


def _chance(law: GainLaw, target: float, gate: Gate, place: float, n: int) -> float:
    """Probability that n more pairs at a size decide."""
    ahead = law.runs_at(place, n)
    outcomes = [ahead.quantile((i + 0.5) / N_OUTCOMES) for i in range(N_OUTCOMES)]
    laws = (fit_gain(law.pairs.with_one(place, gain, law.scatter, n)) for gain in outcomes)
    return sum(gate.judge_law(each, target) != UNDECIDED for each in laws) / N_OUTCOMES


def exit_code(verdicts: Sequence[str]) -> int:
    """0 where a variant survives, 4 where none does and one is undecided, else 1."""
    if SURVIVES in verdicts:
        return PASSED
    return OPEN if UNDECIDED in verdicts else FAILED
