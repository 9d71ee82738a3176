"""`extrap cost`: what a choice of tuned values costs at a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.arguments import parse_assignments
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import forecast_of, loss_option, size_of, sweep_options


@click.command(name="cost", cls=Command)
@click.argument("forecast_or_sweep")
@sweep_options
@loss_option
@click.option(
    "--at",
    required=True,
    help="The size: 4096, 8x (the largest swept), or params=1e9,tokens=2e10.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Tuned value at that size, e.g. lr=3e-4 (repeatable); default: the recommended one.",
)
@click.option("--flops", type=float, help="FLOPs of the run; default: from the sweep.")
@click.option(
    "--gpu-hours", type=float, help="GPU-hours of the run; default: from the column wall_s."
)
@click.option("--flops-per-s", type=float, help="Speed of a GPU, to turn FLOPs into hours.")
@click.option("--price", type=float, help="Price of a GPU-hour.")
@click.option(
    "--cost",
    "formula",
    metavar="FORMULA",
    help="FLOPs of a run as a formula, e.g. '6 * n_params * n_tokens'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cost_command(
    forecast_or_sweep: str,
    *,
    at: str,
    assignments: Sequence[str],
    flops: float | None,
    gpu_hours: float | None,
    flops_per_s: float | None,
    price: float | None,
    formula: str | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Estimate what a choice of tuned values costs.

    The cost is in loss, compute, GPU-hours and money. FORECAST_OR_SWEEP is a sealed forecast
    (.json) or a sweep.
    """
    from extrap.planning import cost
    from extrap.records.codec import document
    from extrap.reporting.costs import cost_text

    made = forecast_of(forecast_or_sweep, columns)
    found = cost(
        made,
        at=size_of(at, made),
        tuned=parse_assignments(assignments, option="--set", example="lr=3e-4") or None,
        flops=flops,
        gpu_hours=gpu_hours,
        flops_per_s=flops_per_s,
        price=price,
        formula=formula,
    )
    if as_json:
        print_json(document(found))
    else:
        say(cost_text(found))
