"""From a table of runs to the moves of each knob."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.records.knobs import octaves_from


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """The runs of one knob, itself moved and everything else at its fixed value.

    Attributes:
        name: The knob.
        base: Its fixed value.
        other: The other level of a knob that has only two; None where it has more.
        frame: One row per run: `size`, `seed`, `octaves` (from the base; 0 and 1 where there are
            two levels) and `log_loss`, NaN without a loss.
    """

    name: str
    base: float | str
    other: float | str | None
    frame: pd.DataFrame


def read_moves(
    frame: pd.DataFrame, *, column: str, knobs: Mapping[str, float | str | None]
) -> tuple[Moves, ...]:
    """The moves of each knob, from a table of runs in which one knob is moved at a time.

    A run belongs to a knob if all others are at their fixed values; the runs in which nothing is
    moved belong to all. Other columns, such as a learning rate tuned at each size, may vary from
    size to size as they like.

    Args:
        frame: One row per run, with the size, the knobs, `seed`, `loss` and perhaps `status`.
        column: The size column.
        knobs: Knob → fixed value; None for the commonest one.

    Raises:
        DataError: A column is missing, a knob has no commonest value or never is at it, a value
            has no octaves, or one seed has two runs of one setting.
    """
    missing = [name for name in (column, *knobs, "loss", "seed") if name not in frame]
    if missing:
        raise DataError(f"knobs need the column(s) {missing}; the table has {list(frame)}.")
    frame = frame.assign(**{name: _numbers_or_text(frame[name]) for name in knobs})
    bases = {n: _commonest(frame[n]) if base is None else base for n, base in knobs.items()}
    at_base = pd.DataFrame({name: _equal(frame[name], base) for name, base in bases.items()})
    for name, base in bases.items():
        if not at_base[name].any():
            raise DataError(
                f"no run has the fixed {name} {base}; give the value that most runs have."
            )
    return tuple(
        _moves(frame[at_base.drop(columns=name).all(axis=1)], column, name, base)
        for name, base in bases.items()
    )


def _moves(rows: pd.DataFrame, column: str, name: str, base: float | str) -> Moves:
    levels = [value for value in rows[name].unique() if not _same(value, base)]
    others = [v if isinstance(v, str) else float(v) for v in levels]
    if any(isinstance(v, str) for v in (base, *others)) and len(others) > 1:
        raise DataError(f"{name} is text and must have two levels at most, got {[base, *others]}.")
    is_choice = len(others) == 1
    octaves = [
        0.0 if _same(value, base) else 1.0 if is_choice else _octaves(name, base, value)
        for value in rows[name]
    ]
    loss = rows["loss"].astype(float)
    if "status" in rows:
        loss = loss.where(rows["status"].eq("complete"))
    found = pd.DataFrame(
        {
            "size": rows[column].astype(float),
            "seed": rows["seed"].astype(str),
            "octaves": octaves,
            "log_loss": np.log(loss.where(np.isfinite(loss) & (loss > 0))),
        }
    ).reset_index(drop=True)
    twice = found.duplicated(["size", "seed", "octaves"])
    if twice.any():
        row = found[twice].iloc[0]
        raise DataError(
            f"each setting of {name} must have one run per seed, seed {row['seed']} has "
            f"two at {column} {row['size']:g}; name any other setting that was changed, "
            "or leave those runs out."
        )
    return Moves(name=name, base=base, other=others[0] if is_choice else None, frame=found)


def _octaves(name: str, base: float | str, value: float) -> float:
    try:
        return octaves_from(name, float(base), float(value))
    except (ValueError, ZeroDivisionError):
        raise DataError(
            f"{name} is doubled and halved, so its values must be positive (β and momentum "
            f"below 1), got {value:g} beside {base}; leave it out or choose another fixed "
            "value."
        ) from None


def _numbers_or_text(values: pd.Series) -> pd.Series:
    """A column as numbers if it holds nothing else; tables are read as text."""
    numbers = pd.to_numeric(values, errors="coerce")
    return values.astype(str) if numbers.isna().any() else numbers.astype(float)


def _commonest(values: pd.Series) -> float | str:
    counts = values.value_counts()
    if len(counts) > 1 and counts.iloc[0] == counts.iloc[1]:
        raise DataError(
            f"{values.name} has no most common value, {counts.index[0]} and "
            f"{counts.index[1]} occur equally often; give the fixed one: "
            f"{values.name}=VALUE."
        )
    first = counts.index[0]
    return first if isinstance(first, str) else float(first)


def _equal(values: pd.Series, base: float | str) -> pd.Series:
    return values.map(lambda value: _same(value, base))


def _same(value: object, base: float | str) -> bool:
    if isinstance(value, str) or isinstance(base, str):
        return str(value) == str(base)
    return math.isclose(float(value), base, rel_tol=1e-9)  # type: ignore[arg-type]
