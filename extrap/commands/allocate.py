"""`extrap allocate`: split a compute budget between parameters and tokens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.arguments import parse_assignments
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.reading import reading_of, reading_options


@click.command(name="allocate", cls=Command)
@click.argument("source")
@click.option("--flops", type=float, required=True, help="Compute budget, in FLOPs.")
@click.option("--params", help="Column of parameters; default by name.")
@click.option("--tokens", help="Column of tokens; default by name.")
@click.option("--loss", help="The loss column; default loss, else by name.")
@click.option("--compute", help="Column of training FLOPs; default flops if present, else 6 N D.")
@reading_options
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--fix",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fix a parameter of the law: E, c1 (params) or c2 (tokens) (repeatable).",
)
@click.option(
    "--unique-tokens", type=float, help="Available tokens; also split when they are repeated."
)
@click.option(
    "--inference-tokens",
    type=float,
    help="Tokens to serve; also find the cheapest model of the same loss.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def allocate_command(
    source: str,
    *,
    flops: float,
    params: str | None,
    tokens: str | None,
    loss: str | None,
    compute: str | None,
    level: float,
    fix: Sequence[str],
    unique_tokens: float | None,
    inference_tokens: float | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Split a compute budget between parameters and tokens.

    SOURCE is what extrap forecast reads, with one row per run: its parameters, tokens and final
    loss.
    """
    from extrap.planning import allocate
    from extrap.records.codec import document
    from extrap.reporting.allocations_page import allocation_text

    found = allocate(
        sys.stdin if source == "-" else source,
        flops=flops,
        params=params,
        tokens=tokens,
        loss=loss,
        compute=compute,
        level=level,
        fix=parse_assignments(fix, option="--fix", example="E=1.7"),
        unique_tokens=unique_tokens,
        inference_tokens=inference_tokens,
        **reading_of(reading),
    )
    if as_json:
        print_json(document(found))
    else:
        say(allocation_text(found))
