"""`extrap plan`: the next runs that narrow the forecast at a size most."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import forecast_of, loss_option, size_of, sweep_options


@click.command(name="plan", cls=Command)
@click.argument("sweep")
@sweep_options
@loss_option
@click.option(
    "--at",
    required=True,
    help="The target: 4096, 8x (the largest swept), or params=1e9,tokens=2e10.",
)
@click.option("--budget", type=float, help="Budget, in FLOPs or the unit of --cost.")
@click.option("--budget-hours", type=float, help="Budget, in hours of the column wall_s.")
@click.option("--runs", "n_runs", type=click.IntRange(min=1), help="Largest number of runs.")
@click.option(
    "--cost",
    metavar="FORMULA",
    help="Cost of a run, e.g. '6 * n_params * n_tokens'; default: the column flops.",
)
@click.option("--aim", help="Narrow only the interval of the loss, or of one tuned column.")
@click.option(
    "--among",
    type=click.Path(dir_okay=False),
    help="Choose only runs of this table: size and tuned columns, optionally seed.",
)
@click.option("--no-larger", is_flag=True, help="Suggest no size above those of the sweep.")
@click.option(
    "--most-seeds",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Most seeds per size and tuned values, including those of the sweep.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False),
    help="Write the suggested runs to this CSV file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan_command(
    sweep: str,
    *,
    at: str,
    budget: float | None,
    budget_hours: float | None,
    n_runs: int | None,
    cost: str | None,
    aim: str | None,
    among: str | None,
    no_larger: bool,
    most_seeds: int,
    out: str | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Suggest the next runs.

    The plan lists their sizes, tuned values and seeds. SWEEP is what extrap forecast reads.
    """
    from extrap.files import write_csv
    from extrap.planning import plan
    from extrap.records.codec import document
    from extrap.reporting.plans import plan_text

    if budget is not None and budget_hours is not None:
        raise click.UsageError("--budget and --budget-hours are two units; give one of them.")
    made = forecast_of(sweep, columns)
    found = plan(
        made,
        at=size_of(at, made),
        budget=budget if budget_hours is None else budget_hours,
        n_runs=n_runs,
        hours=budget_hours is not None,
        cost=cost,
        aim=aim,
        among=sys.stdin if among == "-" else among,
        larger=not no_larger,
        most_seeds=most_seeds,
    )
    if as_json:
        print_json(document(found))
    else:
        say(plan_text(found))
    if out:
        write_csv(found.frame(), Path(out))
        say(f"wrote {len(found.purchases)} runs to {out}", err=as_json)
