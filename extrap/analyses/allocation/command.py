"""`extrap allocate`."""

from __future__ import annotations

from typing import Any

from extrap.commands.analysis import Printed, analysis
from extrap.commands.inputs import announce_columns, path_or_stdin
from extrap.commands.option_table import READING_OPTIONS


@analysis(
    "allocate SOURCE",
    f"loss {READING_OPTIONS} level details",
    """
    --flops FLOAT | Compute budget, in FLOPs. [required]
    --params COLUMN | Column of parameters; default by name.
    --tokens COLUMN | Column of tokens; default by name.
    --compute COLUMN | Column of training FLOPs; default flops if present, else 6 N D.
    --fix NAME=NUMBER... | Fix a parameter of the Chinchilla law, which answers where isoFLOP
        profiles cannot: E, c1 (params) or c2 (tokens) (repeatable).
    --unique-tokens FLOAT | Available tokens; also split when they are repeated.
    --inference-tokens FLOAT | Tokens to serve; also find the cheapest model of the same loss.
    """,
)
def allocate_command(source: str, **options: Any) -> Printed:
    """Split a compute budget between parameters and tokens.

    SOURCE is what extrap forecast reads, with one row per run: its parameters, tokens and final
    loss.

    Example: extrap allocate runs.csv --flops 1e21
    """
    from extrap.analyses.allocation import allocate

    return Printed(announce_columns(allocate(path_or_stdin(source), **options)))
