"""Rules of fields: annotations say what a field holds, and `fit_fields` checks it.

An annotation names the kind of a value and the rules that it obeys, as in `steps: Count` or
`n: Annotated[int, at_least(2)]`. Lists become tuples, mappings dictionaries of the record's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from numbers import Real
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from extrap.errors import argument, shown

ROUNDING = 1e-9
"""Relative tolerance for rounding in products and ratios of sizes, steps or fractions."""
SMALLEST_LOSS, LARGEST_LOSS = 1e-100, 1e100
"""Squares of losses beyond this are no finite floats."""


class Rule(NamedTuple):
    """What must hold of a value.

    Attributes:
        requirement: What follows "must" in a message.
        holds: Whether a value obeys.
        advice: What to do instead; by default the default of the field is named.
    """

    requirement: str
    holds: Callable[[Any], bool]
    advice: str = ""


def at_least(least: float) -> Rule:
    """Finite and not below a bound."""
    return Rule(f"be finite and at least {least:g}", lambda value: least <= value < math.inf)


def above(bound: float) -> Rule:
    """Finite and above a bound."""
    return Rule(f"be finite and above {bound:g}", lambda value: bound < value < math.inf)


def fewest(n: int, advice: str = "") -> Rule:
    """At least so many values."""
    return Rule(f"hold at least {n}", lambda values: len(values) >= n, advice)


def one_of(*choices: str) -> Rule:
    """One of a few words, where the value is text."""
    requirement = f"be one of {', '.join(filter(None, choices))}"
    return Rule(requirement, lambda value: not isinstance(value, str) or value in choices)


Count = Annotated[int, at_least(1)]
Positive = Annotated[float, above(0)]
Level = Annotated[float, Rule("lie in (0, 1)", lambda level: 0 < level < 1, "write 0.95 for 95 %")]
DISTINCT = Rule("be distinct", lambda values: len(set(values)) == len(values))
Seeds = Annotated[tuple[int, ...], fewest(1), DISTINCT]
Name = Annotated[
    str,
    Rule(
        "hold letters, digits, '-', '_' and '.', and not dots alone",
        lambda name: name.strip(".") != "" and all(c.isalnum() or c in "-_." for c in name),
        "it names a file, write 'my-study'",
    ),
]
"""Name of a study."""


def fit_fields(record: Any) -> None:
    """Check the fields of a new record by their annotations, and store them as `fitted` does."""
    for name, kind, advice in _fields(record.__class__):
        object.__setattr__(record, name, fitted(getattr(record, name), kind, name, advice))


@cache
def _fields(cls: Any) -> list[tuple[str, Any, str]]:
    """The name of each field, its annotation, and what messages recommend."""
    kinds, record_fields = get_type_hints(cls, include_extras=True), fields(cls)
    advice = {
        f.name: f"the default is {f.default!r}" for f in record_fields if f.default is not MISSING
    }
    return [(f.name, kinds[f.name], advice.get(f.name, "")) for f in record_fields]


def fitted(value: Any, kind: Any, path: str, advice: str = "") -> Any:
    """A value of the kind that an annotation says, which obeys its rules.

    A message calls it `path`, and recommends `advice` where no rule does.
    """
    kind, *rules = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    advice = next((rule.advice for rule in rules if rule.advice), advice)
    value = _of_kind(value, kind, path, advice)
    for rule in rules:
        require(rule.holds(value), f"{path} must {rule.requirement}", value, advice)
    return value


def _of_kind(value: Any, kind: Any, path: str, advice: str) -> Any:
    """A value of a kind without rules of its own; its parts may have some."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        for part in parts[1:]:
            with suppress(TypeError):
                return fitted(value, part, path, advice)
        return fitted(value, parts[0], path, advice)
    if origin in (tuple, Sequence):
        if isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
            return tuple(fitted(v, parts[0], f"{path}.{i}", advice) for i, v in enumerate(value))
    elif origin is Mapping:
        if isinstance(value, Mapping):
            keys = (fitted(key, parts[0], f"a key of {path}", advice) for key in value)
            return {key: fitted(value[key], parts[1], f"{path}.{key}", advice) for key in keys}
    elif isinstance(value, Real if origin in (int, float) else origin):
        return value
    raise TypeError(_sentence(f"{path} must be of type {origin.__name__}", value, advice))


def require(holds: bool, rule: str, value: object, advice: str = "") -> None:
    """Raise a `ValueError` unless a rule holds: the rule; what was given; what to do."""
    if not holds:
        raise ValueError(_sentence(rule, value, advice))


def require_positive(name: str, value: float, advice: str = "") -> None:
    """Raise a `ValueError` for a number that is not positive and finite."""
    require(0 < value < math.inf, f"{name} must be positive and finite", float(value), advice)


def require_level(level: float) -> None:
    """Raise a `ValueError` for a level of intervals outside (0, 1), a `TypeError` for text."""
    fitted(level, Level, argument("level"))


def _sentence(rule: str, value: object, advice: str) -> str:
    text = f"{value:g}" if isinstance(value, float) else shown(value)
    if isinstance(value, list | Mapping):
        text = ", ".join(map(str, value)) or "none"
    return f"{rule}, got {text}{advice and f'; {advice}'}."
