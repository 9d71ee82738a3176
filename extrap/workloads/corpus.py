"""A corpus of bytes: text files in a fixed order, split by file into training and held-out."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extrap.errors import DataError

STDLIB = "stdlib"
"""Names Python's own source as the corpus."""
NOT_STDLIB = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
)
"""Folders left out of it: distributions ship different tests and packages; without them all have
the same 11 to 12 MB."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Corpus:
    """Bytes to train on and bytes held out."""

    training: np.ndarray
    validation: np.ndarray
    sha256: str
    n_files: int


def read_corpus(source: str, *, n_bytes: int, validation_bytes: int) -> Corpus:
    """Read a fixed number of bytes, so that the same study runs on every machine.

    Files come in the order of the SHA-256 of their relative path. The first ones, up to
    `validation_bytes`, are held out; the following ones train, up to `n_bytes` in total. The file
    cut at either boundary is truncated, its rest used by neither part; a folder of one single file
    is split inside it.
    """
    is_stdlib = source == STDLIB
    root = Path(sysconfig.get_path("stdlib")) if is_stdlib else Path(source).expanduser()
    if not root.is_dir():
        raise DataError(
            "the corpus must be 'stdlib' or an existing folder of text files, got "
            f"{str(root)!r}; check the path."
        )
    files = _files(root, NOT_STDLIB, ".py") if is_stdlib else _files(root)
    validation, training, n_files = _split(files, n_bytes, validation_bytes)
    n_read = len(validation) + len(training)
    least = n_bytes if is_stdlib else 2 * validation_bytes
    if n_read < least or len(training) < min(validation_bytes, n_bytes - validation_bytes):
        raise DataError(
            f"the corpus needs {least:,} bytes, {validation_bytes:,} of them held out in "
            f"separate files; {source!r} gave {len(validation):,} held out and "
            f"{len(training):,} for training. Give a folder with more text, or lower "
            "corpus_bytes or validation_bytes."
        )
    return Corpus(
        training=np.frombuffer(training, dtype=np.uint8),
        validation=np.frombuffer(validation, dtype=np.uint8),
        sha256=hashlib.sha256(validation + training).hexdigest(),
        n_files=n_files,
    )


def _split(files: list[Path], n_bytes: int, validation_bytes: int) -> tuple[bytes, bytes, int]:
    """Held-out bytes, training bytes, and the number of files read."""
    if len(files) == 1:
        text = files[0].read_bytes()[:n_bytes]
        return text[:validation_bytes], text[validation_bytes:], 1
    queue = iter(files)
    validation, n_validation = _take(queue, validation_bytes)
    training, n_training = _take(queue, n_bytes - validation_bytes)
    return validation, training, n_validation + n_training


def _take(files: Iterator[Path], n_bytes: int) -> tuple[bytes, int]:
    """The next bytes of a queue of files, the last file truncated, and how many files it took."""
    parts: list[bytes] = []
    left = n_bytes
    while left > 0 and (path := next(files, None)) is not None:
        parts.append(path.read_bytes()[:left])
        left -= len(parts[-1])
    return b"".join(parts), len(parts)


def _fail(error: OSError) -> None:
    raise DataError(
        f"a corpus must be readable, {error.filename} is not ({error.strerror}); check your "
        "rights."
    )


def _files(root: Path, left_out: frozenset[str] = frozenset(), suffix: str = "") -> list[Path]:
    """Files below a folder, except hidden ones and those in folders left out.

    They come by the hash of their relative path: a shuffle that every machine agrees on.
    """
    files = []
    for folder, folders, names in os.walk(root, onerror=_fail, followlinks=True):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in left_out
        ]
        paths = (Path(folder, name) for name in names if not name.startswith("."))
        files += [path for path in paths if path.name.endswith(suffix) and path.is_file()]
    files.sort(key=lambda p: hashlib.sha256(p.relative_to(root).as_posix().encode()).hexdigest())
    return files
