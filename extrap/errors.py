"""The exceptions a caller may want to catch, and how they name arguments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

__all__ = [
    "Choice",
    "DataError",
    "ExtrapError",
    "FitError",
    "StudyError",
    "argument",
    "as_options",
]

_IS_COMMAND = ContextVar("_IS_COMMAND", default=False)
OPTIONS = {"conditions": "condition", "n_runs": "runs"}
"""Arguments whose option has another name."""


@contextmanager
def as_options() -> Iterator[None]:
    """Within the block messages name the options of the command line."""
    token = _IS_COMMAND.set(True)
    try:
        yield
    finally:
        _IS_COMMAND.reset(token)


def argument(name: str, value: object = None) -> str:
    """An argument as it is written: `size="width"` in Python, `--size width` in a command.

    Args:
        name: The argument's name in Python.
        value: One value, a sequence of them or a mapping; None for the name alone, `...` for any.
    """
    if not _IS_COMMAND.get():
        if value is ...:
            return f"{name}=…"
        return name if value is None else f"{name}={json.dumps(value, ensure_ascii=False)}"
    option = f"--{OPTIONS.get(name, name).replace('_', '-')}"
    if value is None or value is ...:
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
        joined = " " if _IS_COMMAND.get() else ", "
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
