"""The page of the backtest: the table, the pictures, where it comes from."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader

import extrap
from benchmarks.pictures import plates
from benchmarks.rows import Row
from extrap.reporting.figures import style_sheet
from extrap.reporting.numbers import NBSP
from extrap.reporting.page import environment

__all__ = ["write_page"]

ROOT = Path(__file__).parents[1]
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels")


def write_page(
    rows: Sequence[Row],
    found: Mapping[str, Any],
    seconds: Mapping[str, float],
    missing: Sequence[str],
    *,
    path: Path,
) -> None:
    """Write the page, one file that loads nothing else.

    Args:
        rows: All figures.
        found: What was measured, by part.
        seconds: How long each part took.
        missing: Published tables that were not there.
        path: Where to write.
    """
    templates = environment()
    here = FileSystemLoader(Path(__file__).parent / "templates")
    templates.filters["tight"] = _tight
    templates.loader = ChoiceLoader([loader for loader in (templates.loader, here) if loader])
    created = datetime.now(UTC).isoformat(timespec="seconds")
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    html = templates.get_template("backtest.html.j2").render(
        created=created,
        headline=headline(rows),
        missed=[row for row in rows if row.met is False],
        missing=missing,
        parts=[(part, list(group)) for part, group in groupby(rows, key=lambda row: row.part)],
        notes=notes,
        plates=plates(found),
        provenance=_provenance(created, seconds),
        light=style_sheet("light"),
        dark=style_sheet("dark"),
    )
    path.write_text(html, encoding="utf-8")


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


def _provenance(created: str, seconds: Mapping[str, float]) -> list[tuple[str, str]]:
    took = ", ".join(f"{name} {s:.0f}" for name, s in seconds.items())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return [
        ("made", created),
        ("commit", _commit()),
        ("seconds", f"{sum(seconds.values()):.0f} ({took})"),
        ("extrap", extrap.__version__),
        ("Python", platform.python_version()),
        ("libraries", versions),
        ("seeds", "every draw is seeded; the same tree gives the same table"),
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
