"""Whether the fields of a record hold what their annotations say: for records read from files."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from numbers import Real
from typing import Any

from extrap.errors import argument

SMALLEST_LOSS, LARGEST_LOSS = 1e-100, 1e100
"""Squares of losses beyond this are no finite floats."""


def require_fields(record: Any) -> None:
    """Raise a `TypeError` for a field, however deep, that holds another kind of value.

    A number is finite; where a float is asked for, a whole number will do. Fields that are
    annotated with anything but numbers, text, tuples, mappings and records are passed over.
    """
    for name, hint in _hints(type(record)).items():  # type: ignore[arg-type]
        if not _fits(getattr(record, name), hint):
            value = repr(getattr(record, name))
            raise TypeError(
                f"{name} of {type(record).__name__} must be a {hint}, got {value[:60]}"
            )


def require_level(level: float) -> None:
    """Raise a `ValueError` for a level of intervals outside (0, 1), a `TypeError` for text."""
    if not isinstance(level, Real):
        raise TypeError(f"{argument('level')} is a number in (0, 1), got {level!r}; write 0.95.")
    if not 0 < level < 1:
        meant = level / 100 if 1 < level < 100 else 0.95
        raise ValueError(
            f"{argument('level')} must lie in (0, 1), got {level:g}; write {meant:g} for "
            f"{100 * meant:g} %."
        )


def require_name(name: str) -> None:
    """Raise a `ValueError` for a study's name that is no name of a file beside others."""
    if not name.strip(".") or not all(c.isalnum() or c in "-_." for c in name):
        raise ValueError(
            "a study's name may hold letters, digits, '-', '_' and '.', and not dots alone, "
            f"got {name!r}; it names a file, write 'my-study'."
        )


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return _fits_tuple(value, parts)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(k, parts[0]) and _fits(v, parts[1]) for k, v in value.items()
        )
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) < math.inf
    if hint in (int, bool, str, type(None)):
        return type(value) is hint
    if isinstance(hint, type) and is_dataclass(hint):
        if isinstance(value, hint):
            require_fields(value)
        return isinstance(value, hint)
    if isinstance(hint, type) and issubclass(hint, tuple):  # an interval, which names its sides
        is_whole = isinstance(value, hint)
        return is_whole and all(map(_fits, value, _hints(hint).values()))
    return True


def _fits_tuple(value: Any, parts: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if parts[1:] == (...,):
        return all(_fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(_fits, value, parts))
