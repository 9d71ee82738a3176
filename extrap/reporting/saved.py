"""The pictures and tables of a page as files: the same bytes that its links save."""

from __future__ import annotations

import base64
import binascii
import re
from html import unescape
from pathlib import Path

from extrap.errors import DataError
from extrap.files import write_bytes
from extrap.reading.bounds import require_file
from extrap.reporting.embedded import MOST_BYTES

__all__ = ["save_figures"]

_LINK = re.compile(
    r'<a download="([a-z0-9-]{1,80}\.(?:svg|png|csv))" href="data:[\w/;=+.-]+;base64,([\w+/=]+)"'
)


def save_figures(page: str | Path, folder: str | Path) -> list[Path]:
    """Write every figure of a page as SVG and PNG and every table as CSV.

    Args:
        page: A page of this package.
        folder: Where to write; missing folders are made. Files that are there are replaced.

    Returns:
        What was written, in the order of the page; of two with one name the second is `NAME-2`.

    Raises:
        DataError: The page has none, or is no page.
    """
    page, folder = Path(page), Path(folder)
    require_file(page, "report", most=MOST_BYTES)
    found = _LINK.findall(unescape(page.read_text(encoding="utf-8", errors="replace")))
    if not found:
        raise DataError(
            f"a report has links that save its figures, {page} has none; write it again with "
            "extrap report."
        )
    written: list[Path] = []
    for name, content in found:
        path = _unused(folder / name, written)
        try:
            plain = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise DataError(f"{name} in {page} is not whole; write the report again.") from error
        write_bytes(path, plain)
        written.append(path)
    return written


def _unused(path: Path, taken: list[Path]) -> Path:
    """A name that was not written yet."""
    place, n = path, 1
    while place in taken:
        n += 1
        place = path.with_name(f"{path.stem}-{n}{path.suffix}")
    return place
