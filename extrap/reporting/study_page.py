"""What the pages of studies share: tables by column, provenance and limits."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from extrap import __version__
from extrap.records import Interval, Measure
from extrap.records.codec import encode
from extrap.reporting.blocks import Block, Page
from extrap.reporting.forecast_page import limits, provenance
from extrap.reporting.numbers import below, format_percent, stacked
from extrap.reporting.tables import tabulated

__all__ = ["below", "in_percent", "measured", "study_page", "tabulated"]


def study_page(
    kind: str,
    blocks: Iterable[Block],
    *,
    title: str,
    question: str,
    created: str,
    origin: Mapping[str, str],
    caveats: Sequence[str],
    numbers: Mapping[str, Any],
    status: str = "",
) -> Page:
    """A page of a study; `origin` is its provenance, `caveats` what it cannot tell."""
    rows = {**origin, "extrap": __version__, "Python": platform.python_version()}
    ends = (provenance([(k, v) for k, v in rows.items() if v]), limits(caveats))
    return Page(
        kind=kind,
        title=title,
        question=question,
        created=created,
        blocks=(*blocks, *ends),
        numbers=encode(numbers),
        status=status,
    )


def measured(measure: Measure) -> str:
    """A value above its interval; a dash where neither is known."""
    if measure.value is None and measure.ci == Interval(None, None):
        return "–"
    return stacked(measure.value, measure.ci)


def in_percent(measure: Measure, *, signed: bool = False) -> str:
    """A share or a relative difference with its interval in brackets."""
    if measure.value is None:
        return "unknown"
    lower, upper = (format_percent(side, signed=signed) for side in measure.ci)
    return f"{format_percent(measure.value, signed=signed)} ({lower} to {upper})"
