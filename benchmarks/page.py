"""Figures of a benchmark: measured, printed, written as a page."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import extrap
from benchmarks.rows import DATA, Row, require
from extrap.reporting import html
from extrap.reporting.blocks import Answer, Details, Page, Paragraph
from extrap.reporting.study_page import provenance
from extrap.reporting.tables import Colored, Table
from extrap.reporting.text import blocks_text

ROOT = Path(__file__).parents[1]
COLORS = {True: "good", False: "bad", None: ""}
"""Of a verdict: met, missed, without a target."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a page is about.

    Attributes:
        title: Its name.
        question: Its heading.
        lead: What was measured.
        command: What makes it.
        seeds: What is random.
        libraries: Whose versions matter.
    """

    title: str
    question: str
    lead: str
    command: str
    seeds: str
    libraries: tuple[str, ...]


class Part(NamedTuple):
    """One measurement.

    Attributes:
        measure: Makes it.
        rows: Which rows it gives.
        tables: Published tables it needs.
        stated: How the rows of docs/measured.md begin that state its figures.
    """

    measure: Callable[[], Any]
    rows: Callable[[Any], Sequence[Row]]
    tables: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    def missing(self, data: Path) -> list[str]:
        """Tables that are not there."""
        return [name for name in self.tables if not _is_there(data, name)]


def _is_there(data: Path, name: str) -> bool:
    try:
        require(data, name)
    except FileNotFoundError:
        return False
    return True


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="published tables")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts to measure")
    parser.add_argument("--out", type=Path, default=ROOT / "reports", help="folder of the page")
    return parser


def run_parts(
    parts: Mapping[str, Part],
    given: argparse.Namespace,
    *,
    words: Words,
    name: str,
) -> dict[str, Any]:
    """Measure the parts asked for whose tables are there; print and write what they gave.

    Args:
        parts: Name → part, in the order of the table.
        given: What `parser_of` parsed.
        words: What the page is about.
        name: Of the file written, without suffix.

    Returns:
        Part → what was measured.
    """
    wanted = given.only or list(parts)
    if unknown := set(wanted) - set(parts):
        raise SystemExit(f"--only takes {', '.join(parts)}; got {', '.join(sorted(unknown))}.")
    found: dict[str, Any] = {}
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    missing: list[str] = []
    for key, part in parts.items():
        if key not in wanted:
            continue
        if absent := part.missing(given.data):
            sys.stdout.write(f"{key}: left out, {', '.join(absent)} missing in {given.data}\n")
            missing += [table for table in absent if table not in missing]
            continue
        began, used = time.perf_counter(), _processor_seconds()
        found[key] = part.measure()
        rows += part.rows(found[key])
        seconds[key] = time.perf_counter() - began
        used = _processor_seconds() - used
        sys.stderr.write(f"{key}: {seconds[key]:.0f} s, {used:.0f} s of processors\n")
    write(rows, seconds, missing, words=words, folder=given.out, name=name)
    return found


def _processor_seconds() -> float:
    """Of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write(
    rows: Sequence[Row],
    seconds: Mapping[str, float],
    missing: Sequence[str] = (),
    *,
    words: Words,
    folder: Path,
    name: str,
) -> None:
    """Print the rows and write them as `NAME.html`."""
    print_rows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_page(rows, seconds, missing, words=words, path=folder / f"{name}.html")
    sys.stdout.write(conclusion(rows, seconds) + "\n")


def print_rows(rows: Sequence[Row]) -> None:
    """Write the rows to standard output, part by part."""
    sys.stdout.write(blocks_text(_tables(rows)) + "\n")


def headline(rows: Sequence[Row]) -> str:
    """How many targets were met."""
    judged = [row for row in rows if row.met is not None]
    met = sum(row.met is True for row in judged)
    text = f"{met} of {len(judged)} targets met"
    return f"{text}." if met == len(judged) else f"{text}, {len(judged) - met} missed."


def conclusion(rows: Sequence[Row], seconds: Mapping[str, float]) -> str:
    """How many targets were met, which were missed, how long it took."""
    missed = [f"Missed: {row.part}: {row.figure}" for row in rows if row.met is False]
    return "\n".join([f"\n{headline(rows)}", *missed, f"{_took(seconds)}; page written."])


def write_page(
    rows: Sequence[Row],
    seconds: Mapping[str, float],
    missing: Sequence[str],
    *,
    words: Words,
    path: Path,
) -> None:
    """Write the page.

    Args:
        rows: All figures.
        seconds: How long each part took.
        missing: Published tables that were not there.
        words: What the page is about.
        path: Where to write.
    """
    created = datetime.now(UTC).isoformat(timespec="seconds")
    left_out = f" Missing and left out: {', '.join(missing)}." if missing else ""
    about = [
        ("made", created),
        ("commit", _commit()),
        ("time", _took(seconds)),
        ("extrap", extrap.__version__),
        ("Python", platform.python_version()),
        ("libraries", ", ".join(f"{n} {metadata.version(n)}" for n in words.libraries)),
        ("seeds", words.seeds),
    ]
    is_met = all(row.met is not False for row in rows)
    page = Page(
        kind="benchmark",
        title=words.title,
        question=words.question,
        created=created,
        blocks=(
            Answer(text=headline(rows), color="good" if is_met else "warn"),
            Paragraph(f"{words.lead}{left_out}"),
            *(Details(table.caption, (table,)) for table in _tables(rows)),
            provenance(about),
        ),
        status="all met" if is_met else "some missed",
        made_by=words.command,
    )
    html.write_page(page, path)


def _tables(rows: Sequence[Row]) -> list[Table]:
    """One table per part; a note is given at the first row that has it."""
    seen: set[str] = set()
    tables = []
    for part, group in groupby(rows, key=lambda row: row.part):
        lines = []
        for row in group:
            note = "" if row.note in seen else row.note
            seen.add(row.note)
            verdict = Colored(row.verdict, COLORS[row.met])
            lines.append((verdict, row.figure, row.reached, row.target, row.beat, note))
        columns = ("verdict", "figure", "reached", "target", "to beat", "note")
        used = [i for i, _ in enumerate(columns) if any(line[i] for line in lines)]
        table = Table(
            caption=part,
            columns=tuple(columns[i] for i in used),
            rows=tuple(tuple(line[i] for i in used) for line in lines),
        )
        tables.append(table)
    return tables


def _took(seconds: Mapping[str, float]) -> str:
    each = ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
    return f"{sum(seconds.values()):.0f} s ({each})"


def _commit() -> str:
    """The commit, and whether the tree differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = " with uncommitted changes" if git("status", "--porcelain") else ""
        return git("rev-parse", "--short", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "not a repository"
