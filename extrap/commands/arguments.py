"""Sizes and named numbers, as they are written on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from extrap.records import SizePath

path_option = click.option(
    "--path",
    multiple=True,
    metavar="NAME=FORMULA",
    help="Formula of a size column, e.g. 'n_params = 12 * depth * (64 * depth)**2', so that "
    "--at depth=34 works (repeatable).",
)


def parse_path(texts: Sequence[str]) -> SizePath | None:
    """`n_params = 12 * depth**3` each, as the path of the sizes."""
    from extrap.records import SizePath

    return SizePath.parse(texts)


def parse_assignments(texts: Sequence[str], *, option: str, example: str) -> dict[str, float]:
    """`E=1.6`, `lr.b=-0.5` as name → value."""
    numbers: dict[str, float] = {}
    for text in texts:
        name, found, value = (part.strip() for part in text.partition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (name and found and math.isfinite(number)):
            raise click.UsageError(
                f"{option} sets one name to a number, as in {example}; got {text!r}."
            )
        if name in numbers:
            raise click.UsageError(f"{option} {name} was given twice; a name has one value.")
        numbers[name] = number
    return numbers


def parse_tuned(names: Sequence[str]) -> tuple[str, ...] | None:
    """Tuned columns; `none` is no column, and nothing at all is what the source knows."""
    if "none" in names and len(names) > 1:
        raise click.UsageError(
            f"--tune none is the loss law alone, got {', '.join(names)}; leave one of them out."
        )
    return None if not names else () if tuple(names) == ("none",) else tuple(names)


TIMES = re.compile(r"(\d+\.?\d*|\.\d+)\s*[xX×]")
"""A multiple of the largest swept size."""
UNITS = {"k": "e3", "K": "e3", "M": "e6", "B": "e9", "T": "e12"}
"""Suffix of a number, as the output has it → its power of ten."""


def parse_size(
    text: str, columns: Sequence[str], *, largest: Mapping[str, float] | None = None
) -> dict[str, float]:
    """`4096`, `8x`, `1.5M`, `width=4096` or `params=1e9,tokens=2x` as size column → value.

    Args:
        text: The size.
        columns: The names that a size is given by.
        largest: Size column → its largest swept value, where there is a sweep.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if largest and len(parts) == 1 and TIMES.fullmatch(parts[0]):
        parts = [f"{column}={parts[0]}" for column in largest]
    elif len(columns) == 1 and len(parts) == 1 and "=" not in parts[0]:
        parts = [f"{columns[0]}={parts[0]}"]
    size: dict[str, float] = {}
    for part in parts:
        name, found, value = (each.strip() for each in part.partition("="))
        if not found:
            raise click.UsageError(
                f"--at names each size: {','.join(f'{c}=…' for c in columns)}; got {text!r}; "
                "write one size without commas, as in 1024, or name each."
            )
        if name in size:
            raise click.UsageError(
                f"one --at is one size, {name} was given twice in {text!r}; write one --at for "
                "each size."
            )
        number = _number(value, (largest or {}).get(name))
        if number is None:
            raise click.UsageError(
                f"--at takes a number such as 4096 or 1.5M, or with a sweep 8x, got {value!r} for "
                f"{name}; write one of these."
            )
        size[name] = number
    return size


def _number(text: str, largest: float | None) -> float | None:
    """`4096`, `1.5M`, or `8x` of the largest; None for anything else."""
    if (times := TIMES.fullmatch(text)) is not None:
        return None if largest is None else float(times[1]) * largest
    try:
        return float(text[:-1] + UNITS.get(text[-1:], text[-1:]))
    except ValueError:
        return None
