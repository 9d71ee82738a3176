"""Settings that vary and are neither a size nor tuned: no run is pooled with others in silence.

| column | is asked for |
|---|---|
| what times or places a run, a metric, what follows from size and tuned values | never |
| the role of a run in a study of extrap's | never |
| that is one amount within a size, within a tenth | never |
| any other that differs between runs of one size and tuned values | always |
| … of runs that are each alone at their tuned values, as in a random search | always |
| words named as a setting is that alternate along the sizes | always |
| text that differs in most rows | never: it is named beside what was used |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError
from extrap.reading.cells import Codes, Levels, is_empty, joint, levels_of
from extrap.reading.columns import display_name
from extrap.reading.names import (
    COUNT_PATTERN,
    MEASURED,
    NAMES_OF_PART,
    PLAYED,
    RATE_NAMES,
    RATE_PATTERN,
    from_logarithm,
    is_bookkeeping,
    is_identity,
    is_measured,
    is_recipe,
    known_name,
    split_words,
)
from extrap.reading.roles import MOST_CHOICES_OFFERED, TRIED, tried_share
from extrap.records import ROLES, WITHOUT_SEED, Runs, condition_text
from extrap.records.settings import ONE_AMOUNT

COST_COLUMNS = split_words("loss_se noise_scale flops wall_s updates n_params seed_sd n_seeds")
"""Columns with a fixed meaning that set nothing."""
MOST_KINDS = 30
"""Values of a column that may say of which kind a run is."""
MOST_VALUES_SHOWN, MOST_VALUE_CHARACTERS = 5, 40
"""Values of a column that an error shows, and characters of one."""


def refuse_mixtures(
    runs: Runs,
    *,
    ignored: Collection[str] = (),
    is_untuned: bool = False,
    part: str | None = None,
    rule: str = "",
) -> tuple[str, ...]:
    """Raise where runs differ in a setting that nobody named.

    Args:
        runs: A sweep.
        ignored: Columns that may vary.
        is_untuned: Whether tuned columns were left out on purpose.
        part: Argument that names such columns, if they can play no part of a sweep.
        rule: What is asked of the runs, and what they are called.

    Returns:
        Columns in which runs of one size and tuned values differ all the same.

    Raises:
        DataError: One does; the error lists its values with what would select them.
    """
    frame = runs.to_frame()
    frame = frame[frame["status"].ne("failed")]
    if len(frame) < 2:
        return ()
    have = [str(c) for c in frame.columns]
    accounted_for = {*runs.sizes, *runs.tuned, *runs.conditions, *PLAYED, *COST_COLUMNS}
    names = [
        c for c in have if c not in accounted_for and may_set(c) and not _holds_roles(frame[c])
    ]
    sweep = _Sweep(frame, runs)
    if is_untuned:
        names = [
            c for c in names if not (known_name(c) in NAMES_OF_PART["tune"] and sweep.is_tried(c))
        ]
    varying = {c: levels for c in names if (levels := sweep.varying(c))}
    pooled = [c for c in varying if {c, display_name(c, have)} & set(ignored)]
    pooled += [c for c in varying if c not in pooled and is_free_text(varying[c])]
    unsettled = {c: levels for c, levels in varying.items() if c not in pooled}
    if unsettled:
        named = {display_name(c, have): unsettled[c] for c in _enough(unsettled, sweep.sizes)}
        source, parts = runs.source or "the sweep", _parts(named, runs, sweep)
        rule = rule or f"a forecast is for one recipe, {source}"
        if part:
            rule = f"only settings that are named may vary within a recipe, {source}"
            parts = [Choice({part: name}, "to rank it too") for name in named]
        raise mixture(named, parts, rule)
    return tuple(display_name(c, have) for c in pooled)


def may_set(column: str) -> bool:
    """Whether a column may be a setting, by its name; one that names groups may."""
    if is_measured(column) or MEASURED.match(column):
        return False
    return is_identity(column) or not is_bookkeeping(column)


def _holds_roles(column: pd.Series) -> bool:
    """Whether a column says why a study trained its larger runs, which sets nothing."""
    is_role = column.isin(ROLES) | column.isna() | is_empty(column)
    return column.name == "role" and bool(is_role.all())


def is_free_text(levels: Levels) -> bool:
    """Whether it is text that differs in most rows."""
    return levels.numbers is None and len(levels) > len(levels.codes) / 2


def _is_count(levels: Levels) -> bool:
    """Whether it counts from 0 or 1, as seeds do."""
    numbers = levels.numbers
    return numbers is not None and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())


class _Sweep:
    """The runs with a result, by size and by cell."""

    def __init__(self, frame: pd.DataFrame, runs: Runs) -> None:
        self.frame = frame
        played = {name: levels_of(frame[name]) for name in (*runs.sizes, *runs.tuned)}
        self.tuned = [played[name] for name in runs.tuned]
        self.axes = [played[name] for name in runs.sizes]
        self.sizes = joint(*(axis.codes for axis in self.axes))
        self.cells = joint(*(levels.codes for levels in played.values()))
        n_alike = pd.Series(self.cells).groupby(self.cells).transform("size")
        self.is_repeated = bool(n_alike.gt(1).mean() >= 0.5)
        """Whether most runs have others at their size and tuned values."""

    def varying(self, column: str) -> Levels | None:
        """The values of a column that is a setting and varies; None of any other."""
        levels = levels_of(self.frame[column])
        if len(levels) < 2 or (is_identity(column) and len(levels) > MOST_KINDS):
            return None
        if levels.depends_on(self.sizes):
            return levels if is_recipe(column) and self._is_interleaved(levels) else None
        if levels.numbers is not None and self._is_one_amount(levels):
            return None
        if levels.depends_on(self.cells):
            if is_recipe(column) and levels.numbers is None:
                return levels  # each optimizer has its own rates
            follows = any(levels.follows(tuned, self.sizes) for tuned in self.tuned)
            return None if self.is_repeated or follows else levels
        return None if not is_recipe(column) and self._is_seed(levels) else levels

    def is_tried(self, column: str) -> bool:
        """Whether it looks tuned: several values within most sizes."""
        return tried_share(levels_of(self.frame[column]), self.sizes, TRIED) >= 0.5

    def counts(self, levels: Levels) -> bool:
        """Whether it tells the runs of each cell apart, where no column is called a seed."""
        is_seedless = self.frame["seed"].astype(str).str.startswith(WITHOUT_SEED).all()
        if not (is_seedless and _is_count(levels)):
            return False
        pairs = joint(self.cells, levels.codes)
        return len(pd.unique(pairs)) == len(pairs) > len(levels)

    def _is_seed(self, levels: Levels) -> bool:
        """Whether it counts the seeds: each has its own value."""
        if not _is_count(levels):
            return False
        seeds = levels_of(self.frame["seed"])
        return levels.depends_on(seeds.codes) and seeds.depends_on(levels.codes)

    def _is_interleaved(self, levels: Levels) -> bool:
        """Whether words alternate along the sizes: each size has one, neighbours another."""
        if levels.numbers is not None:
            return False
        for axis in self.axes:
            along = pd.Series(levels.codes).groupby(axis.codes).first()
            if (along.diff().fillna(0) != 0).sum() < len(levels):  # one block for each word
                return False
        return True

    def _is_one_amount(self, levels: Levels) -> bool:
        """Whether its numbers hardly differ within a size."""
        numbers = levels.numbers
        assert numbers is not None
        if not levels.is_positive:
            return False
        by_size = pd.Series(numbers[levels.codes], dtype=float).where(levels.codes >= 0)
        by_size = by_size.groupby(self.sizes)
        return bool((by_size.max() / by_size.min()).dropna().lt(ONE_AMOUNT).all())


def _enough(varying: Mapping[str, Levels], sizes: Codes) -> list[str]:
    """The column, or few, from which all the others follow at each size."""

    def follows(column: str, others: Sequence[str]) -> bool:
        codes = [varying[c].codes for c in others]
        is_by_size = varying[column].depends_on(sizes)
        return varying[column].depends_on(joint(*([] if is_by_size else [sizes]), *codes))

    for name in sorted(varying, key=lambda c: (len(varying[c]), not is_recipe(c), len(c))):
        if all(follows(column, [name]) for column in varying):
            return [name]
    chosen: list[str] = []
    for name in sorted(varying, key=lambda c: (not is_recipe(c), -len(varying[c]), len(c))):
        if not chosen or not follows(name, chosen):
            chosen.append(name)
    return chosen


def _parts(varying: Mapping[str, Levels], runs: Runs, sweep: _Sweep) -> list[Choice]:
    """The parts that what varies may play: tuned, a seed, a size."""
    choices = []
    for name, levels in varying.items():
        if log := from_logarithm(name):
            is_size = known_name(log[0]) in (*NAMES_OF_PART["size"], *NAMES_OF_PART["data"])
            part, there = ("size", runs.sizes) if is_size else ("tune", runs.tuned)
            choices.append(Choice({"let": log[1], part: [*there, log[0]]}))
            if not re.search(r"(?i)ln|lg|\d", name) and "exp(" in log[1]:
                of_ten = log[1].replace("exp(", "10 ** (")
                choices.append(Choice({"let": of_ten, part: [*there, log[0]]}, "to base 10"))
            continue
        if sweep.counts(levels):
            choices.append(Choice({"seed": name}, "as the seed"))
        canonical = known_name(name)
        if levels.is_positive and len(levels) >= (2 if canonical in RATE_NAMES else TRIED):
            if canonical not in (
                *NAMES_OF_PART["size"],
                *NAMES_OF_PART["data"],
            ) and not COUNT_PATTERN.search(name):
                choices.append(Choice({"tune": [*runs.tuned, name]}, "as a tuned column"))
            if canonical not in NAMES_OF_PART["tune"] and not RATE_PATTERN.search(canonical):
                choices.append(Choice({"size": [*runs.sizes, name]}, "as a size"))
    return choices


def mixture(varying: Mapping[str, Levels], parts: Sequence[Choice], what: str) -> DataError:
    """The error that names what varies and the ways to settle it.

    These are the parts that the columns may play, one of their values, and that they are ignored.
    """
    names, choices = list(varying), [*parts]
    cells = joint(*(levels.codes for levels in varying.values()))
    counts = pd.Series(cells[cells >= 0]).value_counts()
    is_listed = len(counts) <= len(cells) / 2
    for cell in counts.index[:MOST_CHOICES_OFFERED] if is_listed else ():  # the commonest first
        row = int(np.flatnonzero(cells == cell)[0])
        values = {n: condition_text(v.labels[v.codes[row]]) for n, v in varying.items()}
        choices.append(Choice({"where": values}, f"{counts[cell]} runs"))
    choices.append(Choice({"ignore": names}, "if it does not matter"))
    mixed = "; ".join(
        f"{name} {', '.join(_cut(condition_text(v)) for v in levels.labels[:MOST_VALUES_SHOWN])}"
        f"{' …' if len(levels) > MOST_VALUES_SHOWN else ''}"
        for name, levels in varying.items()
    )
    more = len(counts) - MOST_CHOICES_OFFERED if is_listed else 0
    left = f" ({more} more combinations are not listed)" if more > 0 else ""
    return DataError(f"{what} mixes several ({mixed}); choose one{left}:", choices)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_VALUE_CHARACTERS else f"{text[:MOST_VALUE_CHARACTERS]}…"
