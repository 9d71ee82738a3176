"""What the runs of a sweep have in common at each size: tokens, steps, batch, decay, rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from extrap.reading.names import (
    BATCH_NAMES,
    DECAY_NAMES,
    RATE_NAMES,
    STEP_COUNT_NAMES,
    TOKEN_BATCH_NAMES,
    kind_of,
    kinds_of,
    known_name,
)
from extrap.records import Runs
from extrap.records.numbers import rounded
from extrap.records.settings import ONE_AMOUNT, Setting

AMOUNT_DIGITS = 9
"""Significant digits of an amount that are left after a logarithm and its inverse."""
ONE_POWER = 0.02
"""How near a power is to a whole one, as to 1 of tokens per parameter, that is taken for it."""


def settings_of(runs: Runs) -> tuple[Setting, ...]:
    """The settings that have one value at each size, of each role the likeliest column.

    A horizon that is a size of its own is none of them; steps are none beside tokens.

    Args:
        runs: The sweep.
    """
    frame = (runs.complete() if len(runs.complete()) else runs).to_frame()
    names = [str(c) for c in frame if c not in (*runs.sizes, *runs.tuned)]
    kinds = kinds_of([*runs.sizes, *names])
    candidates: dict[str, list[str]] = {
        "tokens": [c for c in names if kinds.get(c) in ("tokens", "examples")],
        "steps": _named(names, STEP_COUNT_NAMES),
        "batch": _named(names, (*TOKEN_BATCH_NAMES, *BATCH_NAMES)),
        "decay": _named(names, DECAY_NAMES),
        "rate": _named(names, RATE_NAMES),
        "width": [c for c in names if kinds.get(c) == "width"],
        "params": [c for c in names if kinds.get(c) == "params"],
    }
    of_sizes = {"tokens" if kinds.get(c) == "examples" else kinds.get(c) for c in runs.sizes}
    if of_sizes & {"tokens", "ratio"} or any(
        known_name(c) in STEP_COUNT_NAMES for c in runs.sizes
    ):
        candidates["tokens"] = candidates["steps"] = []
    settings = []
    for role, columns in candidates.items():
        of_role = (_setting(frame, runs.sizes, role, column) for column in columns)
        settings += [setting for setting in of_role if setting is not None][:1]
    return tuple(settings)


def names_horizon(horizon: Setting, column: str) -> bool:
    """Whether a name is that of a horizon, or means the same.

    Args:
        horizon: How long the runs of a sweep train.
        column: The name.
    """
    if column == horizon.column:
        return True
    if horizon.role == "tokens":
        return column == "D" or kind_of(column) == (kind_of(horizon.column) or "tokens")
    return known_name(column) in STEP_COUNT_NAMES


def _named(columns: Sequence[str], likeliest: Sequence[str]) -> list[str]:
    """The columns of these names, the likeliest first."""
    named = [c for c in columns if known_name(c) in likeliest]
    return sorted(named, key=lambda c: likeliest.index(known_name(c)))


def _setting(frame: pd.DataFrame, sizes: Sequence[str], role: str, column: str) -> Setting | None:
    """How a column follows the sizes; None where it has no value, of a horizon also of several."""
    values = pd.to_numeric(frame[column], errors="coerce")
    if role == "decay" and (values == 0).all():
        return Setting(role=role, column=column, amount=0.0)
    is_there = np.isfinite(values) & (values > 0)
    if not is_there.any():
        return None
    logs = np.log(values[is_there])
    by_size = logs.groupby([frame.loc[is_there, c].astype(float) for c in sizes])
    tolerance = math.log(ONE_AMOUNT)
    if (by_size.max() - by_size.min()).max() > tolerance:
        is_horizon = role in ("tokens", "steps")
        return None if is_horizon else Setting(role=role, column=column, amount=None)
    means = by_size.mean()
    y = means.to_numpy()
    if np.ptp(y) <= tolerance:
        return Setting(role=role, column=column, amount=_rounded(np.median(logs)))
    x = np.log(np.array([np.atleast_1d(key) for key in means.index], dtype=float))
    columns = [j for j in range(len(sizes)) if np.ptp(x[:, j]) > 0]
    parts = np.column_stack([np.ones(len(x)), x[:, columns]])
    powers = np.linalg.lstsq(parts, y, rcond=None)[0][1:]
    near = np.round(powers, 0)
    powers = np.where(np.abs(powers - near) <= ONE_POWER, near, powers)
    level = y - x[:, columns] @ powers
    if np.abs(level - np.median(level)).max() > tolerance or len(x) <= len(columns) + 1:
        return Setting(role=role, column=column, amount=None)
    return Setting(
        role=role,
        column=column,
        amount=_rounded(np.median(level)),
        powers={sizes[j]: float(p) for j, p in zip(columns, powers, strict=True) if p},
    )


def _rounded(log_amount: float) -> float:
    """From a logarithm: a whole number is one again."""
    return rounded(float(np.exp(log_amount)), AMOUNT_DIGITS)
