"""Changes of a log that fresh runs confirm, with the share of false ones among them controlled.

References:
    Ramdas, Yang, Wainwright, Jordan (2017), Online control of the false discovery rate with
    decaying memory, arXiv 1710.00499, section 2: LORD++.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.fitting.change_tree import LEAST_SCATTER
from extrap.fitting.distributions import t_quantile, t_tail
from extrap.fitting.projection import Index
from extrap.laws.base import Array
from extrap.records import Interval

FALSE_DISCOVERY_RATE = 0.1
"""Largest expected share of false ones among all that are called."""
FIRST_WEALTH = 0.05
"""Part of it that tests spend before the first call."""
LEAST_FRESH = 3
"""Fresh runs of a recipe, and of its base, that a test needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshGain:
    """Difference between runs of a recipe and of its base.

    Attributes:
        gain: ln(L_base / L_recipe).
        error: Its standard error.
        dof: Degrees of freedom of the noise.
        n_recipe: Runs of the recipe.
        n_base: Runs of its base.
    """

    gain: float
    error: float
    dof: int
    n_recipe: int
    n_base: int

    def interval(self, level: float) -> Interval:
        """Of the gain, by Student's t."""
        half = float(t_quantile((1 + level) / 2, self.dof)) * self.error
        return Interval(self.gain - half, self.gain + half)

    @property
    def p_value(self) -> float:
        """One-sided, of a recipe that is not better."""
        return float(t_tail(self.gain / self.error, self.dof))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A test of fresh runs of a recipe and of its base.

    Attributes:
        row: Index of the run that completed them.
        recipe: Index of the recipe.
        p_value: One-sided, of a recipe that is not better.
        threshold: Of LORD++.
        is_called: Whether the p-value is at most that.
        fresh: Of all fresh runs in the log, those after the test as well.
    """

    row: int
    recipe: int
    p_value: float
    threshold: float
    is_called: bool
    fresh: FreshGain


def lord_threshold(n: int, calls: Sequence[int]) -> float:
    """Threshold of the nth p-value by LORD++, given the numbers of the tests called before it.

    `α_n = w γ_n + (α − w) γ_(n − τ1) + α Σ_(j ≥ 2) γ_(n − τj)` with the calls τ, counted from 1,
    and `γ_k = 6/(π k)²`, which sums to 1.
    """
    rate, wealth = FALSE_DISCOVERY_RATE, FIRST_WEALTH
    earned = [rate - wealth, *[rate] * len(calls)]
    spent = sum(share / (n - call) ** 2 for share, call in zip(earned, calls, strict=False))
    return 6 / math.pi**2 * (wealth / n**2 + spent)


def lord(p_values: Iterable[float]) -> tuple[tuple[float, bool], ...]:
    """LORD++: the threshold of each p-value in order, and whether it is called."""
    tests: list[tuple[float, bool]] = []
    calls: list[int] = []
    for n, p_value in enumerate(p_values, start=1):
        threshold = lord_threshold(n, calls)
        tests.append((threshold, p_value <= threshold))
        calls += [n] if p_value <= threshold else []
    return tuple(tests)


def confirmations(log_losses: Array, recipes: Index, bases: Index) -> tuple[Confirmation, ...]:
    """Tests of recipes against their bases by fresh runs alone, in the order of the log.

    Fresh are the runs after a recipe's first, which selected it. A recipe is tested each time
    that three more of them, and of its base, are there since its last test, until it is called.
    The noise is that within all recipes up to then. So rows that are appended withdraw no call.

    Args:
        log_losses: Of the runs in order, shape (n_runs,), without failed ones.
        recipes: Index of each run's recipe, shape (n_runs,).
        bases: Index of the recipe that each recipe was built on, −1 for a first one.
    """
    y, recipes, bases = np.asarray(log_losses, dtype=float), np.asarray(recipes), np.asarray(bases)
    tests: list[tuple[int, int]] = []
    p_values: list[float] = []
    first_rows: dict[int, int] = {}
    last_rows: dict[int, int] = {}
    called: set[int] = set()
    for row, changed in enumerate(recipes.tolist()):
        first_rows.setdefault(changed, row)
        for recipe in (changed, *np.flatnonzero(bases == changed).tolist()):
            if recipe in called or recipe not in first_rows:
                continue
            after = last_rows.get(recipe, first_rows[recipe])
            fresh = _fresh_gain(y[: row + 1], recipes[: row + 1], bases, recipe, after)
            if fresh is None:
                continue
            tests.append((row, recipe))
            p_values.append(fresh.p_value)
            last_rows[recipe] = row
            if lord(p_values)[-1][1]:
                called.add(recipe)
    records = []
    for (row, recipe), p_value, verdict in zip(tests, p_values, lord(p_values), strict=True):
        fresh = _fresh_gain(y, recipes, bases, recipe, first_rows[recipe])
        assert fresh is not None
        threshold, is_called = verdict
        records.append(
            Confirmation(
                row=row,
                recipe=recipe,
                p_value=p_value,
                threshold=threshold,
                is_called=is_called,
                fresh=fresh,
            )
        )
    return tuple(records)


def _fresh_gain(
    log_losses: Array, recipes: Index, bases: Index, recipe: int, after: int
) -> FreshGain | None:
    """Of the runs after a row, if they are enough, by the noise within all recipes.

    None where all repeats are alike: they ran with one seed, and tell no noise. The first run of
    a recipe that has a base was selected, and counts for no noise.
    """
    is_fresh = np.arange(len(recipes)) > after
    ours = log_losses[is_fresh & (recipes == recipe)]
    theirs = log_losses[is_fresh & (recipes == bases[recipe])]
    if min(len(ours), len(theirs)) < LEAST_FRESH:
        return None
    first_rows = np.unique(recipes, return_index=True)[1]
    selected = first_rows[bases[recipes[first_rows]] >= 0]
    names, values = np.delete(recipes, selected), np.delete(log_losses, selected)
    counts = np.bincount(names)
    means = np.bincount(names, values) / np.maximum(counts, 1)
    dof = int(len(values) - (counts > 0).sum())
    variance = float(((values - means[names]) ** 2).sum()) / dof
    if variance <= LEAST_SCATTER**2:
        return None
    return FreshGain(
        gain=float(theirs.mean() - ours.mean()),
        error=math.sqrt(variance * (1 / len(ours) + 1 / len(theirs))),
        dof=dof,
        n_recipe=len(ours),
        n_base=len(theirs),
    )
