"""What a user chooses for a workload, checked: its options, its size columns, a name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from extrap.errors import nearest

T = TypeVar("T")


def read_options(workload: str, kind: type[T], options: Mapping[str, object]) -> T:
    """Fill a dataclass of options, all of which have defaults of type `str`, `int` or `float`.

    Text may not be empty. Whole numbers are above 0, or not below it where the default is 0. Real
    ones are finite and not below 0.
    """
    defaults = {option.name: option.default for option in fields(cast(Any, kind))}
    for name in options:
        require_known(f"option of {workload}", name, defaults)
    values: dict[str, Any] = {**defaults, **options}
    for name, value in values.items():
        default = defaults[name]
        if isinstance(default, str):
            is_fine, rule = isinstance(value, str) and value != "", "text"
        else:
            whole = isinstance(default, int)
            least = 1 if whole and default else 0
            is_number = type(value) is int or (type(value) is float and not whole)
            is_fine = is_number and least <= value < math.inf
            rule = f"a {'whole ' if whole else ''}number of at least {least}"
            values[name] = value if whole or not is_fine else float(value)
        if not is_fine:
            raise ValueError(f"{name} of {workload} must be {rule}, got {value!r}.")
    return kind(**values)


def whole_sizes(
    workload: str, size: Mapping[str, float], columns: Mapping[str, int | None]
) -> dict[str, int]:
    """Every size column as a whole number; those that have a default may be missing."""
    required = {column for column, default in columns.items() if default is None}
    is_complete = required <= set(size) <= set(columns)
    if not is_complete or any(value < 1 or value != int(value) for value in size.values()):
        raise ValueError(
            f"the sizes of {workload} must be whole numbers, {', '.join(required) or 'none'} and "
            f"at most {', '.join(columns)}, got {dict(size)}; write sizes={{'width': (16, 32)}}."
        )
    return {column: int(size.get(column, default or 0)) for column, default in columns.items()}


def require_known(kind: str, name: str, choices: Iterable[str]) -> None:
    """Raise unless a name is one of the known ones; say the nearest one and list all."""
    names = sorted(choices)
    if name not in names:
        near = nearest(name, names)
        hint = f"{near} There are: " if near else "choose one of "
        raise ValueError(f"unknown {kind} {name!r}; {hint}{', '.join(names)}.")
