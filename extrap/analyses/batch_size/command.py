"""`extrap critical-batch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.analysis import Printed, analysis
from extrap.commands.inputs import announce_columns, path_or_stdin
from extrap.commands.option_table import parse_size


@analysis(
    "critical-batch SOURCE",
    "where ignore rename let level details",
    """
    --batch COLUMN | Column of batch sizes. [default: batch_size]
    --steps COLUMN | Column of steps. [default: steps]
    --by COLUMN... | Column that defines groups, e.g. params (repeatable).
    --seed COLUMN | Seed column. [default: seed]
    --overhead FLOAT | Share of examples above linear scaling that is accepted. [default: 0.2]
    --from from_batch FLOAT | Batch size from which linear scaling is counted; default: the largest
        of the groups' smallest batch sizes that reached the target.
    --at sizes SIZE... | Group to forecast: 7e9, or params=7e9,target=2.5 (repeatable).
    """,
)
def critical_batch_command(source: str, *, sizes: Sequence[str], **options: Any) -> Printed:
    """Estimate critical batch sizes from steps to a target.

    SOURCE is what extrap forecast reads, with one row per batch size, each with its own tuned
    learning rate. Further rows of one batch size are replicates. Rows without steps, or with the
    status censored, did not reach the target; their steps or their column budget are lower bounds.
    Any other setting that varies within a group is an error: name it with --by or --ignore.

    Example: extrap critical-batch steps.csv --by width --by target
    """
    from extrap.analyses.batch_size import critical_batch
    from extrap.analyses.batch_size.page import critical_blocks
    from extrap.records.codec import encode

    if sizes and not options["by"]:
        raise click.UsageError("--at asks for a size of a --by column; name one: --by params.")
    limits = announce_columns(critical_batch(path_or_stdin(source), **options))
    columns = limits.laws["b_crit"].columns if limits.laws else limits.by
    forecasts = [limits.at(**parse_size(text, columns)) for text in sizes]
    more = {"forecasts": forecasts} if forecasts else {}
    return Printed(
        limits,
        critical_blocks(limits, forecasts),
        document=lambda: {**limits.to_dict(), **encode(more)},
    )
