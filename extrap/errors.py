"""The exceptions a caller may want to catch, and how their messages name an argument."""

from __future__ import annotations

import shlex
from ast import literal_eval
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "DataError",
    "ExtrapError",
    "FitError",
    "StudyError",
    "argument",
    "arguments_are_options",
]

_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)
"""Argument → option of the command that runs; None outside the command line."""


def argument(text: str) -> str:
    """An argument as the reader of a message has to write it.

    Args:
        text: As Python writes it: a name, `name=…`, or `name=` and a literal.

    Returns:
        The same text; while a command runs that has the argument as an option, that option.

    Example:
        >>> with arguments_are_options({"fix": "--fix"}):
        ...     argument("size=…"), argument("fix=…"), argument("fix={'lr.b': -0.5}")
        ('size=…', '--fix', '--fix lr.b=-0.5')
    """
    name, _, value = text.partition("=")
    option = (_OPTIONS.get() or {}).get(name)
    if option is None:
        return text
    if value in ("", "…"):
        return option
    given = literal_eval(value)
    is_named = isinstance(given, Mapping)
    values = [f"{key}={each}" for key, each in given.items()] if is_named else [str(given)]
    return " ".join(f"{option} {shlex.quote(each)}" for each in values)


@contextmanager
def arguments_are_options(options: Mapping[str, str]) -> Iterator[None]:
    """Within the block `argument` gives these options instead of their arguments."""
    before = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(before)


class ExtrapError(Exception):
    """Base of every error this package raises on purpose."""


class DataError(ExtrapError, ValueError):
    """The runs cannot support what was asked of them."""


class FitError(ExtrapError, RuntimeError):
    """No starting point of a fit converged."""


class StudyError(ExtrapError, RuntimeError):
    """A study, or the storage it lives in, is unusable."""
