"""Sweeps over data of a comparison: where hard examples win, where easy ones, what labels cost.

Sweeps are known by their names, as a study of data selection has them: `NAME` has random examples,
`NAME-hard-KEEP` and `NAME-easy-KEEP` the hardest or easiest part of a pool, `NAME-active` those
an active learner chose; what follows, `NAME-hard-0.5-margin`, tells variants of a problem apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.comparing.paired_sizes import (
    ChoiceCrossover,
    DataSaved,
    LocalExponent,
    ResampledLosses,
    crossover_of_differences,
    data_saved,
    difference_by_size,
    local_exponents,
    resample_losses,
)
from extrap.records import EXAMPLES, TUNABLE

RANDOM, ACTIVE = "random", "active"
CHOICES = ("hard", "easy")


@dataclass(frozen=True, slots=True, kw_only=True)
class BestChoice:
    """The best of random, hard and easy examples at one size and one kept fraction.

    Attributes:
        size: Kept examples.
        keep: Fraction of the pool that the hard and easy ones are.
        choice: `"random"`, `"hard"` or `"easy"`, the one of the lowest mean log loss.
        is_significant: Whether it is better than either other one beyond the noise of seeds, as in
            `paired_sizes`.
        is_edge: Whether a best tuned value of the three lies at the edge of those tried.
    """

    size: float
    keep: float
    choice: str
    is_significant: bool
    is_edge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectionFindings:
    """What the sweeps of one problem say.

    Attributes:
        problem: Name of the sweep with random examples, and of the variant.
        losses: Tuned losses; ways are called `random`, `hard 0.5`, …, `active`.
        keeps: Kept fractions that have both hard and easy examples, largest first.
        best: Best choice by fraction and size.
        crossovers: Fraction → where the better of easy and hard examples changes.
        against_random: Way → where the better of it and random ones changes.
        exponents: Way → how fast its loss falls, size by size.
        labels: What an active learner saves; empty without one.
        level: Of all intervals.
    """

    problem: str
    losses: ResampledLosses
    keeps: tuple[float, ...]
    best: tuple[BestChoice, ...]
    crossovers: Mapping[float, ChoiceCrossover]
    against_random: Mapping[str, ChoiceCrossover]
    exponents: Mapping[str, tuple[LocalExponent, ...]]
    labels: tuple[DataSaved, ...]
    level: float

    @property
    def ways(self) -> tuple[str, ...]:
        """All ways, random examples first."""
        return tuple(self.losses.log_loss)


def selection_findings(
    table: pd.DataFrame, *, level: float = 0.95, n_resamples: int = 2000
) -> tuple[SelectionFindings, ...]:
    """What the sweeps of a run table say of choosing data, problem by problem.

    Args:
        table: One row per run: `arm`, the name of its sweep, `examples`, `seed`, `loss`, tuned
            columns.
        level: Of the intervals.
        n_resamples: Draws of the seeds.

    Returns:
        One entry per problem; none for a table without such sweeps.

    Raises:
        DataError: The sweeps of a problem have fewer than three seeds in common.
    """
    if not {"arm", EXAMPLES, "seed", "loss"} <= set(table):
        return ()
    if "stage" in table:
        table = table[table["stage"] == "tune"]
    sweeps = {str(name): own for name, own in table.groupby("arm", sort=False)}
    problems: dict[str, dict[str, pd.DataFrame]] = {}
    for name, own in sweeps.items():
        base, way, variant = _parsed(name)
        if base not in sweeps or not way:
            continue
        problem = f"{base}, {variant}" if variant else base
        problems.setdefault(problem, {RANDOM: sweeps[base]})[way] = own
    return tuple(
        _findings(problem, ways, level, n_resamples) for problem, ways in problems.items()
    )


def _parsed(name: str) -> tuple[str, str, str]:
    """Name of the random sweep, the way, the variant; no way for any other sweep."""
    parts = name.split("-")
    for i, part in enumerate(parts[1:], start=1):
        base, rest = "-".join(parts[:i]), parts[i + 1 :]
        if part == ACTIVE:
            return base, ACTIVE, "labels"
        if part in CHOICES and rest and _is_fraction(rest[0]):
            return base, f"{part} {float(rest[0]):g}", "-".join(rest[1:])
    return "", "", ""


def _is_fraction(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


def _findings(
    problem: str, ways: Mapping[str, pd.DataFrame], level: float, n_resamples: int
) -> SelectionFindings:
    names = ["lr", *TUNABLE]
    tuned = [c for c in names if any(c in f and f[c].nunique() > 1 for f in ways.values())]
    losses = resample_losses(ways, size=EXAMPLES, tuned=tuned, n_resamples=n_resamples)
    keeps = _keeps(list(ways))
    return SelectionFindings(
        problem=problem,
        losses=losses,
        keeps=keeps,
        best=tuple(b for keep in keeps for b in _best(losses, keep, level)),
        crossovers={
            keep: crossover_of_differences(losses, f"hard {keep:g}", f"easy {keep:g}", level=level)
            for keep in keeps
        },
        against_random={
            way: crossover_of_differences(losses, way, RANDOM, level=level)
            for way in ways
            if way != RANDOM
        },
        exponents={way: local_exponents(losses, way, level=level) for way in ways},
        labels=data_saved(losses, ACTIVE, RANDOM, level=level) if ACTIVE in ways else (),
        level=level,
    )


def _keeps(ways: Sequence[str]) -> tuple[float, ...]:
    found = {
        choice: {float(w.split()[1]) for w in ways if w.startswith(choice)} for choice in CHOICES
    }
    return tuple(sorted(found["hard"] & found["easy"], reverse=True))


def _best(losses: ResampledLosses, keep: float, level: float) -> list[BestChoice]:
    ways = {RANDOM: RANDOM, **{choice: f"{choice} {keep:g}" for choice in CHOICES}}
    is_better = {
        (a, b, step.size): step.is_significant and (step.difference.value or 0) < 0
        for a in ways
        for b in ways
        if a != b
        for step in difference_by_size(losses, ways[a], ways[b], level=level)
    }
    found = []
    for i, size in enumerate(losses.sizes[RANDOM]):
        heights = {
            choice: losses.log_loss[way][0, losses.sizes[way].index(size)]
            for choice, way in ways.items()
            if size in losses.sizes[way]
        }
        if len(heights) < len(ways):
            continue
        if not any(np.isfinite(height) for height in heights.values()):
            continue
        best = min(heights, key=lambda choice: np.nan_to_num(heights[choice], nan=np.inf))
        found.append(
            BestChoice(
                size=losses.sizes[RANDOM][i],
                keep=keep,
                choice=best,
                is_significant=all(
                    is_better[best, other, size] for other in ways if other != best
                ),
                is_edge=any(
                    losses.at_edge[way][losses.sizes[way].index(size)] for way in ways.values()
                ),
            )
        )
    return found
