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
        instead: The value that it replaces, such as a column that does not exist.
    """

    arguments: Mapping[str, object]
    words: str = ""
    instead: str = ""

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


class OnlyBestValues(DataError):
    """A table has the best value of each size and no loss: it is no sweep.

    Attributes:
        table: The table, one row per size.
        sizes: Its size columns.
        tuned: Its other columns.
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


def nearest(given: str, known: Iterable[str]) -> str:
    """`did you mean 'width'?`, of the name most like the given one; empty if none is like it."""
    import difflib  # for errors alone

    near = difflib.get_close_matches(given, list(known), n=1)
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
    scheme, found, rest = url.partition("://")
    # to the end: an & in a password, which should be %26, would look like the end of it
    rest = re.sub(f"(?s){IN_QUERY}.*", "", rest)
    account, sign, host = rest.rpartition("@")
    return f"{scheme}{found}{account.partition(':')[0]}{sign}{host}"
