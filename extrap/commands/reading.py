"""Options for reading runs: rows, names, formulas, final losses, maximised metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from extrap.reading.runs import RowKeywords

READING = (
    click.option(
        "--where",
        multiple=True,
        metavar="COLUMN=VALUE",
        help="Read only rows with this value (repeatable).",
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="COLUMN",
        help="Take runs that differ in this column for replicates (repeatable).",
    ),
    click.option(
        "--partial",
        is_flag=True,
        help="Count runs too that stopped before the steps which others of their size reach.",
    ),
    click.option(
        "--rename",
        multiple=True,
        metavar="OLD=NEW",
        help="Rename a column before anything else is read (repeatable).",
    ),
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
        help="Final loss of a curve: last, best, tail (mean of the last 5 %) or tail:0.1.",
    ),
    click.option(
        "--maximise",
        multiple=True,
        metavar="METRIC",
        help="Metric that is better when larger: the loss is 1 − x of a share, −x below 0 "
        "(repeatable).",
    ),
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with these options."""
    for option in reversed(READING):
        command = option(command)
    return command


def reading_of(columns: Mapping[str, Any]) -> RowKeywords:
    """The values of these options among those of a command."""
    where: dict[str, list[str]] = {}
    for name, value in _pairs("where", columns["where"], "warmup=100"):
        where.setdefault(name, []).append(value)
    return {
        "where": where,
        "ignore": tuple(columns["ignore"]),
        "partial": columns["partial"],
        "rename": dict(_pairs("rename", columns["rename"], "learning_rate=lr")),
        "let": tuple(columns["let"]),
        "final": columns["final"],
        "maximise": tuple(columns["maximise"]),
    }


def _pairs(option: str, texts: Iterable[str], example: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, found, value = (part.strip() for part in text.partition("="))
        if not (name and found):
            raise click.UsageError(
                f"--{option} takes a name and a value, as in {example}; got {text!r}."
            )
        yield name, value
