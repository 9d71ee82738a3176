"""The exceptions a caller may want to catch, and how their messages show things."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

IN_QUERY = "(?i:[?&;](?:ssl)?passw(?:or)?d=)"
"""What stands before a password behind the question mark of an address."""
_OPTION_NAMES: ContextVar[dict[str, str] | None] = ContextVar("_OPTION_NAMES", default=None)
"""Argument → option of the command that runs; None outside the command line."""


@contextmanager
def as_options() -> Iterator[None]:
    """Within the block messages name the options of the command that runs, see `know_options`."""
    token = _OPTION_NAMES.set({})
    try:
        yield
    finally:
        _OPTION_NAMES.reset(token)


def know_options(options: Mapping[str, str]) -> None:
    """Say how the command that runs calls the arguments it has options for."""
    registered = _OPTION_NAMES.get()
    if registered is not None:
        registered.update(options)


def argument(name: str, value: object = None) -> str:
    """An argument as it is written: `size="width"` in Python, `--size width` in a command.

    Args:
        name: The argument's name in Python.
        value: One value, a sequence of them or a mapping; `...` for any; None for the name alone.

    Example:
        >>> argument("fix", {"lr.b": -0.5}), argument("size", ...), argument("size")
        ('fix={"lr.b": -0.5}', 'size=…', 'size')
    """
    option = (_OPTION_NAMES.get() or {}).get(name)
    if option is None:
        literal = "…" if value is ... else "True" if value is True else ""
        written = literal or json.dumps(value, ensure_ascii=False)
        return name if value is None else f"{name}={written}"
    if value is None or value is ... or value is True:
        return option
    if isinstance(value, Mapping):
        parts = [f"{key}={part}" for key, part in value.items()]
    else:
        parts = [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
    return " ".join(f"{option} {shlex.quote(part)}" for part in parts)


class Choice(NamedTuple):
    """One way to go on.

    Attributes:
        arguments: Argument → value.
        meaning: What it stands for.
        instead: The value that it replaces, such as a column that does not exist.
    """

    arguments: Mapping[str, object]
    meaning: str = ""
    instead: str = ""

    def __str__(self) -> str:
        joined = " " if _OPTION_NAMES.get() is not None else ", "
        return joined.join(argument(*pair) for pair in self.arguments.items())


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
        listed = (
            f"{choice} ({choice.meaning})" if choice.meaning else str(choice)
            for choice in self.choices
        )
        return " ".join([self.args[0], *([f"{'; '.join(listed)}."] if self.choices else [])])


class OnlyBestValues(DataError):
    """A table has the best values of each size and no loss: it is no sweep.

    Attributes:
        table: The table, one row per size or several that repeat it.
        sizes: Its size columns.
        tuned: Its columns of best values.
    """

    def __init__(
        self, message: str, *, table: Any, sizes: Sequence[str], tuned: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.table, self.sizes, self.tuned = table, tuple(sizes), tuple(tuned)


class FitError(ExtrapError, RuntimeError):
    """No starting point of a fit converged."""


class StudyError(ExtrapError, RuntimeError):
    """A study, or the storage it lives in, is unusable."""


def shown(value: object, *, most: int = 60) -> str:
    """A value as Python writes it, cut to a bearable length."""
    text = value if isinstance(value, str) else str(value)
    return repr(value) if len(text) <= most else f"{text[:most]!r}… ({len(text):,} characters)"


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean 'width'?`, of the name most like the given one; empty if none is like it."""
    import difflib  # for errors alone

    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def first_line(error: object, *, url: str = "", most: int = 200) -> str:
    """The first line of what a library says, or its kind where it says nothing.

    Args:
        error: What it says.
        url: An address whose password it may repeat, as it is written or unquoted.
        most: How many characters are kept.
    """
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    secrets = [*re.findall(r"(?s)://[^:]*:(.*)@", url), *re.findall(f"{IN_QUERY}([^&]*)", url)]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        for written in (secret, quote(secret, safe=""), unquote(secret)):
            line = line.replace(written, "***")
    return line if len(line) <= most else f"{line[:most]}…"  # a password cut in two is not found


def without_password(url: str) -> str:
    """An address with `user:password@` cut to `user@`, and without `password=…` behind it.

    Example:
        >>> without_password("postgresql://me:secret@host/runs?password=secret")
        'postgresql://me@host/runs'
    """
    scheme, separator, location = url.partition("://")
    # to the end: an & in a password, which should be %26, would look like the end of it
    location = re.sub(f"(?s){IN_QUERY}.*", "", location)
    account, sign, host = location.rpartition("@")
    return f"{scheme}{separator}{account.partition(':')[0]}{sign}{host}"
