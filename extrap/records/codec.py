"""Every result to JSON and back: fields by their names, `JsonShape` where keys differ.

cattrs does the work both ways. What is read is strict: no key is unknown or missing, a number is
a finite number, text is text. cattrs is imported on first use.

Scripts depend on the keys: they are kept between versions, `schema_version` rises when one
changes, a number that is open, missing or not finite is `null`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from extrap.records.intervals import Interval

if TYPE_CHECKING:
    from cattrs import Converter

DOCUMENT_VERSION = 1
"""The `schema_version` of a document unless its `shape` says another."""
T = TypeVar("T")
StandIn = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]
"""A record that is written in the place of another: its type, from the other to it, and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonShape:
    """How the JSON of a record differs from its fields.

    Attributes:
        kind: Of the document, for `document`.
        version: Its `schema_version`.
        omit: Fields that are not written.
        names: Field → its key.
        inline: Fields whose own keys stand beside the others.
        add: Key → what computes it from the record; an inlined field may not give it.
        written_as: The record that stands for one which is no plain fields, such as a table.
        later: Fields that older files lack: not written where they have their defaults, so that
            the content of such a file stays what it was.
    """

    kind: str = ""
    version: int = DOCUMENT_VERSION
    omit: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    inline: Sequence[str] = ()
    add: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    written_as: StandIn | None = None
    later: Sequence[str] = ()


_JSON_SHAPES: dict[type, JsonShape] = {}
"""Record → how its JSON differs from its fields."""


def shape(cls: type, **differences: Any) -> None:
    """Declare where the JSON of a record differs from its fields, by the fields of `JsonShape`."""
    _JSON_SHAPES[cls] = JsonShape(**differences)


def encode(value: Any) -> Any:
    """A record, or a container of records, as JSON: dicts, lists, text, finite numbers, null.

    Whole floats become integers, NumPy scalars Python numbers, tables lists of rows.
    """
    return _plain(_converter().unstructure(value))


def document(record: Any, **more: Any) -> dict[str, Any]:
    """A record as a document of its own: `kind`, `schema_version`, its fields.

    Args:
        record: Its `shape` names the kind; one without is a part of other documents.
        more: Further keys.
    """
    shaped = _JSON_SHAPES.get(type(record), JsonShape())
    head = {"kind": shaped.kind, "schema_version": shaped.version} if shaped.kind else {}
    return {**head, **encode(record), **encode(more)}


def decode(cls: type[T], data: Any) -> T:
    """A record from its JSON; lists become tuples.

    Raises:
        ValueError: A field is missing, unknown, or holds another kind of value; it is named.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(data, cls)
    except BaseValidationError as error:
        what, _, field_path = transform_error(error, path="", format_exception=_reason)[
            0
        ].rpartition(" @ ")
        raise ValueError(": ".join(filter(None, [field_path.removeprefix("."), what]))) from error


def _reason(error: BaseException, _: type | None) -> str:
    from cattrs import ForbiddenExtraKeysError

    if isinstance(error, ForbiddenExtraKeysError):
        return f"has the unknown key {min(error.extra_fields)}"
    return f"{error!s:.200}" if isinstance(error, ValueError) else "holds another kind of value"


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

    converter = Converter(forbid_extra_keys=True)

    def writer(cls: type) -> Callable[[Any], Any]:
        shaped = _JSON_SHAPES.get(cls, JsonShape())
        if shaped.written_as is not None:
            stand_in = shaped.written_as[1]
            return lambda record: converter.unstructure(stand_in(record))
        overrides = {name: override(omit=True) for name in shaped.omit}
        overrides |= {name: override(rename=key) for name, key in shaped.names.items()}
        write_fields: Callable[[Any], dict[str, Any]]
        write_fields = make_dict_unstructure_fn(cls, converter, **overrides)  # type: ignore[arg-type]

        later = {f.name: f.default for f in fields(cls) if f.name in shaped.later}

        def write(record: Any) -> dict[str, Any]:
            written = write_fields(record)
            for name, default in later.items():
                if getattr(record, name) == default:
                    del written[name]
            for name in shaped.inline:
                written = {**written.pop(name), **written}
            for key, of in shaped.add.items():
                written[key] = converter.unstructure(of(record))
            return written

        return write

    def reader(cls: type) -> Callable[[Any, Any], Any]:
        shaped = _JSON_SHAPES.get(cls, JsonShape())
        if shaped.written_as is not None:
            stand_in, _, back = shaped.written_as
            return lambda data, _: back(converter.structure(data, stand_in))
        read_fields: Any = make_dict_structure_fn(cls, converter)

        def read(data: Any, _: Any) -> Any:
            if not isinstance(data, Mapping):
                raise ValueError(f"must be the fields of {cls.__name__}, got {data!r:.60}")
            needed = [f.name for f in fields(cls) if f.name not in shaped.later]
            if missing := [name for name in needed if name not in data]:
                raise ValueError(f"lacks the key {missing[0]}")
            return read_fields(data, cls)

        return read

    def is_array(cls: Any) -> bool:  # NumPy is imported by who has arrays
        return getattr(get_origin(cls), "__name__", "") == "ndarray"

    def has_fields(cls: Any) -> bool:
        return isinstance(cls, type) and is_dataclass(cls)

    converter.register_unstructure_hook_factory(has_fields, writer)
    converter.register_structure_hook_factory(has_fields, reader)
    for kind, kinds in _JSON_TYPES.items():
        converter.register_structure_hook(kind, partial(_exactly, kind, kinds))
    converter.register_structure_hook_func(is_array, _array)
    converter.register_unstructure_hook_func(is_array, lambda array: array.tolist())
    sides: Any = tuple[float | None, float | None]
    converter.register_structure_hook(
        Interval, lambda data, _: Interval(*converter.structure(data, sides))
    )
    converter.register_unstructure_hook_func(
        lambda cls: getattr(cls, "__name__", "") == "DataFrame",
        lambda table: [{str(k): v for k, v in row.items()} for row in table.to_dict("records")],
    )
    return converter


_JSON_TYPES = {float: (int, float), int: (int,), bool: (bool,), str: (str,)}
"""Kind of a field → what JSON may hold for it: a whole float is written as an integer."""


def _exactly(kind: type, kinds: tuple[type, ...], value: Any, _: Any) -> Any:
    """A value that JSON holds in the kind that a field has; nothing is converted to fit."""
    if type(value) not in kinds or (kind is float and not math.isfinite(value)):
        raise ValueError(f"must be a {kind.__name__}, got {value!r:.60}")
    return kind(value)


def _array(data: Any, cls: Any) -> Any:
    """An array of the type that an annotation says, from nested lists."""
    import numpy as np

    return np.array(_numbers(data), dtype=get_args(get_args(cls)[1])[0])


def _numbers(data: Any) -> Any:
    """Numbers in nested lists, none of which are converted."""
    if isinstance(data, list):
        return [_numbers(item) for item in data]
    return _exactly(float, _JSON_TYPES[float], data, None)


def _plain(value: Any) -> Any:
    """Python numbers, text, lists and dictionaries only; whole floats as integers, NaN as null."""
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
