"""Was the forecast made before the run? Only then is the run a test of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from extrap.checking.cases import known_number
from extrap.forecasting import Forecast

HAS_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
EARLIEST, LATEST = 1e9, 1e10
"""Seconds since 1970 that may be the start of a run: from 2001 on."""

WORDS = {
    "in-sweep": "The forecast was fitted to this run, so the run does not test it.",
    "begun-before": "The run started before the forecast was made, so it does not test it.",
}


def read_seal(forecast: Forecast) -> frozenset[tuple[object, ...]]:
    """The runs a forecast was made from, each by size, tuned values and loss."""
    rows = forecast.runs.complete().to_frame().to_dict("records")
    return frozenset(_identity(forecast, row) for row in rows)


def precedence(
    forecast: Forecast, row: Mapping[str, Any], known: frozenset[tuple[object, ...]]
) -> str | None:
    """How a run stands to the forecast's seal.

    Args:
        forecast: The forecast; its time is that of the seal once it was saved.
        row: The run; `started_at`, ISO 8601, is looked at if it is there.
        known: What `read_seal` found.

    Returns:
        `"in-sweep"`: it is one of the forecast's own runs; `"begun-before"`: it began before the
        forecast was made; `"sealed-first"`: after; None where its start is not known.
    """
    if row["status"] == "complete" and _identity(forecast, row) in known:
        return "in-sweep"
    began, made = _time(row.get("started_at")), _time(forecast.created)
    if began is None or made is None:
        return None
    return "begun-before" if began < made else "sealed-first"


def _identity(forecast: Forecast, row: Mapping[str, Any]) -> tuple[object, ...]:
    names = (*forecast.runs.sizes, *forecast.runs.tuned, "loss")
    return tuple(
        f"{float(row[name]):.10g}" if known_number(row.get(name)) else "" for name in names
    )


def _time(value: object) -> datetime | None:
    """A time as ISO 8601 with its time of day, or seconds or milliseconds since 1970; else None.

    Without a zone it is taken for UTC.
    """
    text = str(value).strip()
    number = known_number(text)
    if number is not None:
        seconds = number / 1000 if number > LATEST else number
        known = EARLIEST <= seconds <= LATEST
        return datetime.fromtimestamp(seconds, UTC) if known else None
    if not HAS_TIME.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
