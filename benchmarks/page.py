"""The page of a table of figures: the table, the pictures, where it comes from."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path

from jinja2 import ChoiceLoader, FileSystemLoader

import extrap
from benchmarks.rows import Row
from extrap.files import write_text
from extrap.records.codec import encode
from extrap.reporting.envelopes import PageHead
from extrap.reporting.numbers import NBSP
from extrap.reporting.pages import environment, render_page
from extrap.reporting.plates import Plate

__all__ = ["Words", "write_page"]

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a page is about.

    Attributes:
        title: One word or two.
        question: Its heading.
        lead: One sentence below.
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


def write_page(
    rows: Sequence[Row],
    plates: Sequence[Plate],
    seconds: Mapping[str, float],
    missing: Sequence[str],
    *,
    words: Words,
    path: Path,
) -> None:
    """Write the page, one file that loads nothing else.

    Args:
        rows: All figures.
        plates: The pictures, perhaps none.
        seconds: How long each part took.
        missing: Published tables that were not there.
        words: What the page is about.
        path: Where to write.
    """
    templates = environment()
    here = FileSystemLoader(Path(__file__).parent / "templates")
    templates.filters["tight"] = _tight
    templates.loader = ChoiceLoader([loader for loader in (templates.loader, here) if loader])
    created = datetime.now(UTC).isoformat(timespec="seconds")
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    judged = headline(rows)
    html = render_page(
        "figures.html.j2",
        PageHead(
            kind="figures",
            title=words.title,
            question=words.question,
            answer=judged,
            created=created,
            status="all met" if all(row.met is not False for row in rows) else "some missed",
        ),
        numbers=encode({"kind": "extrap-figures", "rows": [asdict(row) for row in rows]}),
        templates=templates,
        made_by=words.command,
        missed=[row for row in rows if row.met is False],
        missing=missing,
        parts=[(part, list(group)) for part, group in groupby(rows, key=lambda row: row.part)],
        notes=notes,
        plates=plates,
        words=words,
        provenance=_provenance(created, seconds, words),
    )
    write_text(path, html)


def _tight(text: str) -> str:
    """Signs stay with their numbers at the end of a line."""
    for sign in ("≤ ", "≥ ", "± ", "× "):
        text = text.replace(sign, sign[0] + NBSP)
    return text.replace(" %", f"{NBSP}%")


def headline(rows: Sequence[Row]) -> str:
    """How many targets were met."""
    judged = [row for row in rows if row.met is not None]
    met = sum(row.met is True for row in judged)
    text = f"{met} of {len(judged)} targets met"
    return f"{text}." if met == len(judged) else f"{text}, {len(judged) - met} missed."


def _provenance(created: str, seconds: Mapping[str, float], words: Words) -> list[tuple[str, str]]:
    took = ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in words.libraries)
    return [
        ("made", created),
        ("commit", _commit()),
        ("seconds", f"{sum(seconds.values()):.0f} ({took})"),
        ("extrap", extrap.__version__),
        ("Python", platform.python_version()),
        ("libraries", versions),
        ("seeds", words.seeds),
    ]


def _commit() -> str:
    """The commit, and whether the tree differs from it."""

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    try:
        changed = " with uncommitted changes" if git("status", "--porcelain") else ""
        return git("rev-parse", "--short", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "not a repository"
