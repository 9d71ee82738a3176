"""`extrap critical-batch`: critical batch sizes from steps to a target, and their laws."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from extrap.commands.arguments import parse_size
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say


@click.command(name="critical-batch", cls=Command)
@click.argument("source")
@click.option("--batch", default="batch_size", show_default=True, help="Column of batch sizes.")
@click.option("--steps", default="steps", show_default=True, help="Column of steps.")
@click.option("--by", multiple=True, help="Column that defines groups, e.g. params (repeatable).")
@click.option("--seed", default="seed", show_default=True, help="Seed column.")
@click.option(
    "--overhead",
    default=0.2,
    show_default=True,
    help="Share of examples above linear scaling that is accepted.",
)
@click.option(
    "--from",
    "from_batch",
    type=float,
    help="Batch size from which linear scaling is counted; default: the largest of the "
    "groups' smallest batch sizes that reached the target.",
)
@click.option(
    "--let",
    multiple=True,
    metavar="FORMULA",
    help='New column, e.g. "tokens = steps * batch_size" (repeatable, in order).',
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--at",
    multiple=True,
    help="Group to forecast: 7e9, or params=7e9,target=2.5 (repeatable).",
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
    """Estimate critical batch sizes from steps to a target.

    SOURCE is what extrap forecast reads, with one row per
    batch size, each with its own tuned learning rate. Further rows of one batch size are
    replicates. Rows without steps did not reach the target; a column budget makes them lower
    bounds.
    """
    from extrap.batching import critical_batch
    from extrap.records.codec import document
    from extrap.reporting.critical_batches import critical_blocks
    from extrap.reporting.text import blocks_text

    found = critical_batch(
        sys.stdin if source == "-" else source,
        batch=batch,
        steps=steps,
        by=by,
        seed=seed,
        let=let,
        overhead=overhead,
        from_batch=from_batch,
        level=level,
    )
    if at and not by:
        raise click.UsageError("--at asks for a size of a --by column; name one: --by params.")
    columns = found.law.columns if found.law is not None else found.by
    forecasts = [found.at(**parse_size(text, columns)) for text in at]
    if as_json:
        more = {"forecasts": forecasts} if forecasts else {}
        print_json(document(found, **more))
    else:
        say(blocks_text(critical_blocks(found, forecasts)))
