"""`extrap knobs`: which fixed values will be wrong at a larger size."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.arguments import parse_size
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.reading import reading_of, reading_options
from extrap.commands.studies import run_shown

if TYPE_CHECKING:
    from pathlib import Path

    from extrap.knobs import KnobReport


@click.command(name="knobs", cls=Command)
@click.argument("source")
@click.option("--at", "target", help="Target size: 1024 or width=1024.")
@click.option("--storage", help="Storage URL of a study file; default sqlite:///.extrap/NAME.db.")
@click.option(
    "--knob",
    "named",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Setting to rank; for a table also its fixed value, default: the most frequent one "
    "(repeatable).",
)
@click.option("--size", help="Size column of a table.")
@click.option("--loss", help="Loss column of a table; default loss.")
@click.option("--seed", default="seed", show_default=True, help="Seed column of a table.")
@reading_options
@click.option("--level", type=float, help="Level of the intervals of a table; default 0.95.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="HTML file to write.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def knobs_command(
    source: str,
    *,
    target: str | None,
    storage: str | None,
    named: Sequence[str],
    output: str | None,
    quiet: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Rank fixed values by what they will cost at a larger size.

    SOURCE is a study file, or a table of your own runs. For a study file, every fixed value is
    halved and doubled at small sizes; the study is run or resumed where runs are missing.
    """
    from extrap.reporting.sensitivity_page import knobs_document, knobs_text

    if source.endswith(".py"):
        given = [n for n, default in _OF_TABLES.items() if columns[n] != default]
        if given:
            raise click.UsageError(
                f"a study file says how its runs are read, {source} was given --{given[0]} too; "
                "leave the option out."
            )
        found, page = _run_knobs(
            source, target, named, storage=storage, output=output, quiet=quiet, as_json=as_json
        )
    else:
        if storage is not None:
            raise click.UsageError("--storage is that of a study file; leave it out for a table.")
        found, page = _read_knobs(source, target, named, output=output, **columns)
    if as_json:
        print_json(knobs_document(found))
    else:
        say(knobs_text(found))
    if page is not None:
        say(f"report    {page}", err=as_json)


_OF_TABLES = {
    "size": None,
    "loss": None,
    "seed": "seed",
    "level": None,
    "where": (),
    "rename": (),
    "let": (),
    "final": "last",
    "maximise": (),
}
"""Options of a table of moved runs, with their defaults."""


def _run_knobs(
    path: str,
    target: str | None,
    named: Sequence[str],
    *,
    storage: str | None,
    output: str | None,
    quiet: bool,
    as_json: bool,
) -> tuple[KnobReport, Path | None]:
    """Run or resume the knob study of a file; of one without `KNOBS` all knobs are moved."""
    from extrap.study import open_study
    from extrap.study.sensitivity import SensitivityKind

    knobs = open_study(path, symbol="KNOBS").study
    knobs = replace(
        knobs,
        knobs=tuple(named) or knobs.knobs,
        target=parse_size(target, (knobs.column,)) if target else knobs.target,
    )
    outcome = run_shown(
        SensitivityKind(knobs), storage=storage, output=output, quiet=quiet, err=as_json
    )
    return outcome.result, outcome.report_path


def _read_knobs(
    source: str,
    target: str | None,
    named: Sequence[str],
    *,
    output: str | None,
    size: str | None,
    loss: str | None,
    seed: str,
    level: float | None,
    **reading: Any,
) -> tuple[KnobReport, Path | None]:
    """Rank the knobs of a table."""
    from extrap.reading.mixtures import refuse_mixtures
    from extrap.reading.runs import as_runs
    from extrap.study.sensitivity import rank_table

    if not size or not named:
        raise click.UsageError(
            "a table needs its size column and the settings that were varied: --size width --knob "
            "warmup --knob beta2=0.999."
        )
    knobs, at = _parse_knobs(named), None if target is None else _target(target, size)
    table, options = sys.stdin if source == "-" else source, reading_of(reading)
    columns = {"size": size, "tune": (), "loss": loss, "seed": seed, **options}
    runs = as_runs(table, columns, may_mix=True)
    refuse_mixtures(runs, ignored=[*knobs, *options["ignore"]])
    return rank_table(
        runs,
        knobs=knobs,
        target=at,
        level=0.95 if level is None else level,
        path=output,
    )


def _target(text: str, size: str) -> float:
    sizes = parse_size(text, (size,))
    if set(sizes) != {size}:
        raise click.UsageError(f"--at names the size column {size}, got {text!r}.")
    return sizes[size]


def _parse_knobs(texts: Sequence[str]) -> dict[str, float | str | None]:
    """`warmup`, `beta2=0.999`, `precision=fp32` as knob → fixed value, None for the commonest."""
    knobs: dict[str, float | str | None] = {}
    for text in texts:
        name, found, value = (part.strip() for part in text.partition("="))
        if not name or (found and not value) or name in knobs:
            raise click.UsageError(f"--knob is NAME or NAME=VALUE, each name once; got {text!r}.")
        try:
            knobs[name] = float(value) if found else None
        except ValueError:
            knobs[name] = value
    return knobs
