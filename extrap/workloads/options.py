"""What a user chooses for a workload, checked: its options, its size columns, a name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


def read_options(workload: str, kind: type[T], given: Mapping[str, object]) -> T:
    """Fill a dataclass of options, all of which have defaults of type `str`, `int` or `float`.

    Text may not be empty. Whole numbers are above 0, or not below it where the default is 0. Real
    ones are finite and not below 0.

    Raises:
        ValueError: A name is unknown, or a value is impossible.
    """
    known = fields(cast(Any, kind))
    for name in given:
        require_known(f"option of {workload}", name, [option.name for option in known])
    values = {
        option.name: _checked(workload, option.name, given.get(option.name, default), default)
        for option in known
        if isinstance(default := option.default, str | int | float)
    }
    return kind(**values)


def whole_sizes(
    workload: str, size: Mapping[str, float], columns: Mapping[str, int | None]
) -> dict[str, int]:
    """Every size column as a whole number.

    Raises:
        ValueError: A column is missing or unknown, or a value is no whole number above 0.
    """
    required = [column for column, default in columns.items() if default is None]
    fits = set(required) <= set(size) <= set(columns)
    if not fits or any(value < 1 or value != int(value) for value in size.values()):
        required = required or list(columns)[:1]
        optional = [column for column in columns if column not in required]
        also = f" (and optionally {', '.join(optional)})" if optional else ""
        raise ValueError(
            f"the sizes of {workload} must be whole numbers {', '.join(required)}{also}, got "
            f"{dict(size)}; write sizes={{'{required[0]}': (16, 32, 64)}}."
        )
    return {column: int(size.get(column, default or 0)) for column, default in columns.items()}


def require_known(kind: str, given: str, known: Iterable[str]) -> None:
    """Raise unless a name is one of the known ones.

    Raises:
        ValueError: The name is unknown; the message says the nearest one and lists all.
    """
    names = sorted(known)
    if given in names:
        return
    near = difflib.get_close_matches(given, names, n=1)
    hint = f"did you mean {near[0]!r}? There are: " if near else "choose one of "
    raise ValueError(f"unknown {kind} {given!r}; {hint}{', '.join(names)}.")


def _checked(workload: str, name: str, value: object, default: str | int | float) -> object:
    if isinstance(default, str):
        is_fine, rule = isinstance(value, str) and bool(value), "text"
    else:
        whole = isinstance(default, int)
        is_number = type(value) is int or (type(value) is float and not whole)
        number = float(value) if is_number else math.nan  # type: ignore[arg-type]
        may_be_zero = not whole or default == 0
        is_fine = math.isfinite(number) and (number > 0 or (number == 0 and may_be_zero))
        sign = "at least 0" if may_be_zero else "above 0"
        rule = f"a {'whole ' if whole else ''}number {sign}"
        value = number if is_fine and not whole else value
    if not is_fine:
        raise ValueError(f"{name} of {workload} must be {rule}, got {value!r}.")
    return value
