"""Assignments such as `recipe.steps=100`, applied to a study of any kind."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

from extrap.records.study import StudySpec, Workload

Record = TypeVar("Record")
ANY_NUMBER = {"sizes", "targets", "target", "at"}
"""Fields that hold numbers of either kind, whole or not, whatever stands there now."""


def override(spec: Record, assignments: Iterable[str]) -> Record:
    """A study with some fields replaced.

    What is no field of the study itself, but holds sweeps, is replaced in each of its sweeps.

    Args:
        spec: The study: a record of any kind, of records.
        assignments: `path=value` each; the path walks fields by name, sequences by position,
            mappings by their keys, numbers among them, and the workload's options directly
            (`workload.corpus=DIR`). Sequences are separated by commas; nothing after the `=`
            empties a sequence or a mapping. Example: `recipe.steps=100`, `sizes.width=16,32,64`,
            `tune.lr.n=7`, `tasks.0.steps.16=100`.

    Raises:
        ValueError: An assignment has no `=`, names no field (the nearest is named), or its value
            is of the wrong kind.
    """
    names = [f.name for f in fields(spec)] if is_dataclass(spec) else []
    found = [_parted(assignment) for assignment in assignments]
    # the study's own first: its sweeps are checked against them
    for keys, text in sorted(found, key=lambda each: each[0][0] not in names):
        change = partial(_assign, keys=keys, text=text, path=".".join(keys))
        changed = spec if keys[0] in names else _in_sweeps(spec, change)
        spec = change(spec) if changed is spec else changed
    return spec


def _parted(assignment: str) -> tuple[list[str], str]:
    """The keys and the text of an assignment."""
    path, found, text = assignment.partition("=")
    if not found or not path.strip():
        raise ValueError(f"an override has the form key=value, got {assignment!r}.")
    return path.strip().split("."), text.strip()


def _in_sweeps(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with every sweep in it changed; the same object if it holds none."""
    if isinstance(node, StudySpec):
        return change(node)
    if is_dataclass(node) and not isinstance(node, type):
        old: dict[Any, Any] = {f.name: getattr(node, f.name) for f in fields(node)}
    elif isinstance(node, Mapping | tuple):
        old = dict(node if isinstance(node, Mapping) else enumerate(node))
    else:
        return node
    new = {key: _in_sweeps(value, change) for key, value in old.items()}
    if all(new[key] is old[key] for key in old):
        return node
    if isinstance(node, Mapping):
        return new
    return tuple(new.values()) if isinstance(node, tuple) else replace(node, **new)


def _assign(node: Any, keys: list[str], text: str, path: str) -> Any:
    """The node with the field at `keys` replaced."""
    if not keys:
        return _parse(text, node, path)
    key, rest = keys[0], keys[1:]
    if is_dataclass(node) and not isinstance(node, type):
        names = [f.name for f in fields(node)]
        if key not in names and isinstance(node, Workload):  # a workload's option, by its own name
            value = _assign(node.options.get(key), rest, text, path)
            return replace(node, options={**node.options, key: value})
        _require_key(key, names, path)
        return replace(node, **{key: _assign(getattr(node, key), rest, text, path)})
    if isinstance(node, Mapping):
        own = {str(k): k for k in node}
        _require_key(key, list(own), path)
        return {**node, own[key]: _assign(node[own[key]], rest, text, path)}
    if isinstance(node, tuple):
        _require_key(key, [str(i) for i in range(len(node))], path)
        items = list(node)
        items[int(key)] = _assign(items[int(key)], rest, text, path)
        return tuple(items)
    raise ValueError(f"{path} is too long: nothing lies below {key!r}; shorten it.")


def _require_key(key: str, names: list[str], path: str) -> None:
    if key in names:
        return
    near = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}."
    raise ValueError(f"{path} does not exist in the study: no {key!r}; {hint}")


def _parse(text: str, old: Any, path: str) -> Any:
    """Text as the kind of value it replaces; where there is none, as what it looks like."""
    if isinstance(old, tuple):
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if any(is_dataclass(item) for item in old) and parts:
            raise ValueError(
                f"{path} holds records; override one of their fields: {path}.0.FIELD=…."
            )
        return tuple(_parse_one(part, old[0] if old else None, path) for part in parts)
    if isinstance(old, Mapping) and not text:
        return {}
    if is_dataclass(old) or isinstance(old, Mapping):
        raise ValueError(f"{path} has fields of its own; override one of them: {path}.FIELD=….")
    return _parse_one(text, old, path)


def _parse_one(text: str, old: Any, path: str) -> Any:
    if isinstance(old, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{path} must be true or false, got {text!r}.")
    if isinstance(old, str):
        return text
    try:
        number = float(text)
    except ValueError:
        if old is None:
            return {"true": True, "false": False}.get(text.lower(), text)
        raise ValueError(f"{path} must be a number, got {text!r}.") from None
    if isinstance(old, float):
        return number
    if number.is_integer():
        return int(number)
    if isinstance(old, int) and not ANY_NUMBER & set(path.split(".")):
        raise ValueError(f"{path} must be a whole number, got {text!r}.")
    return number
