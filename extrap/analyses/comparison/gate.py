"""The verdict on a variant at the target, and the cheapest runs that would decide one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.analyses.comparison.gain import GainLaw, fit_gain
from extrap.fitting.distributions import NormalMixture
from extrap.records import Interval
from extrap.records.intervals import LARGEST_LOG

SURVIVES, HURTS, FADES = "survives", "hurts", "fades"
NO_DIFFERENCE, UNDECIDED = "no difference", "undecided"
"""Verdicts, see `Gate.judge`."""
VERDICTS = (SURVIVES, UNDECIDED, FADES, NO_DIFFERENCE, HURTS)
"""Best first."""
MIN_GAIN = 0.002
"""δ, the least gain that matters, as a share of the loss."""
N_OUTCOMES = 9
"""Equally likely results of new runs that are looked at."""
MIN_PROBABILITY = 0.5
"""Probability of a verdict for which runs are proposed."""
N_PAIRS, MOST_SEED_STEPS = (1, 2, 3, 5, 8, 12, 20), 6
"""New pairs at one size, and how many sizes beyond the largest one, that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRuns:
    """New runs of both recipes at one size.

    Attributes:
        size: First size column → value.
        n_seeds: Runs of each recipe.
        cost: Of all 2 n_seeds runs, over that of one run at the target; None where unknown.
        chance: Probability that they decide.
    """

    size: Mapping[str, float]
    n_seeds: int
    cost: float | None
    chance: float


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

    def judge_law(self, law: GainLaw, target: float) -> str:
        """What becomes of the gain of a law, so many doublings from the smallest size."""
        ahead = as_share(law.predict(target), self.level)
        if ahead.upper is not None and 0 <= ahead.upper < self.min_gain:
            return self.judge(ahead, self.before(law))
        return self.judge(ahead, ())

    def before(self, law: GainLaw) -> list[Interval]:
        """Intervals of the gain of a law at its measured sizes."""
        return [as_share(law.predict(u), self.level) for u in law.pairs.doublings]


def as_share(gain: NormalMixture, level: float) -> Interval:
    """The interval of a gain as a share of the loss, `1 − exp(−gain)`."""
    low, high = gain.interval(level)
    logs = np.clip([-(low or 0.0), -(high or 0.0)], None, LARGEST_LOG)
    return Interval(*(-np.expm1(logs)).tolist())


def cheapest_decision(
    law: GainLaw,
    target: float,
    *,
    gate: Gate,
    column: str,
    power: float | None,
) -> NextRuns | None:
    """The cheapest new runs that decide as likely as not, else the likeliest ones.

    Looked at are more pairs at the largest size, and at sizes beyond it up to the target, in the
    steps of the sweep.

    Args:
        law: Of the gain.
        target: Doublings of the target from the smallest size.
        gate: What is asked of it.
        column: The first size column.
        power: Of size that the cost of a run follows; None if it is not known.

    Returns:
        The runs; None where none would decide in any of the results looked at.
    """
    steps = np.diff(np.unique(np.round(law.pairs.doublings, 9)))
    step = float(np.median(steps)) if len(steps) else 1.0
    n_steps = max(1, min(MOST_SEED_STEPS, math.ceil((target - law.largest) / step - 1e-9)))
    beyond = [law.largest + step * (i + 1) for i in range(n_steps)]
    positions = sorted({law.largest, *(min(u, max(target, law.largest)) for u in beyond)})
    grows = 1.0 if power is None else power
    options = [
        (2 * n * 2.0 ** (grows * (position - target)), position, n)
        for position in positions
        for n in N_PAIRS
    ]
    best = None
    for cost, position, n in sorted(options):
        proposal = NextRuns(
            size={column: law.pairs.smallest * 2.0**position},
            n_seeds=n,
            cost=None if power is None else cost,
            chance=_chance(law, target, gate, position, n),
        )
        if proposal.chance >= MIN_PROBABILITY:
            return proposal
        best = proposal if best is None or proposal.chance > best.chance else best
    return best if best is not None and best.chance > 0 else None


def _chance(law: GainLaw, target: float, gate: Gate, position: float, n: int) -> float:
    """Probability that n more pairs at a size decide."""
    ahead = law.runs_at(position, n)
    outcomes = [ahead.quantile((i + 0.5) / N_OUTCOMES) for i in range(N_OUTCOMES)]
    laws = (fit_gain(law.pairs.with_one(position, gain, law.scatter, n)) for gain in outcomes)
    return sum(gate.judge_law(refitted, target) != UNDECIDED for refitted in laws) / N_OUTCOMES
