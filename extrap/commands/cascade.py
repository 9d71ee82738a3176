"""`extrap cascade`: at which confidence a small model may answer in place of a large one."""

from __future__ import annotations

import sys

import click

from extrap.commands.printing import print_json, say

__all__ = ["cascade_command"]


@click.command(name="cascade")
@click.argument("source")
@click.option(
    "--cost-small", default=1.0, show_default=True, help="Cost of an input by the small model."
)
@click.option("--cost-large", type=float, required=True, help="The same by the large model.")
@click.option(
    "--cost-filter", default=0.0, show_default=True, help="The same by the rule, where it answers."
)
@click.option(
    "--quality",
    type=float,
    help="Share of correct answers, or mean loss, to reach; default that of the large model.",
)
@click.option("--group", help="Column of inputs that belong together; default group, if any.")
@click.option(
    "--validation",
    default=0.5,
    show_default=True,
    help="Share of the inputs on which the threshold is chosen; the others judge it.",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", default=0, show_default=True, help="Seed of the split.")
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
    """Choose the confidence at which a small model may answer, and say what that saves.

    SOURCE is a CSV, Parquet or JSONL file, or - for CSV on the standard input: one row an input,
    with the columns confidence_small, correct_small and correct_large (0 or 1), or loss_small and
    loss_large. A column filtered marks inputs that a rule answers, with correct_filter or
    loss_filter. Inputs are taken as independent, but for those of one group.
    """
    from extrap.cascading import cascade, cascade_document
    from extrap.reporting.cascades_page import cascade_text

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
        print_json(cascade_document(found))
    else:
        say(cascade_text(found))
