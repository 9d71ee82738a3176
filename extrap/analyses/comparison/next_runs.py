"""The cheapest runs that would decide whether a gain survives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.analyses.comparison.gate import UNDECIDED, Gate, interval_as_share
from extrap.fitting.distributions import t_quantile
from extrap.fitting.gain import GainLaw, fit_gain
from extrap.fitting.jackknife import Error
from extrap.laws.base import Array

N_OUTCOMES = 9
"""Equally likely results of new runs that are looked at."""
MIN_PROBABILITY = 0.5
"""Probability of a verdict for which runs are proposed."""
N_PAIRS, MOST_SIZE_STEPS = (1, 2, 3, 5, 8, 12, 20), 6
"""New pairs at one size, and how many sizes beyond the largest one, that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRuns:
    """New runs of two recipes at one size.

    Attributes:
        recipes: Names of the recipes, the plain one first.
        size: Size column → value; empty for another size than the only one, if that has no name.
        n_seeds: Runs of each recipe.
        cost: Of all 2 n_seeds runs, over that of one run at the target; None where unknown.
        chance: Probability that they decide; None where it is not known.
        why: What they tell, in a few words.
    """

    recipes: tuple[str, ...]
    size: Mapping[str, float]
    n_seeds: int
    cost: float | None
    chance: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the gain of one recipe over another.

    Attributes:
        recipes: Names of the recipes, the plain one first.
        columns: Size columns.
        sizes: The common sizes.
        target: The size asked for.
        gate: The thresholds.
        powers: Of each size column that the cost of a run follows; None if they are not known.
    """

    recipes: tuple[str, ...]
    columns: Sequence[str]
    sizes: Sequence[Sequence[float]]
    target: Mapping[str, float]
    gate: Gate
    powers: Sequence[float] | None

    @property
    def logs(self) -> Array:
        """log2 of the common sizes, shape (n_sizes, n_columns)."""
        return np.log2(np.array(self.sizes, dtype=float))

    @property
    def goal(self) -> Array:
        """log2 of the target."""
        return np.log2([self.target[column] for column in self.columns])

    @property
    def power_of_line(self) -> float:
        """Power of the first size column that the cost follows along sizes on one line."""
        logs = np.vstack([self.logs, self.goal])
        slopes = np.polyfit(logs[:, 0], logs, 1)[0]
        return float(slopes @ np.asarray(self.powers))

    def proposal(self, position: Array, n: int, chance: float | None, why: str) -> NextRuns:
        """New runs at log2 of a size."""
        cost = self.cost(position, n)
        size = [float(f"{value:.12g}") for value in (2.0**position).tolist()]  # 96, not 96 + 1e-14
        return NextRuns(
            recipes=self.recipes,
            size=dict(zip(self.columns, size, strict=True)),
            n_seeds=n,
            cost=None if self.powers is None else cost,
            chance=chance,
            why=why,
        )

    def cost(self, position: Array, n: int) -> float:
        """Of n runs of both, over one at the target; by default in proportion to the sizes."""
        powers = np.ones(len(self.columns)) if self.powers is None else np.array(self.powers)
        return float(2 * n * 2.0 ** (powers @ (position - self.goal)))

    def steps_beyond(self) -> list[Array]:
        """log2 of sizes beyond the largest one up to the target, in the steps of the sweep."""
        largest, steps = self.logs.max(axis=0), []
        for column in self.logs.T:
            between = np.diff(np.unique(column.round(9)))
            steps.append(float(np.median(between)) if len(between) else 1.0)
        step, last = np.array(steps), np.maximum(self.goal, largest)
        n_steps = max(1, min(MOST_SIZE_STEPS, math.ceil(((last - largest) / step).max() - 1e-9)))
        sizes = [np.minimum(largest + step * (i + 1), last) for i in range(n_steps)]
        return [size for size in sizes if (size > largest).any()]


def second_size(question: Question, n: int) -> NextRuns:
    """Both recipes at twice the only size."""
    return question.proposal(question.logs[0] + 1, n, None, why_larger(1))


def why_larger(n_sizes: int) -> str:
    """What a size beyond so many tells."""
    nth = {1: "second", 2: "third"}.get(n_sizes, "larger")
    return f"a {nth} size tells whether the gain lasts"


def cheapest_decision(law: GainLaw, question: Question) -> NextRuns | None:
    """The cheapest new runs that decide as likely as not, else the likeliest ones.

    Looked at are more pairs at the largest size, unless it is the only one, and at sizes beyond it
    up to the target.

    Args:
        law: Of the gain.
        question: What is asked of it.

    Returns:
        The runs; None where none would decide in any of the results looked at.
    """
    n_sizes, largest = len(question.sizes), question.logs.max(axis=0)
    positions = [(largest, "more seeds at the largest size")] * (n_sizes > 1)
    positions += [(size, why_larger(n_sizes)) for size in question.steps_beyond()]
    options = [(question.cost(size, n), n, size, why) for size, why in positions for n in N_PAIRS]
    best = None
    for _, n, size, why in sorted(options, key=lambda option: option[0]):
        chance = _chance(law, question, dict(zip(question.columns, 2.0**size, strict=True)), n)
        if best is None or chance > (best.chance or 0.0):
            best = question.proposal(size, n, chance, why)
        if chance >= MIN_PROBABILITY:
            break
    return best if best is not None and best.chance else None


def _chance(law: GainLaw, question: Question, size: Mapping[str, float], n: int) -> float:
    """Probability that n more pairs at a size decide."""
    ahead, gate = law.runs_at(size, n), question.gate
    outcomes = [ahead.quantile((i + 0.5) / N_OUTCOMES) for i in range(N_OUTCOMES)]
    laws = (fit_gain(law.pairs.with_one(size, gain, law.scatter, n)) for gain in outcomes)
    verdicts = [gate.judge_law(refitted, question.target) for refitted in laws]
    return sum(verdict != UNDECIDED for verdict in verdicts) / N_OUTCOMES


def more_seeds(gain: float, error: Error, n_seeds: int, question: Question) -> NextRuns | None:
    """The fewest new runs at the target that decide as likely as not, else the likeliest.

    Args:
        gain: `ln(L_plain / L_treated)` there.
        error: Its standard error.
        n_seeds: Runs of each recipe behind it.
        question: What is asked of it.
    """
    best, shares = None, (np.arange(N_OUTCOMES) + 0.5) / N_OUTCOMES
    for n in N_PAIRS:
        later = Error(error.se * math.sqrt(n_seeds / (n_seeds + n)), error.dof + n)
        half = later.half_width(question.gate.level)
        moved = error.se * math.sqrt(n / (n_seeds + n)) * t_quantile(shares, error.dof)
        ends = [interval_as_share(gain + off - half, gain + off + half) for off in moved.tolist()]
        decided = [question.gate.judge(interval, ()) != UNDECIDED for interval in ends]
        chance = sum(decided) / N_OUTCOMES
        if best is None or chance > (best.chance or 0.0):
            best = question.proposal(question.goal, n, chance, "more seeds at the target")
        if chance >= MIN_PROBABILITY:
            break
    return best if best is not None and best.chance else None
