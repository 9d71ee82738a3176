"""What a log of experiments says: candidates, worse changes, noise, and what was confirmed.

A program that keeps what wins selects on noise, so a log alone names candidates. What confirms one
is fresh runs of it and of the recipe that it was built on, see `extrap.fitting.discoveries`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from extrap.analyses.comparison.comparing import compare
from extrap.analyses.comparison.comparison_results import Comparison
from extrap.analyses.comparison.gate import BETTER_HERE, SURVIVES, UNDECIDED, VERDICTS
from extrap.analyses.comparison.next_runs import NextRuns
from extrap.errors import DataError
from extrap.fitting.changes import ChangeEffects, change_effects, least_gain, repeats_needed
from extrap.fitting.discoveries import LEAST_FRESH, Confirmation, confirmations
from extrap.reading.experiment_log import Experiment, ExperimentLog
from extrap.records import Interval, Measure, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_level
from extrap.records.numbers import counted, format_percent

CONFIRMED, NOT_CONFIRMED, CANDIDATE = "confirmed", "not confirmed", "candidate"
WORSE_CHANGE, WITHIN_NOISE, CRASHED, NOT_JUDGED = "worse", "within noise", "crashed", "not judged"
"""What became of a change."""
NOTHING_BETTER = "nothing better"
"""Verdict on a log in which no change is better or may be."""
LEAST_REPEATS, MOST_REPEATS = 4, 10
"""Runs of the first recipe that are proposed at least and at most, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One recipe of a log against the recipe that it was built on.

    Attributes:
        row: Where the log first has it.
        name: Its description.
        commit: Its commit; may be empty.
        base: Name of the recipe that it was built on.
        decision: What the log did with it: `keep`, `discard`, `crash`; may be empty.
        n_runs: Its runs that have a loss, at the size that most recipes have.
        outcome: `confirmed`, `not confirmed` (by fresh runs), `candidate`, `worse`,
            `within noise`, `crashed`, or `not judged` where no recipe was repeated, or where it
            was run at other sizes only.
        gain: As a share of the loss: by fresh runs alone where there are enough, else expected,
            shrunk for its selection.
        probability: That it is better, by the log; None where the noise is unknown.
        p_value: Of its fresh runs, if it does nothing; None without enough of them.
    """

    row: int
    name: str
    commit: str
    base: str
    decision: str
    n_runs: int
    outcome: str
    gain: Measure = Measure()
    probability: float | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experiments(Shown):
    """A log of experiments, judged.

    Attributes:
        source: The log.
        metric: Column of the loss.
        verdict: Of confirmed changes the best of `extrap.compare` at larger sizes, and `better
            here` where these leave it open; without one `undecided` where there are candidates,
            or the noise is unknown; else `nothing better`.
        changes: In the order of the log.
        base: The recipe to build on: the last in the log's chain that is confirmed all the way.
        log_base: The recipe that the log built on last.
        noise: Standard deviation of one run, as a share of the loss; no interval and a guess
            where `n_repeats` is 0.
        n_repeats: Repeats that measure the noise: runs beyond the first of every recipe.
        n_alike: Repeats that do not, as all have the very loss of what they repeat.
        next_runs: What to run next, most promising first.
        comparisons: Confirmed change → what its runs at several sizes say.
        level: Of the intervals.
        notes: How the log was read.
    """

    source: str
    metric: str
    verdict: str
    changes: tuple[Change, ...]
    base: str
    log_base: str
    noise: Measure
    n_repeats: int
    n_alike: int
    next_runs: tuple[NextRuns, ...]
    comparisons: Mapping[str, Comparison]
    level: float
    notes: tuple[str, ...] = ()

    def of(self, *outcomes: str) -> list[Change]:
        """The changes of some outcomes, in the order of the log."""
        return [change for change in self.changes if change.outcome in outcomes]

    @property
    def best(self) -> Change | None:
        """The confirmed change of the largest gain, else the candidate; None without either.

        A change that larger sizes rule out is left out.
        """
        is_open = (SURVIVES, BETTER_HERE, UNDECIDED)
        ruled_out = {name for name, c in self.comparisons.items() if c.verdict not in is_open}
        for outcome in (CONFIRMED, CANDIDATE):
            if changes := [change for change in self.of(outcome) if change.name not in ruled_out]:
                return max(changes, key=lambda change: change.gain.value or 0.0)
        return None

    @property
    def gain(self) -> Measure:
        """Of the verdict: at the target where larger sizes gave it, else that of `best`."""
        comparisons = [c for c in self.comparisons.values() if c.verdict == self.verdict]
        if comparisons:
            largest = max(comparisons, key=lambda comparison: comparison.gain or 0.0)
            return Measure(value=largest.gain, ci=largest.interval)
        return self.best.gain if self.best else Measure()


shape(
    Experiments,
    kind="extrap-experiments",
    add={
        "gain": lambda log: log.gain.value,
        "interval": lambda log: None if log.gain.value is None else log.gain.ci,
        "candidates": lambda log: [change.name for change in log.of(CANDIDATE)],
        "confirmed": lambda log: [change.name for change in log.of(CONFIRMED)],
    },
)


def judge_experiments(
    log: ExperimentLog,
    *,
    at: Mapping[str, float] | float | None = None,
    level: float = 0.95,
    min_gain: float | None = None,
) -> Experiments:
    """Say of each change of a log whether it is better, and what to run next.

    Changes are judged at the size that most recipes have. A confirmed one with fresh runs at
    larger sizes, of it and of its base, is compared over size like any two recipes.

    Args:
        log: The log.
        at: Target size of confirmed changes, as for `extrap.compare`.
        level: Of the intervals, in (0, 1).
        min_gain: The least gain that matters there, as for `extrap.compare`.

    Returns:
        What became of each change.

    Raises:
        ValueError: An argument is out of range, as for `extrap.compare`.
        DataError: No change has a loss.
    """
    require_level(level)
    judged = _Judged.of(log, level)
    _check_target(log, at)
    changes = {recipe: judged.change(recipe) for recipe in range(1, len(log.recipes))}
    comparisons = {
        recipe: compare(
            arms, size=list(judged.size), tune=(), at=at, level=level, min_gain=min_gain
        )
        for recipe, change in changes.items()
        if change.outcome == CONFIRMED and (arms := judged.arms(recipe)) is not None
    }
    noise = judged.effects.noise
    ends = judged.effects.noise_interval if judged.effects.n_repeats else Interval()
    return Experiments(
        source=log.source,
        metric=log.metric,
        verdict=_verdict({change.outcome for change in changes.values()}, comparisons.values()),
        changes=tuple(changes.values()),
        base=log.recipes[judged.confirmed_base()],
        log_base=log.recipes[judged.log_base],
        noise=Measure(value=noise, ci=ends),
        n_repeats=judged.effects.n_repeats,
        n_alike=judged.n_alike,
        next_runs=tuple(judged.next_runs(changes, comparisons)),
        comparisons={
            log.recipes[recipe]: comparison for recipe, comparison in comparisons.items()
        },
        level=level,
        notes=log.notes,
    )


def _check_target(log: ExperimentLog, at: Mapping[str, float] | float | None) -> None:
    """Refuse a target below all sizes before anything is confirmed for it."""
    sizes = [run.size for run in log.experiments if run.loss is not None]
    target = at if isinstance(at, Mapping) else {} if at is None else dict.fromkeys(sizes[0], at)
    for column, value in target.items():
        smallest = min((size[column] for size in sizes if column in size), default=value)
        if value < smallest:
            raise ValueError(
                f"a comparison is not extrapolated below the smallest size of {log.source}, "
                f"{column}={smallest:g}, got {value:g}; give a larger size."
            )


def _verdict(outcomes: Collection[str], comparisons: Collection[Comparison]) -> str:
    """On a log: of what is confirmed the best at larger sizes, else what is still open."""
    if CONFIRMED in outcomes:
        verdicts = [comparison.verdict for comparison in comparisons] or [BETTER_HERE]
        best = min(verdicts, key=VERDICTS.index)
        if best in (SURVIVES, BETTER_HERE, UNDECIDED):
            return SURVIVES if best == SURVIVES else BETTER_HERE
        return UNDECIDED if CANDIDATE in outcomes else best
    is_open = CANDIDATE in outcomes or NOT_JUDGED in outcomes
    return UNDECIDED if is_open else NOTHING_BETTER


def _usual_size(trained: Sequence[Experiment]) -> dict[str, float]:
    """The size that most recipes have, however many runs some of them have at another one."""
    tried = {(run.recipe, tuple(run.size.items())) for run in trained}
    n_recipes = Counter(size for _, size in tried)
    usual = min(n_recipes, key=lambda size: (-n_recipes[size], [value for _, value in size]))
    return dict(usual)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Judged:
    """A log with what its runs at the usual size say.

    Attributes:
        log: The log.
        size: The size that most recipes have.
        runs: Those of that size that have a loss.
        effects: Of its recipes.
        tests: Recipe → its tests by fresh runs, in order; only the last may be a call.
        level: Of the intervals.
    """

    log: ExperimentLog
    size: Mapping[str, float]
    runs: Sequence[Experiment]
    effects: ChangeEffects
    tests: Mapping[int, list[Confirmation]]
    level: float

    @classmethod
    def of(cls, log: ExperimentLog, level: float) -> _Judged:
        trained = [run for run in log.experiments if run.loss is not None]
        size = _usual_size(trained)
        runs = [run for run in trained if run.size == size]
        log_losses = np.log(np.array([run.loss for run in runs], dtype=float))
        recipes, bases = np.array([run.recipe for run in runs]), np.array(log.bases)
        if len(set(recipes.tolist())) < 2:
            raise DataError(
                f"a log needs a change that has a loss beside its base, {log.source} has "
                f"{counted(len(runs), 'run')} of {log.recipes[recipes[0]]!r} alone; add its "
                "other experiments."
            )
        tests: dict[int, list[Confirmation]] = {}
        for test in confirmations(log_losses, recipes, bases):
            tests.setdefault(test.recipe, []).append(test)
        effects = change_effects(log_losses, recipes, bases, level=level)
        return cls(log=log, size=size, runs=runs, effects=effects, tests=tests, level=level)

    def fresh_runs(self, recipe: int, of: int) -> list[Experiment]:
        """Runs of a recipe or of its base, elsewhere or after its first, which selected it."""
        trained = [run for run in self.log.experiments if run.loss is not None]
        is_home = [run.size == self.size for run in trained]
        first = next(i for i, run in enumerate(trained) if run.recipe == recipe and is_home[i])
        return [
            run
            for i, run in enumerate(trained)
            if run.recipe == of and (i > first or not is_home[i])
        ]

    def n_missing(self, recipe: int) -> int:
        """Fresh runs that its first test still needs, of it or of its base."""
        recipes = [run.recipe for run in self.runs]
        fresh = recipes[recipes.index(recipe) + 1 :]
        return LEAST_FRESH - min(fresh.count(of) for of in (recipe, self.log.bases[recipe]))

    def change(self, recipe: int) -> Change:
        """What became of a recipe."""
        log = self.log
        n_runs = sum(run.recipe == recipe for run in self.runs)
        first = next(run for run in log.experiments if run.recipe == recipe)
        tests, has_noise = self.tests.get(recipe, []), self.effects.n_repeats > 0
        mean, sd = float(self.effects.gains[recipe]), float(self.effects.sds[recipe])
        half = float(special.ndtri(0.5 + self.level / 2)) * sd
        gain = Measure(value=mean, ci=Interval(mean - half, mean + half))
        if tests:
            fresh = tests[-1].fresh
            gain = Measure(value=fresh.gain, ci=fresh.interval(self.level))
            outcome = CONFIRMED if tests[-1].is_called else NOT_CONFIRMED
        elif all(run.loss is None for run in log.experiments if run.recipe == recipe):
            outcome, gain = CRASHED, Measure()
        elif not (n_runs and has_noise):
            outcome, gain = NOT_JUDGED, Measure()
        elif self.effects.is_candidate[recipe]:
            outcome = CANDIDATE
        else:
            outcome = WORSE_CHANGE if self.effects.is_worse[recipe] else WITHIN_NOISE
        is_judged = outcome not in (CRASHED, NOT_JUDGED)
        return Change(
            row=first.row,
            name=log.recipes[recipe],
            commit=first.commit,
            base=log.recipes[log.bases[recipe]],
            decision=first.decision,
            n_runs=n_runs,
            outcome=outcome,
            gain=gain.map(lambda log_gain: -math.expm1(-log_gain)),
            probability=float(self.effects.better[recipe]) if is_judged else None,
            p_value=tests[-1].p_value if tests else None,
        )

    @property
    def n_alike(self) -> int:
        """Repeats where they all are alike."""
        return 0 if self.effects.n_repeats else len(self.runs) - len({r.recipe for r in self.runs})

    @property
    def log_base(self) -> int:
        """The recipe that the log built on last."""
        return self.log.bases[-1] if len(self.log.bases) > 1 else 0

    def confirmed_base(self) -> int:
        """The last recipe of the chain of bases that is confirmed all the way."""
        chain = [self.log_base]
        while self.log.bases[chain[-1]] >= 0:
            chain.append(self.log.bases[chain[-1]])
        base = chain.pop()
        while chain and (tests := self.tests.get(chain[-1])) and tests[-1].is_called:
            base = chain.pop()
        return base

    def arms(self, recipe: int) -> dict[str, pd.DataFrame] | None:
        """Fresh runs of a recipe and of its base, as tables; None in a log without sizes."""
        if not self.size:
            return None
        return {
            self.log.recipes[of]: pd.DataFrame(
                [{**run.size, "loss": run.loss} for run in self.fresh_runs(recipe, of)]
            )
            for of in (self.log.bases[recipe], recipe)
        }

    def next_runs(
        self, changes: Mapping[int, Change], comparisons: Mapping[int, Comparison]
    ) -> Iterator[NextRuns]:
        """What to run next: larger sizes of what is confirmed, then candidates, likeliest first.

        Where the noise is unknown, repeats of the first recipe.
        """
        if not self.effects.n_repeats:
            if self.n_alike < LEAST_FRESH:  # of more alike ones another would be so as well
                yield self.repeats()
            return
        for comparison in comparisons.values():
            yield from filter(None, (contrast.next_runs for contrast in comparison.contrasts))
        likely = sorted(changes, key=lambda recipe: -(changes[recipe].probability or 0.0))
        for recipe in likely:
            change = changes[recipe]
            if change.outcome == CANDIDATE:
                n = self.n_missing(recipe)
                fresh_runs = f"{counted(n, 'fresh run')} of {change.name} and of its base"
                yield NextRuns(
                    recipes=(change.base, change.name),
                    size=self.size,
                    n_seeds=n,
                    cost=2.0 * n,
                    chance=None,
                    why=f"{fresh_runs} confirm it or not",
                )

    def repeats(self) -> NextRuns:
        """Repeats of the first recipe, so many that the best gain so far would stand out."""
        name, noise = self.log.recipes[0], self.effects.noise
        n = repeats_needed(noise, float(self.effects.gains.max())) or MOST_REPEATS
        n = min(max(n, LEAST_REPEATS), MOST_REPEATS) - 1
        seeds = ", with other seeds" if self.n_alike else ""
        visible = format_percent(least_gain(noise, n + 1), digits=2, signed=False)
        reach = f"a gain of {visible} then stands out"
        return NextRuns(
            recipes=(name,),
            size=self.size,
            n_seeds=n,
            cost=float(n),
            chance=None,
            why=f"to measure the noise{seeds}; if it is as it seems, {reach}",
        )
