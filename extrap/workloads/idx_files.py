"""IDX files, the format of MNIST: an array of bytes behind a short header.

Two zeros, the type of the values, the number of axes, their lengths as big-endian 32-bit numbers,
then the values (LeCun, Cortes and Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from extrap.errors import DataError

UBYTE = 0x08
DEFLATE_RATIO = 1032  # the most that deflate can shrink anything by


def read_idx(path: Path, *, n_axes: int) -> np.ndarray:
    """Read an IDX file of unsigned bytes; `.gz` is unpacked on the way.

    Args:
        path: The file.
        n_axes: Axes it must have: 3 for images, 1 for labels.

    Raises:
        DataError: It is another kind of file, cut short, too long, or corrupt.
    """
    is_gzip = path.suffix == ".gz"
    most = path.stat().st_size * (DEFLATE_RATIO if is_gzip else 1)
    try:
        with cast(BinaryIO, gzip.open(path) if is_gzip else path.open("rb")) as file:
            shape = _read_shape(file, path, n_axes)
            n_values = math.prod(shape)
            # a corrupt header must not make us ask for memory that the file cannot fill
            values = np.empty(n_values if n_values <= most else 0, dtype=np.uint8)
            n_read = _fill(file, values)
            is_longer = bool(file.read(1))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the IDX file {path} cannot be read: {error}; copy it again.") from error
    if n_read != n_values or is_longer:
        raise DataError(
            f"an IDX file must have as many values as its header says, {n_values:,} in "
            f"{path}; it has {'more' if n_read == n_values else 'fewer'}; copy it again."
        )
    return values.reshape(shape)


def _read_shape(file: BinaryIO, path: Path, n_axes: int) -> tuple[int, ...]:
    expected = bytes((0, 0, UBYTE, n_axes))
    header = file.read(4 + 4 * n_axes)
    if header[:4] != expected or len(header) < 4 + 4 * n_axes:
        raise DataError(
            f"an IDX file of bytes with {n_axes} axes must begin with {expected.hex()} and "
            f"their lengths, got {header.hex() or 'nothing'} in {path}; check that it is "
            "the right file."
        )
    return tuple(int(length) for length in np.frombuffer(header[4:], ">u4"))


def _fill(file: BinaryIO, values: np.ndarray) -> int:
    """Read into an array until it is full or the file ends; how many bytes that were."""
    room = values.data
    n_read = 0
    while n_read < len(room) and (n_new := file.readinto(room[n_read:])):  # type: ignore[attr-defined]
        n_read += n_new
    return n_read
