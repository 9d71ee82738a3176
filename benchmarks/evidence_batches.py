"""What the two registered batch studies share: shipping tables, printing figures part by part."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.page import print_rows
from benchmarks.rows import Row

STUDIES = Path(__file__).parents[1] / "studies"
REPORTS = STUDIES.parent / "reports"
LARGEST_COPIED = 300_000
"""Bytes of the largest table that is shipped as it is."""


def ship(
    name: str, tables: Sequence[str], *, reports: Path = REPORTS, studies: Path = STUDIES
) -> tuple[Path, ...]:
    """Copy the tables `NAME.TABLE.csv` of a study from its reports to the studies.

    Of a table of more than 300 kB, numbers are rounded to six significant digits.

    Raises:
        FileNotFoundError: A table is missing; none is copied then.
    """
    sources = [reports / f"{name}.{table}.csv" for table in tables]
    if missing := [source.name for source in sources if not source.is_file()]:
        raise FileNotFoundError(f"{reports} has no {', '.join(missing)}; run the study to its end")
    for source in sources:
        copy = studies / source.name
        if source.stat().st_size > LARGEST_COPIED:
            pd.read_csv(source).to_csv(copy, index=False, float_format="%.6g")
        else:
            copy.write_bytes(source.read_bytes())
    return tuple(studies / source.name for source in sources)


def place_rows(tuned: pd.DataFrame, *, where: str = "", against: str = "") -> list[Row]:
    """Shares of the places, each a size, target and batch, whose steps are bounds only.

    Args:
        tuned: One row per place.
        where: What the figures are of.
        against: The share at the edge that was registered as evidence against us.
    """
    counts = {
        "best rate at the edge of its grid": (tuned["at_edge"], against),
        "target not reached": (tuned["status"] != "reached", ""),
    }
    return [
        Row(
            part="grids",
            figure=f"{where}{figure}",
            beat=beside,
            reached=f"{int(is_so.sum())} of {len(tuned)} places ({is_so.mean():.1%})",
        )
        for figure, (is_so, beside) in counts.items()
    ]


def print_figures(
    argv: Sequence[str] | None,
    *,
    about: str,
    prefix: Path,
    tables: Sequence[str],
    parts: Callable[[Path], Iterable[list[Row]]],
) -> None:
    """Ship the tables if that is wanted, and print every part once it is computed.

    Args:
        argv: The command's arguments.
        about: The module's docstring.
        prefix: The tables of the whole study.
        tables: Endings of those that are shipped.
        parts: From a prefix to the rows of every part.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("prefix", type=Path, nargs="?", default=prefix)
    parser.add_argument(
        "--ship", action="store_true", help="first copy the study's tables from reports/"
    )
    given = parser.parse_args(argv)
    if given.ship:
        for path in ship(given.prefix.name, tables):
            sys.stdout.write(f"{path}: {path.stat().st_size / 1000:.0f} kB\n")
    for rows in parts(given.prefix):
        if rows:
            print_rows(rows)
            sys.stdout.flush()
