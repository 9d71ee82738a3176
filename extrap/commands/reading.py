"""Options for reading runs: formulas, final losses, metrics that are maximised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import click

__all__ = ["READING", "Reading", "reading_of", "reading_options"]

READING = (
    click.option(
        "--let",
        multiple=True,
        metavar="FORMULA",
        help='New column, e.g. "lr_mult = lr * width / 256" (repeatable, in order).',
    ),
    click.option(
        "--final",
        default="last",
        show_default=True,
        metavar="RULE",
        help="Final loss of a curve: last, best, tail (mean of the last 5%) or tail:0.1.",
    ),
    click.option(
        "--maximise",
        multiple=True,
        metavar="METRIC",
        help="Metric that is better when larger: the loss is 1 − x of a share, −x below 0 "
        "(repeatable).",
    ),
)


class Reading(TypedDict):
    """What these options say, as `read_runs` takes it."""

    let: tuple[str, ...]
    final: str
    maximise: tuple[str, ...]


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with these options."""
    for option in reversed(READING):
        command = option(command)
    return command


def reading_of(columns: Mapping[str, Any]) -> Reading:
    """The values of these options among those of a command."""
    return Reading(
        let=tuple(columns["let"]), final=columns["final"], maximise=tuple(columns["maximise"])
    )
