"""What the pages share: provenance and limits, and how a measured value is written."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from extrap import __version__
from extrap.records import Interval, Measure
from extrap.records.numbers import beside, format_estimate, format_percent, stacked
from extrap.reporting.blocks import Block, Details, Page, Paragraph
from extrap.reporting.tables import Table


@dataclass(frozen=True, slots=True)
class About:
    """What a page is about.

    Attributes:
        title: Name of the study.
        question: The question it answers, one sentence.
        provenance: Rows of the provenance table; empty ones are left out.
        created: When, ISO 8601; by default now.
    """

    title: str
    question: str
    provenance: Mapping[str, str]
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


def study_page(
    kind: str,
    about: About,
    blocks: Iterable[Block],
    *,
    caveats: Sequence[str],
    counts: Mapping[str, object] = MappingProxyType({}),
    status: str = "",
    ok: bool | None = None,
) -> Page:
    """A page; `counts` head its provenance, `caveats` are what it cannot tell."""
    made_with = {"extrap": __version__, "Python": platform.python_version()}
    rows = [*counts.items(), *about.provenance.items(), *made_with.items()]  # names may repeat
    origin = [(name, str(value)) for name, value in rows if str(value)]
    return Page(
        kind=kind,
        title=about.title,
        question=about.question,
        created=about.created,
        blocks=(*blocks, provenance(origin), Details("Limits", [*map(Paragraph, caveats)])),
        status=status,
        ok=ok,
    )


def provenance(rows: Sequence[tuple[str, str]]) -> Details:
    """Where a page comes from, as a closed table."""
    return Details("Provenance", [Table("Provenance", ("what", "value"), rows)])


def estimate(measure: Measure, level: float | None = None) -> str:
    """A value with its interval in brackets, after its level if given."""
    return format_estimate(measure.value, measure.ci, level)


def measured(measure: Measure) -> str:
    """A value above its interval; a dash where neither is known."""
    if measure.value is None and measure.ci == Interval():
        return "–"
    return stacked(measure.value, measure.ci)


def in_percent(measure: Measure, *, signed: bool = False) -> str:
    """A share or a relative difference with its interval in brackets."""
    return beside(stacked(measure.value, measure.ci, partial(format_percent, signed=signed)))
