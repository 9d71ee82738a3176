"""What is asked of recipes before they are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from extrap.errors import DataError, argument
from extrap.records import WITHOUT_SEED, Runs, condition_text
from extrap.records.fields import require_level

LOSSES = (1e-50, 1e50)
"""Losses beyond these are of a broken unit, and their squares and ratios beyond floats."""
MEASURED = ("loss", "status", "stage", "loss_se", "wall_s", "flops", "noise_scale")
"""Columns that may differ between runs of one size and seed without being tuned."""


def check_numbers(level: float, *, price: float | None, flops_per_second: float | None) -> None:
    """Refuse a level, a price or a speed that is none.

    Raises:
        ValueError: One is out of range.
    """
    require_level(level)
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise ValueError(
            f"price must be finite and at least 0, got {price:g}; leave it out if unknown."
        )
    if flops_per_second is not None and not (
        math.isfinite(flops_per_second) and flops_per_second > 0
    ):
        raise ValueError(
            f"{argument('flops_per_second')} must be finite and positive, got "
            f"{flops_per_second:g}; leave it out if unknown."
        )


def check_arms(arms: Mapping[str, Runs]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Refuse recipes that cannot be compared.

    Returns:
        Their names and their size columns.

    Raises:
        TypeError: An arm is no `Runs`.
        DataError: Fewer than two arms, different size columns, conditions or other columns that
            vary within a recipe, or losses beyond reason.
    """
    if len(arms) < 2:
        raise DataError(
            f"a comparison needs at least two recipes, got {len(arms)}; name the plain one first."
        )
    for name, runs in arms.items():
        if not isinstance(runs, Runs):
            raise TypeError(
                f"a recipe needs Runs, {name!r} is {type(runs).__name__}; use extrap.read_runs."
            )
    names = tuple(arms)
    columns = arms[names[0]].sizes
    for name in names[1:]:
        if arms[name].sizes != columns:
            raise DataError(
                f"recipes must have the same size columns, {names[0]!r} has "
                f"{', '.join(columns)} and {name!r} {', '.join(arms[name].sizes)}; read "
                "them with the same sizes."
            )
    for name, runs in arms.items():
        frame = runs.of_stage("tune").to_frame()
        _check_losses(name, frame)
        for condition in runs.conditions:
            values = sorted({condition_text(value) for value in frame[condition].unique()})
            if len(values) > 1:
                raise DataError(
                    f"the condition {condition} must not vary within a recipe, {name!r} has "
                    f"{', '.join(values[:4])}; split it into recipes, or keep one."
                )
        _check_undeclared(name, runs, frame)
    return names, columns


def _check_losses(name: str, frame: pd.DataFrame) -> None:
    losses = frame.loc[frame["status"].eq("complete"), "loss"].astype(float)
    wild = losses[~losses.between(*LOSSES)]
    if len(wild):
        raise DataError(
            f"losses must lie between {LOSSES[0]:g} and {LOSSES[1]:g}, {name!r} has "
            f"{wild.iloc[0]:g}; check the loss column or its unit."
        )


def _check_undeclared(name: str, runs: Runs, frame: pd.DataFrame) -> None:
    """Refuse a mixture: runs of one cell that differ in what nobody said is tuned."""
    cell = [*runs.sizes, *runs.tuned, "seed"]
    repeats = frame[frame.duplicated(cell, keep=False) & frame["status"].ne("failed")]
    others = [c for c in repeats if c not in {*cell, *runs.conditions, *MEASURED}]
    if repeats.empty or not others:
        return
    texts = repeats[others].map(condition_text)
    counts = texts.groupby([repeats[c] for c in cell], dropna=False).nunique()
    few = len(repeats) / 2  # what differs in almost every row measures a run, it does not set it
    varied = [c for c in others if (counts[c] > 1).any() and texts[c].nunique() <= few]
    if varied:
        raise DataError(
            "runs of one recipe, size and seed must differ in tuned columns only, several "
            f"of {name!r} differ in {', '.join(varied)}; name it with "
            f"{argument('tune', ...)}, or drop a column without effect."
        )


def without_copies(arms: Mapping[str, Runs]) -> tuple[dict[str, Runs], list[str]]:
    """Recipes whose copied rows count once, and notes that say so.

    Copies that have a seed are averaged with their original and change nothing; without one each
    would pass for a seed of its own.
    """
    found, notes = {}, []
    for name, runs in arms.items():
        notes += [f"{name}: {note}" for note in runs.notes if "copies of" in note]
        seeds = runs.to_frame()["seed"].map(str)
        kept = runs.without_copies() if seeds.str.startswith(WITHOUT_SEED).all() else runs
        n_left_out = len(runs) - len(kept)
        if n_left_out:
            notes.append(
                f"{name}: {n_left_out} run(s) without a seed repeat size, tuned values and "
                "loss of an earlier one; copies count once."
            )
        found[name] = kept
    return found, notes
