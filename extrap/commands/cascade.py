"""`extrap cascade`: the confidence at which a small model may answer for a large one."""

from __future__ import annotations

import sys

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say


@click.command(name="cascade", cls=Command)
@click.argument("source")
@click.option(
    "--cost-small", default=1.0, show_default=True, help="Cost of one input by the small model."
)
@click.option(
    "--cost-large", type=float, required=True, help="Cost of one input by the large one."
)
@click.option(
    "--cost-filter", default=0.0, show_default=True, help="Cost of one input by the rule."
)
@click.option(
    "--quality",
    type=float,
    help="Share of correct answers, or mean loss, to reach; default: that of the large model.",
)
@click.option("--group", help="Column that groups dependent inputs; default group, if present.")
@click.option(
    "--validation",
    default=0.5,
    show_default=True,
    help="Share of the inputs that choose the threshold; the others test it.",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", default=0, show_default=True, help="Seed of that split.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cascade_command(
    source: str,
    *,
    cost_small: float,
    cost_large: float,
    cost_filter: float,
    quality: float | None,
    group: str | None,
    validation: float,
    level: float,
    seed: int,
    as_json: bool,
) -> None:
    """Choose when a small model may answer for a large one.

    SOURCE is a CSV, Parquet or JSONL file, or - for CSV on the standard input, with one row per
    input. Columns: confidence_small, and correct_small and correct_large (0 or 1) or loss_small
    and loss_large. A column filtered marks inputs that a rule answers, with correct_filter or
    loss_filter. Inputs count as independent, except those of one group.
    """
    from extrap.cascading import cascade
    from extrap.records.codec import document
    from extrap.reporting.cascade_text import cascade_text

    found = cascade(
        sys.stdin if source == "-" else source,
        cost_small=cost_small,
        cost_large=cost_large,
        cost_filter=cost_filter,
        quality=quality,
        group=group,
        validation=validation,
        level=level,
        seed=seed,
    )
    if as_json:
        print_json(document(found))
    else:
        say(cascade_text(found))
