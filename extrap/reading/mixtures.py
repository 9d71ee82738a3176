"""Runs that differ in a setting which is neither a size nor tuned: two sweeps in one table.

| column | is a condition that varies |
|---|---|
| called as a setting is | where runs of one size and tuned values differ in it |
| called as a setting is, no values tried twice | where it has few values within a size |
| called as a setting is, and words | where it alternates along the sizes |
| of any other name | where both of its values were tried in most cells, and the loss differs |
| what times or places a run; a metric; what follows from size and tuned values | never |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError, argument
from extrap.reading.columns import MOST_COMPARED, MOST_NAME, display_name
from extrap.reading.inference import ONE_AMOUNT, TRIED, is_tried
from extrap.reading.levels import Codes, Levels, joint, levels_of
from extrap.reading.names import (
    MEASURED,
    WORDS,
    is_bookkeeping,
    is_identity,
    is_measured,
    is_recipe,
    known_name,
)
from extrap.records import Runs, condition_text

PLAYED = ("loss", "seed", "status", "stage")
COUNTED = ("loss_se", "noise_scale", "flops", "wall_s", "updates", "n_params")
"""Columns with a fixed meaning that set nothing."""
MOST_CHOICES, MOST_SHOWN, MOST_WORD = 6, 5, 40
MOST = 0.5
"""Share of the cells that a value must have been tried in, to be crossed with them."""
SURE = 4.0
"""Standard errors of a difference that is not chance."""


def refuse_mixtures(runs: Runs, *, pooled: Collection[str] = (), is_untuned: bool = False) -> None:
    """Raise where runs differ in a setting that nobody named.

    Args:
        runs: A sweep.
        pooled: Columns that may vary.
        is_untuned: Whether tuned columns were left out on purpose.

    Raises:
        DataError: One does; the error lists its values with what would select them.
    """
    frame = runs.to_frame()
    frame = frame[frame["status"].ne("failed")]
    if len(frame) < 2:
        return
    have = [str(c) for c in frame.columns]
    known = {*runs.sizes, *runs.tuned, *runs.conditions, *PLAYED, *COUNTED}
    names = [c for c in have if len(c) <= MOST_NAME and c not in known and _may_set(c)]
    names = [c for c in names if not {c, display_name(c, have)} & set(pooled)]
    sweep = _Sweep(frame, runs)
    if is_untuned:
        names = [c for c in names if known_name(c) not in WORDS["tune"] or not sweep.is_tried(c)]
    varying = {c: levels for c in names[:MOST_COMPARED] if (levels := sweep.varying(c))}
    if not varying:
        return
    kept = _enough(varying, sweep.sizes)
    raise _error({display_name(c, have): varying[c] for c in kept}, frame, runs)


def _may_set(column: str) -> bool:
    """Whether a column may be a setting, by its name; one that names groups may."""
    if is_measured(column) or MEASURED.match(column):
        return False
    return is_identity(column) or not is_bookkeeping(column)


class _Sweep:
    """The runs with a result, by size and by cell."""

    def __init__(self, frame: pd.DataFrame, runs: Runs) -> None:
        self.frame = frame
        played = {name: levels_of(frame[name]) for name in (*runs.sizes, *runs.tuned)}
        self.tuned = [played[name] for name in runs.tuned]
        self.axes = [played[name] for name in runs.sizes]
        self.sizes = joint(*(axis.codes for axis in self.axes))
        self.cells = joint(*(levels.codes for levels in played.values()))

    def varying(self, column: str) -> Levels | None:
        """The values of a column that is a condition and varies; None of any other."""
        levels = levels_of(self.frame[column])
        n_rows = len(levels.codes)
        if len(levels) < 2 or len(levels) > n_rows / 2:
            return None
        if levels.depends_on(self.sizes):
            return levels if is_recipe(column) and self._is_interleaved(levels) else None
        if self._is_seed(levels):
            return None
        if not self._is_spread(levels):
            return None
        if levels.numbers is not None and self._is_one_amount(levels):
            return None
        if is_recipe(column):
            is_varying = self._is_mixed(levels)
        else:
            is_varying = self._is_crossed(levels) and self._is_significant(levels)
        return levels if is_varying else None

    def _is_seed(self, levels: Levels) -> bool:
        """Whether it is the seed under another name."""
        seeds = levels_of(self.frame["seed"])
        return levels.depends_on(seeds.codes) and seeds.depends_on(levels.codes)

    def is_tried(self, column: str) -> bool:
        """Whether it looks tuned: several values within most sizes."""
        return is_tried(levels_of(self.frame[column]), self.sizes)

    def _is_spread(self, levels: Levels) -> bool:
        """Whether one of its values was tried at several sizes: choosing it leaves a sweep."""
        return bool(self._n_sizes(levels).max() >= min(TRIED, len(pd.unique(self.sizes))))

    def _is_interleaved(self, levels: Levels) -> bool:
        """Whether words alternate along the sizes: each size has one, neighbours another."""
        if levels.numbers is not None or self._n_sizes(levels).ge(TRIED).sum() < 2:
            return False
        everything = np.zeros_like(self.sizes)
        return not any(levels.blocks(size, everything) for size in self.axes)

    def _n_sizes(self, levels: Levels) -> pd.Series:
        """At how many sizes each value was tried."""
        pairs = pd.DataFrame({"size": self.sizes, "value": levels.codes}).drop_duplicates()
        return pairs.loc[pairs["value"] >= 0, "value"].value_counts()

    def _is_one_amount(self, levels: Levels) -> bool:
        """Whether its numbers hardly differ within a size."""
        numbers = levels.numbers
        assert numbers is not None
        if not levels.is_positive:
            return False
        by_size = pd.Series(numbers[levels.codes], dtype=float).where(levels.codes >= 0)
        by_size = by_size.groupby(self.sizes)
        return bool((by_size.max() / by_size.min()).dropna().lt(ONE_AMOUNT).all())

    def _is_mixed(self, levels: Levels) -> bool:
        """Whether runs that should be alike differ in it, or it follows from nothing."""
        if not levels.depends_on(self.cells):
            return True
        if any(levels.blocks(tuned, self.sizes) for tuned in self.tuned):
            return False
        few = joint(self.sizes, levels.codes)
        usual = np.median(np.bincount(few[few >= 0]))
        return bool(self.tuned) and bool(usual >= TRIED)

    def _is_crossed(self, levels: Levels) -> bool:
        """Whether its two commonest values were both tried in most cells."""
        n_cells = len(pd.unique(self.cells))
        pairs = pd.DataFrame({"cell": self.cells, "value": levels.codes}).drop_duplicates()
        tried = pairs.loc[pairs["value"] >= 0, "value"].value_counts()
        both = pairs[pairs["value"].isin(tried.index[:2])]["cell"].value_counts().eq(2).sum()
        return bool(both >= max(2, MOST * n_cells))

    def _is_significant(self, levels: Levels) -> bool:
        """Whether the loss within cells differs between its values, by the ratio of variances."""
        table = pd.DataFrame({"cell": self.cells, "value": levels.codes})
        table["loss"] = np.log(self.frame["loss"].to_numpy(dtype=float))
        table = table[(table["value"] >= 0) & table["loss"].notna()]
        table["loss"] -= table.groupby("cell")["loss"].transform("mean")
        between = table.groupby("value")["loss"].transform("mean")
        dof = table["value"].nunique() - 1
        left = len(table) - table["cell"].nunique() - dof
        if dof < 1 or left < TRIED:
            return False
        residual = float(((table["loss"] - between) ** 2).sum())
        return float((between**2).sum()) * left > SURE**2 * residual * dof


def _enough(varying: Mapping[str, Levels], sizes: Codes) -> list[str]:
    """The column, or few, from which all the others follow at each size."""

    def follows(column: str, others: Sequence[str]) -> bool:
        codes = [varying[c].codes for c in others]
        is_by_size = varying[column].depends_on(sizes)
        return varying[column].depends_on(joint(*([] if is_by_size else [sizes]), *codes))

    for name in sorted(varying, key=lambda c: (len(varying[c]), not is_recipe(c), len(c))):
        if all(follows(column, [name]) for column in varying):
            return [name]
    kept: list[str] = []
    for name in sorted(varying, key=lambda c: (not is_recipe(c), -len(varying[c]), len(c))):
        if not kept or not follows(name, kept):
            kept.append(name)
    return kept


def _error(varying: Mapping[str, Levels], frame: pd.DataFrame, runs: Runs) -> DataError:
    """What varies, and every combination of it that is there, the commonest first."""
    names = list(varying)
    cells = joint(*(levels.codes for levels in varying.values()))
    counts = pd.Series(cells[cells >= 0]).value_counts()
    choices = []
    for cell in counts.index[:MOST_CHOICES]:
        row = int(np.flatnonzero(cells == cell)[0])
        values = {n: condition_text(v.labels[v.codes[row]]) for n, v in varying.items()}
        choices.append(Choice({"where": values}, f"{counts[cell]} runs"))
    for name, levels in varying.items():
        part = next((p for p in ("tune", "size") if known_name(name) in WORDS[p]), None)
        if part and levels.is_positive and len(levels) >= TRIED:
            played = [*(runs.tuned if part == "tune" else runs.sizes), name]
            choices.append(
                Choice({part: played}, f"as a {'tuned column' if part == 'tune' else 'size'}")
            )
    mixed = "; ".join(
        f"{name} {', '.join(_cut(condition_text(v)) for v in levels.labels[:MOST_SHOWN])}"
        f"{' …' if len(levels) > MOST_SHOWN else ''}"
        for name, levels in varying.items()
    )
    pool = argument("where", dict.fromkeys(names, "*"))
    more = len(counts) - MOST_CHOICES
    left = f" ({more} more combinations are not listed)" if more > 0 else ""
    return DataError(
        f"a forecast is for one recipe, {runs.source or 'the sweep'} mixes several ({mixed}); "
        f"choose one{left}, or pool them with {pool}:",
        choices,
    )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_WORD else f"{text[:MOST_WORD]}…"
