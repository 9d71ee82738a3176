"""The exceptions a caller may want to catch, and how their messages name an argument."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

_OPTIONS: ContextVar[dict[str, str] | None] = ContextVar("_OPTIONS", default=None)
"""Argument → option of the command that runs; None outside the command line."""


@contextmanager
def as_options() -> Iterator[None]:
    """Within the block messages name the options of the command that runs, see `know_options`."""
    token = _OPTIONS.set({})
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def know_options(options: Mapping[str, str]) -> None:
    """Say how the command that runs calls the arguments it has options for."""
    known = _OPTIONS.get()
    if known is not None:
        known.update(options)


def argument(name: str, value: object = None) -> str:
    """An argument as it is written: `size="width"` in Python, `--size width` in a command.

    Args:
        name: The argument's name in Python.
        value: One value, a sequence of them or a mapping; `...` for any; None for the name alone.

    Example:
        >>> argument("fix", {"lr.b": -0.5}), argument("size", ...), argument("size")
        ('fix={"lr.b": -0.5}', 'size=…', 'size')
    """
    option = (_OPTIONS.get() or {}).get(name)
    if option is None:
        words = "…" if value is ... else "True" if value is True else ""
        written = words or json.dumps(value, ensure_ascii=False)
        return name if value is None else f"{name}={written}"
    if value is None or value is ... or value is True:
        return option
    if isinstance(value, Mapping):
        parts = [f"{key}={each}" for key, each in value.items()]
    else:
        parts = [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
    return " ".join(f"{option} {shlex.quote(part)}" for part in parts)


class Choice(NamedTuple):
    """One way to go on.

    Attributes:
        arguments: Argument → value.
        words: What it stands for.
    """

    arguments: Mapping[str, object]
    words: str = ""

    def __str__(self) -> str:
        joined = " " if _OPTIONS.get() is not None else ", "
        return joined.join(argument(*each) for each in self.arguments.items())


class ExtrapError(Exception):
    """Base of every error this package raises on purpose."""


class DataError(ExtrapError, ValueError):
    """The runs cannot support what was asked of them.

    Attributes:
        choices: Arguments of which one would settle it; the command line prints the commands.
    """

    def __init__(self, message: str, choices: Sequence[Choice] = ()) -> None:
        super().__init__(message)
        self.choices = tuple(choices)

    def __str__(self) -> str:
        listed = (f"{each} ({each.words})" if each.words else str(each) for each in self.choices)
        return " ".join([self.args[0], *([f"{'; '.join(listed)}."] if self.choices else [])])


class FitError(ExtrapError, RuntimeError):
    """No starting point of a fit converged."""


class StudyError(ExtrapError, RuntimeError):
    """A study, or the storage it lives in, is unusable."""
