"""`extrap critical-batch`: from steps to a target to critical batch sizes and their laws."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.arguments import parse_size
from extrap.commands.printing import print_json, say

__all__ = ["critical_batch_command"]


@click.command(name="critical-batch")
@click.argument("source")
@click.option(
    "--batch", default="batch_size", show_default=True, help="The column of batch sizes."
)
@click.option("--steps", default="steps", show_default=True, help="The column of steps.")
@click.option(
    "--by", multiple=True, help="A column that sets groups apart, e.g. params (repeatable)."
)
@click.option("--seed", default="seed", show_default=True, help="The seed column.")
@click.option(
    "--overhead",
    default=0.2,
    show_default=True,
    help="Share above linear scaling that the batch at the overhead allows.",
)
@click.option(
    "--from",
    "from_batch",
    type=float,
    help="Batch from which linear scaling is counted; default one for all groups: the "
    "largest of their smallest that reached the target.",
)
@click.option(
    "--let",
    multiple=True,
    metavar="FORMULA",
    help='A new column, e.g. "tokens = steps * batch_size" (repeatable, in order).',
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--at",
    multiple=True,
    help="A group to forecast from the laws over groups: 7e9, or params=7e9,target=2.5 "
    "(repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def critical_batch_command(
    source: str,
    *,
    batch: str,
    steps: str,
    by: Sequence[str],
    seed: str,
    overhead: float,
    from_batch: float | None,
    let: Sequence[str],
    level: float,
    at: Sequence[str],
    as_json: bool,
) -> None:
    """Fit steps to a target against batch size, group by group.

    SOURCE is a CSV, Parquet or JSONL file, or - for CSV on the standard input: one row a batch
    size, its learning rate tuned anew; further rows of one batch size are replicates. Rows without
    steps did not reach the target; a column budget makes them lower bounds.
    """
    from extrap.batching import (
        critical_batch,
        critical_batches_document,
        size_forecast_document,
    )
    from extrap.reporting.critical_batches import critical_blocks
    from extrap.reporting.text import blocks_text

    given: Any = sys.stdin if source == "-" else source
    if let:
        from extrap.reading.definitions import with_definitions
        from extrap.reading.tables import read_table

        given = with_definitions(read_table(given), let, source)
    found = critical_batch(
        given,
        batch=batch,
        steps=steps,
        by=by,
        seed=seed,
        overhead=overhead,
        from_batch=from_batch,
        level=level,
    )
    if at and not by:
        raise click.UsageError("--at asks for a size of a --by column; name one: --by params.")
    columns = found.law.columns if found.law is not None else found.by
    forecasts = [found.at(**parse_size(text, columns)) for text in at]
    if as_json:
        told = {"forecasts": [size_forecast_document(f) for f in forecasts]} if forecasts else {}
        print_json({**critical_batches_document(found), **told})
    else:
        say(blocks_text(critical_blocks(found, forecasts)))
