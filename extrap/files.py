"""Atomic writing of files; CSV cells that a spreadsheet would run as a formula are escaped.

A text cell that a spreadsheet would take for a formula is written with an apostrophe before it,
which spreadsheets do not show: `=1+1` becomes `'=1+1`. Reading takes one such apostrophe away, so
that a table comes back as it was. Numbers, and text that is a number, stay as they are. pandas,
which takes as long to import as the rest of a command line, is imported with the first table.
A user's Python file is imported as it stands, and nothing is written beside it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from extrap.errors import DataError, shown

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"'*(?:[ ]*[=+\-@＝＋－＠]|[\t\r\n])")
"""How a cell begins that a spreadsheet may take for a formula, however many apostrophes precede.

References:
    OWASP, "CSV Injection": =, +, -, @, tab, carriage return, line feed, and their wide forms.
"""
PANDAS_EXACT = 3
"""The version from which pandas reads a number to the last bit by itself."""
ROUND_TRIP: Mapping[str, Any] = {"float_precision": "round_trip"}
"""Option of `pandas.read_csv` by which an older pandas reads a number to the last bit."""
HIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Characters that command a terminal, turn the reading direction or stand for broken bytes."""


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place once it is written without an error.

    Until then, and if anything fails, what was at `path` stays and the draft is removed. What is
    no plain file, such as `/dev/stdout`, is written to directly; of a link the target is replaced.

    Args:
        path: The file; missing folders are made.

    Yields:
        Where to write.

    Raises:
        OSError: It cannot be written; `filename` is `path`.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        # a process number is another's too, in another container or on another machine
        draft = target.with_name(f".{target.name[:80]}.{os.urandom(8).hex()}.part")
        try:
            yield draft
            with draft.open("rb") as file:
                os.fsync(file.fileno())  # some disks say only now that they are full
            if target.exists():
                draft.chmod(target.stat().st_mode & 0o777)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        number = error.errno or errno.EIO
        reason = error.strerror or str(error)  # a library of tables may say it in words only
        raise OSError(number, reason, str(path)) from error


def write_note(path: Path, text: str) -> None:
    """Write a short text for another process, whole; it need not outlive the machine.

    Raises:
        OSError: It cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_text(path: str | Path, text: str) -> None:
    """Write text as UTF-8, whole or not at all; half of a surrogate pair is spelled out.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write bytes, whole or not at all."""
    with whole_file(path) as draft:
        draft.write_bytes(content)


def write_csv(
    table: pd.DataFrame,
    path: str | Path,
    *,
    index_label: str | None = None,
) -> None:
    """Write a table as CSV, whole or not at all, its text guarded against being a formula.

    Args:
        table: The table.
        path: The file.
        index_label: Heading of the index; without one it is left out.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    import pandas as pd

    plain = table.rename(columns=guarded)
    texts = [i for i, kind in enumerate(plain.dtypes) if _may_hold_text(kind)]
    columns = [
        plain.iloc[:, i].astype(object).map(guarded) if i in texts else plain.iloc[:, i]
        for i in range(plain.shape[1])
    ]
    with whole_file(path) as draft:
        (pd.concat(columns, axis=1) if columns else plain).to_csv(
            draft,
            index=index_label is not None,
            index_label=index_label,
            errors="backslashreplace",
        )


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a table that `write_csv` wrote, numbers as numbers.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a table.
    """
    import pandas as pd

    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    exact = {} if int(pd.__version__.split(".")[0]) >= PANDAS_EXACT else ROUND_TRIP
    table = pd.read_csv(path, **exact)
    table.columns = [unguarded(str(name)) for name in table.columns]
    for name, kind in table.dtypes.items():
        if _may_hold_text(kind):
            table[name] = table[name].map(unguarded)
    return table


def guarded(value: Any) -> Any:
    """A cell as it is written: text that may be taken for a formula gains an apostrophe."""
    if isinstance(value, str) and FORMULA.match(value) and not _is_number(value):
        return f"'{value}"
    return value


def unguarded(value: Any) -> Any:
    """A cell as it was: the apostrophe before what may be taken for a formula is taken away."""
    if isinstance(value, str) and value.startswith("'") and FORMULA.match(value):
        return value[1:]
    return value


def as_written(text: str) -> str:
    """Text with every hidden character spelled out as Python does; safe for a terminal."""
    return HIDDEN_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


def _may_hold_text(kind: Any) -> bool:
    import pandas as pd

    return not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


class _SourceLoader(SourceFileLoader):
    """Compiles the source: bytecode is compared with it by whole seconds and bytes only."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def import_source(path: Path, name: str) -> ModuleType:
    """Import a Python file as it stands, under a name; no bytecode is read or written.

    Args:
        path: The file.
        name: What the module is called in `sys.modules`.

    Raises:
        BaseException: Whatever the file raises, and then it is not in `sys.modules`.
    """
    loader = _SourceLoader(name, str(path.absolute()))
    spec = spec_from_file_location(name, loader.path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def require_file(path: Path, what: str = "table") -> None:
    """Raise unless a path is a plain file.

    Raises:
        DataError: It is missing, a folder, a pipe or a device.
    """
    try:
        is_there, is_folder, is_file = path.exists(), path.is_dir(), path.is_file()
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
