"""Assignments such as `recipe.steps=100`, applied to a study of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from extrap.errors import nearest
from extrap.records.study import StudySpec, Workload

Record = TypeVar("Record")


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
    parted = [_parted(assignment) for assignment in assignments]
    # the study's own first: its sweeps are checked against them
    for keys, text in sorted(parted, key=lambda pair: pair[0][0] not in names):
        change = partial(_assign, keys=keys, text=text, path=".".join(keys))
        changed = spec if keys[0] in names else _in_sweeps(spec, change)
        spec = change(spec) if changed is spec else changed
    return spec


def _parted(assignment: str) -> tuple[list[str], str]:
    """The keys and the text of an assignment."""
    path, equals, text = assignment.partition("=")
    if not equals or not path.strip():
        raise ValueError(f"an override has the form key=value, got {assignment!r}.")
    return path.strip().split("."), text.strip()


def _in_sweeps(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with every sweep in it changed; the same object if it holds none."""
    if isinstance(node, StudySpec):
        return change(node)
    old = _parts(node)
    new = {key: _in_sweeps(part, change) for key, part in old.items()}
    return node if all(new[key] is old[key] for key in old) else _with(node, new)


def _assign(node: Any, keys: list[str], text: str, path: str, kind: Any = None) -> Any:
    """The node, of the kind that an annotation says, with the part at `keys` replaced."""
    if not keys:
        return _parse(text, kind, node, path)
    key, below = keys[0], keys[1:]
    parts, kinds = _parts(node), get_type_hints(type(node)) if is_dataclass(node) else {}
    if isinstance(node, Workload) and key not in parts:  # an option, by its own name
        options = {**node.options, key: node.options.get(key)}
        return replace(node, options=_assign(options, keys, text, path, kinds["options"]))
    if not isinstance(node, Mapping | tuple) and not kinds:
        raise ValueError(f"{path} is too long: nothing lies below {key!r}; shorten it.")
    by_name = {str(name): name for name in parts}
    if key not in by_name:
        hint = nearest(key, by_name) or f"there are {', '.join(by_name)}."
        raise ValueError(f"{path} does not exist in the study: no {key!r}; {hint}")
    part = by_name[key]
    kind = kinds[key] if kinds else get_args(kind)[isinstance(node, Mapping)]
    return _with(node, {**parts, part: _assign(parts[part], below, text, path, kind)})


def _parts(node: Any) -> dict[Any, Any]:
    """Field, key or position → value; nothing of what has no parts."""
    if is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in fields(node)}
    if isinstance(node, Mapping):
        return dict(node)
    return dict(enumerate(node)) if isinstance(node, tuple) else {}


def _with(node: Any, parts: dict[Any, Any]) -> Any:
    """The node with other values of its parts."""
    if isinstance(node, Mapping):
        return parts
    return tuple(parts.values()) if isinstance(node, tuple) else replace(node, **parts)


def _parse(text: str, kind: Any, old: Any, path: str) -> Any:
    """Text as the kind of value that an annotation says."""
    origin, kinds = get_origin(kind) or kind, get_args(kind) or (kind,)
    if origin is tuple and not (text and is_dataclass(kinds[0])):
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return tuple(_parse(part, kinds[0], None, path) for part in parts)
    if origin is Mapping and not text:
        return {}
    if origin in (tuple, Mapping) or is_dataclass(origin):
        below = f"{path}.0.FIELD" if origin is tuple else f"{path}.FIELD"
        raise ValueError(f"{path} has fields of its own; override one of them: {below}=….")
    if old is not None and type(old) in kinds:  # an option stays of the kind that it is
        kinds = (type(old),)
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    with suppress(ValueError):
        number = float(text)
        if int in kinds and number.is_integer():
            return int(number)
        if float in kinds:
            return number
    if str in kinds:
        return text
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    expected = " or ".join(names[allowed] for allowed in kinds if allowed in names)
    raise ValueError(f"{path} must be {expected}, got {text!r}.")
