"""`extrap knobs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import Printed, analysis
from extrap.commands.inputs import parse_runs_size, read_table
from extrap.commands.option_table import READING_OPTIONS

if TYPE_CHECKING:
    from extrap.analyses.sensitivity import Sensitivity
    from extrap.records import Runs


@analysis(
    "knobs TABLE",
    f"loss seed {READING_OPTIONS} level output",
    """
    --at target SIZE | Target size: 1024, 8x (8 times the largest) or width=1024. [default: 8x]
    --knob named NAME[=VALUE]... | Setting to rank and its fixed value, default: the most frequent
        one (repeatable). [required]
    --size COLUMN | Size column. [required]
    """,
)
def knobs_command(
    table: str,
    *,
    target: str,
    named: Sequence[str],
    size: str,
    level: float,
    output: str | None,
    **options: Any,
) -> Printed:
    """Rank fixed values by what they will cost at a larger size.

    TABLE is a table of your own runs in which one value at a time is moved, for example halved and
    doubled, at two sizes or more and with the same seeds.

    Example: extrap knobs runs.csv --size width --knob warmup --knob beta2=0.99 --at 4096
    """
    from extrap.analyses.sensitivity import sensitivity
    from extrap.reading.columns import missing_column
    from extrap.reading.mixtures import refuse_mixtures

    if table.endswith(".py"):
        raise click.UsageError(
            f"knobs takes a table of runs, got the study file {table}; to move the values of a "
            "study, define COMPARISON with extrap.analyses.comparison.moves(STUDY)."
        )
    knobs = _parse_knobs(named)
    runs = read_table(table, options, size=size, tune=(), may_mix=True)
    target_size = parse_runs_size(target, runs)
    if set(target_size) != {size}:
        raise click.UsageError(f"--at names the size column {size}, got {target!r}.")
    have = list(map(str, runs.to_frame().columns))
    for name in knobs:
        if name not in have:
            raise missing_column(name, have, runs.source or table, option="named")
    refuse_mixtures(runs, ignored=[*knobs, *options["ignore"]], part="named")
    ranking = sensitivity(runs, knobs, target=target_size[size], level=level)
    return Printed(
        ranking, notes=[] if output is None else [_sensitivity_page(ranking, runs, output)]
    )


def _sensitivity_page(ranking: Sensitivity, runs: Runs, path: str) -> str:
    """Write the page; the line that says where."""
    from extrap.analyses.sensitivity.page import sensitivity_page
    from extrap.reporting.html import write_page
    from extrap.reporting.study_page import About

    provenance = {"source of the runs": runs.source, "data hash (SHA-256)": runs.data_hash()}
    question = "Which fixed value should be tuned before scaling up?"
    about = About(f"Sensitivity of {runs.source}", question, provenance)
    return f"wrote {write_page(sensitivity_page(ranking, about), path)}"


def _parse_knobs(texts: Sequence[str]) -> dict[str, float | str | None]:
    """`warmup`, `beta2=0.999`, `precision=fp32` as knob → fixed value, None for the commonest."""
    knobs: dict[str, float | str | None] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or (equals and not value) or name in knobs:
            raise click.UsageError(f"--knob is NAME or NAME=VALUE, each name once; got {text!r}.")
        try:
            knobs[name] = float(value) if equals else None
        except ValueError:
            knobs[name] = value
    return knobs
