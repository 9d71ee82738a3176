"""The options of a workload: a frozen dataclass, filled and checked from what a user gave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from extrap.workloads.choices import require_known

T = TypeVar("T")


def read_options(workload: str, kind: type[T], given: Mapping[str, object]) -> T:
    """Fill a dataclass of options, all of which have defaults of type `str`, `int` or `float`.

    Text may not be empty. Whole numbers are above 0, or not below it where the default is 0. Real
    ones are finite and not below 0.

    Args:
        workload: Its name, for the messages.
        kind: The dataclass.
        given: Option → value, as the user wrote them.

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
