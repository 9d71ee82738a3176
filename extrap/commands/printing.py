"""What the command line prints: text without hidden characters, JSON, and what takes long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import click

from extrap.files import as_written

REPORT_AFTER_S = 2.0
"""Seconds; what takes less is not reported."""


def say(text: object, *, err: bool = False) -> None:
    """Print text; what would command the terminal, from whatever file it came, is spelled out.

    Args:
        text: The text.
        err: Whether to print it on the standard error.
    """
    click.echo(as_written(str(text)), err=err)


def print_json(document: dict[str, Any]) -> None:
    """Print a document; a number that is not finite is an error of ours."""
    say(json.dumps(document, allow_nan=False, indent=1))


@contextmanager
def reports_progress(what: str) -> Iterator[None]:
    """Say what is being done once it takes long, as in `reading runs.csv …`."""
    timer = Timer(REPORT_AFTER_S, say, [f"{what} …"], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
