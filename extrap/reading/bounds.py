"""What a file may ask of us: plain files only, so many bytes and no more."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote, unquote

from extrap.errors import DataError

MOST_BYTES = 2**28
"""Of a table as text, or of a sealed forecast."""
MOST_CELLS = 100_000_000
"""Of a table whose size is known before it is made."""
IN_QUERY = "(?i:[?&;](?:ssl)?passw(?:or)?d=)"
"""What stands before a password behind the question mark of an address."""


def require_file(path: Path, what: str = "table", *, most: int | None = None) -> None:
    """Raise unless a path is a plain file of bearable size.

    Raises:
        DataError: It is missing, a folder, a pipe, a device or too large.
    """
    try:
        is_there, is_folder, is_file = path.exists(), path.is_dir(), path.is_file()
        size = path.stat().st_size if is_file else 0
    except OSError as error:  # a name that is too long, a folder nobody may look into
        raise DataError(
            f"a {what} is a file, got {shown(str(path))} ({error.strerror}); check the path."
        ) from error
    if not is_there:
        raise DataError(f"there is no file {str(path)[:300]}; check the path.")
    if is_folder:
        raise DataError(f"{path} is a folder; name the {what} inside it.")
    if not is_file:
        raise DataError(f"a {what} is a plain file, got {path}, a pipe or device; save it first.")
    if most is not None and size > most:
        raise DataError(
            f"a {what} has at most {most:,} bytes, got {size:,} in {path}; leave out what is not "
            "needed, split it, or save numbers as Parquet."
        )


def bounded_text(source: TextIO) -> TextIO:
    """Open text, read to its end; its mark of UTF-8 is taken away.

    Raises:
        DataError: It does not end within `MOST_BYTES` characters.
    """
    text = source.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise DataError(
            f"a table has at most {MOST_BYTES:,} bytes, got more on the standard input; save "
            "numbers as Parquet, and name the file."
        )
    return io.StringIO(text.removeprefix("\ufeff"))


def check_cells(n_cells: int, where: str) -> None:
    """Raise a `DataError` for a table of too many cells."""
    if n_cells > MOST_CELLS:
        raise DataError(
            f"a table has at most {MOST_CELLS:,} cells, got {n_cells:,} in {where}; leave out "
            "what is not needed, or split it."
        )


def parse_json(text: str) -> Any:
    """What JSON says.

    Raises:
        ValueError: It is no JSON, or lists within lists without end.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def shown(value: object, *, most: int = 60) -> str:
    """A value as Python writes it, cut to a bearable length."""
    text = value if isinstance(value, str) else str(value)
    return repr(value) if len(text) <= most else f"{text[:most]!r}… ({len(text):,} characters)"


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
