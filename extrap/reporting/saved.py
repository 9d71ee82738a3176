"""The figures and tables of a page as files."""

from __future__ import annotations

import base64
import binascii
import re
from html import unescape
from pathlib import Path

from extrap.errors import DataError
from extrap.files import write_text
from extrap.reading.bounds import require_file
from extrap.reporting.embedded import MOST_BYTES

_FIGURE = re.compile(r'<figure data-name="([a-z0-9-]{1,80}\.svg)">.*?(<svg.*?</svg>)', re.DOTALL)
_TABLE = re.compile(
    r'<a download="([a-z0-9-]{1,80}\.csv)" href="data:text/csv[\w;=-]*;base64,([\w+/=]+)"'
)


def save_figures(page: str | Path, folder: str | Path) -> list[Path]:
    """Write every figure of a page as SVG and every table as CSV.

    Args:
        page: A page of this package.
        folder: Where to write; missing folders are made. Files that are there are replaced.

    Returns:
        What was written, in the order of the page; of two with one name the second is `NAME-2`.

    Raises:
        DataError: The page has none, or is no page.
    """
    from extrap.reporting.canvas import standalone_svg

    page, folder = Path(page), Path(folder)
    require_file(page, "report", most=MOST_BYTES)
    text = page.read_text(encoding="utf-8", errors="replace")
    figures = [(name, standalone_svg(svg)) for name, svg in _FIGURE.findall(text)]
    tables = [(name, _decoded(name, page, data)) for name, data in _TABLE.findall(unescape(text))]
    if not figures and not tables:
        raise DataError(
            f"a report has figures and tables, {page} has none; write it again with extrap report."
        )
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, content in [*figures, *tables]:
        path = _unused(folder / name, written)
        write_text(path, content)
        written.append(path)
    return written


def _decoded(name: str, page: Path, data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise DataError(f"{name} in {page} is not whole; write the report again.") from error


def _unused(path: Path, taken: list[Path]) -> Path:
    """A name that was not written yet."""
    place, n = path, 1
    while place in taken:
        n += 1
        place = path.with_name(f"{path.stem}-{n}{path.suffix}")
    return place
