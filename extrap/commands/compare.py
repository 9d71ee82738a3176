"""`extrap compare`: recipes compared over sizes, each at its best tuned values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.arguments import parse_size, parse_tuned
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.reading import reading_options
from extrap.commands.sweeps import read_table_of_runs

if TYPE_CHECKING:
    from extrap.records import Runs


@click.command(name="compare", cls=Command)
@click.argument("sources", nargs=-1, required=True)
@click.option("--size", multiple=True, help="A size column (repeatable); default by name.")
@click.option("--tune", multiple=True, help="A tuned column, e.g. lr (repeatable).")
@click.option("--loss", help="The loss column; default loss, else by name.")
@click.option("--seed", default="seed", show_default=True, help="The seed column.")
@reading_options
@click.option("--at", help="Target size: 4096, or params=1e9,tokens=2e10.")
@click.option("--names", help="Names of the recipes, separated by commas; default: file names.")
@click.option("--by", help="Column that names the recipe of each run, for a single file.")
@click.option("--plain", help="Name of the plain recipe; default: the first.")
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--price", type=float, help="Price of a GPU-hour.")
@click.option(
    "--flops-per-second", type=float, help="Speed of one GPU; default: from the column wall_s."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare_command(
    sources: Sequence[str],
    *,
    at: str | None,
    names: str | None,
    by: str | None,
    plain: str | None,
    level: float,
    price: float | None,
    flops_per_second: float | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Compare recipes over sizes, each at its best values.

    SOURCES are tables of runs (CSV, Parquet or JSONL), the plain recipe first, or one table whose
    column --by names the recipe of each run. Use the same seeds for all recipes: runs are paired
    by seed and size.
    """
    from extrap.comparing import compare
    from extrap.comparing.arm_checks import read_arms
    from extrap.records.codec import document
    from extrap.reporting.comparisons_page import comparison_text

    if by is None:
        arms = _arms_of_files(sources, names, columns)
    elif names is not None or len(sources) != 1:
        raise click.UsageError(
            "--by splits a single table by the names in its column; leave one table, and --names "
            "out."
        )
    else:
        runs = read_table_of_runs(
            sources[0], columns, tune=_tuned(columns), conditions=(by,), may_mix=True
        )
        arms = read_arms(runs, by)
    found = compare(
        _plain_first(arms, plain),
        at=None if at is None else _target(at, next(iter(arms.values()))),
        level=level,
        price=price,
        flops_per_second=flops_per_second,
    )
    if as_json:
        print_json(document(found))
    else:
        say(comparison_text(found))


def _target(text: str, runs: Runs) -> dict[str, float]:
    frame = runs.to_frame()
    return parse_size(text, runs.sizes, largest={c: float(frame[c].max()) for c in runs.sizes})


def _arms_of_files(
    sources: Sequence[str], names: str | None, columns: dict[str, Any]
) -> dict[str, Runs]:
    from extrap.reading.runs import known_of

    if len(sources) < 2:
        raise click.UsageError(
            f"compare needs two tables or more, got {len(sources)}; or name the column that says "
            "the recipe: --by recipe."
        )
    given = [Path(source).stem for source in sources]
    if names is not None:
        given = [name.strip() for name in names.split(",")]
    if len(given) != len(sources) or not all(given):
        raise click.UsageError(
            f"--names needs one name per table, {len(sources)}, got {names!r}; separate by commas."
        )
    for name in given:
        if given.count(name) > 1:
            raise click.UsageError(
                f"recipes need different names, {name!r} is there twice; give --names plain,…"
            )
    arms: dict[str, Runs] = {}
    known: dict[str, Any] = {"tune": _tuned(columns)}
    for name, source in zip(given, sources, strict=True):
        arms[name] = read_table_of_runs(source, columns, may_mix=True, **known)
        known = known_of(arms[name])
    return arms


def _plain_first(arms: dict[str, Runs], plain: str | None) -> dict[str, Runs]:
    if plain is None:
        return arms
    if plain not in arms:
        raise click.UsageError(
            f"--plain names one of the recipes {', '.join(arms)}, got {plain!r}."
        )
    return {plain: arms[plain], **arms}


def _tuned(columns: dict[str, Any]) -> tuple[str, ...] | None:
    """Tuned columns: of sizes that were named what was named, else what is found."""
    return parse_tuned(columns["tune"]) or (() if columns["size"] else None)
