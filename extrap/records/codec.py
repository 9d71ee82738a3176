"""Records to JSON and back, for every result: fields by their names, `shape` where keys differ.

cattrs does the work: it handles plain frozen dataclasses both ways, refuses unknown keys, and
lets a type declare what differs. It is imported on first use.

Scripts depend on the keys: they are kept between versions, `schema_version` rises when one
changes, a number that is open, missing or not finite is `null`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from extrap.records.results import Fit, Interval

if TYPE_CHECKING:
    from cattrs import Converter

SCHEMA_VERSION = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How the JSON of a type differs from its fields."""

    kind: str = ""
    omit: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    inline: tuple[str, ...] = ()
    add: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


_SHAPES: dict[type, _Shape] = {}


def shape(
    cls: type,
    *,
    kind: str = "",
    omit: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    inline: Sequence[str] = (),
    add: Mapping[str, Callable[[Any], Any]] | None = None,
) -> None:
    """Declare where the JSON of a record differs from its fields.

    Args:
        cls: The type of the record.
        kind: Of the document, for `document`.
        omit: Fields that are not written.
        names: Field → its key.
        inline: Fields whose own keys stand beside the others.
        add: Key → what computes it from the record; an inlined field may not give it.
    """
    _SHAPES[cls] = _Shape(
        kind=kind, omit=tuple(omit), names=names or {}, inline=tuple(inline), add=add or {}
    )


def encode(value: Any) -> Any:
    """A record, or a container of records, as JSON: dicts, lists, text, finite numbers, null.

    Whole floats become integers, NumPy scalars Python numbers, tables lists of rows.
    """
    return _plain(_converter().unstructure(value))


def document(record: Any, **more: Any) -> dict[str, Any]:
    """A record as a document of its own: `kind`, `schema_version`, its fields.

    Args:
        record: Of a type whose `shape` names a kind.
        more: Further keys.
    """
    head = {"kind": _SHAPES[type(record)].kind, "schema_version": SCHEMA_VERSION}
    return {**head, **encode(record), **encode(more)}


def law_summary(law: Fit | None) -> dict[str, Any] | None:
    """A fitted law in the short form of documents that compare several."""
    if law is None:
        return None
    return {
        "law": law.law,
        "parameters": law.parameters,
        "reference": dict(zip(law.columns, law.reference, strict=True)),
        "fixed": law.fixed,
        "flags": law.flags,
        "n_points": law.n_points,
    }


def decode(cls: type[T], data: Any) -> T:
    """A record from its JSON; lists become tuples.

    Raises:
        ValueError: A field is missing, unknown, or holds another kind of value.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(data, cls)
    except BaseValidationError as error:
        reasons = "; ".join(transform_error(error)[:3])
        raise ValueError(f"these are not the fields of {cls.__name__}: {reasons}") from error


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn, override

    converter = Converter(forbid_extra_keys=True)

    def writer(cls: type) -> Callable[[Any], dict[str, Any]]:
        shaped = _SHAPES.get(cls, _Shape())
        overrides = {name: override(omit=True) for name in shaped.omit}
        overrides |= {name: override(rename=key) for name, key in shaped.names.items()}
        own: Callable[[Any], dict[str, Any]]
        own = make_dict_unstructure_fn(cls, converter, **overrides)  # type: ignore[arg-type]

        def write(record: Any) -> dict[str, Any]:
            found = own(record)
            for name in shaped.inline:
                found = {**found.pop(name), **found}
            for key, of in shaped.add.items():
                found[key] = converter.unstructure(of(record))
            return found

        return write

    def has_fields(cls: Any) -> bool:
        return isinstance(cls, type) and is_dataclass(cls)

    converter.register_unstructure_hook_factory(has_fields, writer)
    converter.register_structure_hook(Interval, lambda sides, _: Interval(*map(_side, sides)))
    converter.register_unstructure_hook_func(
        lambda cls: getattr(cls, "__name__", "") == "DataFrame",
        lambda table: [{str(k): v for k, v in row.items()} for row in table.to_dict("records")],
    )
    return converter


def _side(side: Any) -> float | None:
    return None if side is None else float(side)


def _plain(value: Any) -> Any:
    """Python numbers, text, lists and dictionaries only; whole floats as integers, NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)
