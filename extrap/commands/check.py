"""`extrap check`: finished runs checked against a forecast."""

from __future__ import annotations

from typing import Any

import click

from extrap.commands.exits import DEVIATES, FINE
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import (
    big_curves_option,
    forecast_of,
    loss_option,
    read_big,
    sweep_options,
)

OWN_RUNS = (
    "The forecast was fitted to all of these runs, so they do not test it; give runs that it has "
    "not seen.\n"
)


@click.command(name="check", cls=Command)
@click.argument("forecast_or_sweep")
@click.argument("big")
@sweep_options
@loss_option
@big_curves_option
@click.option(
    "--tolerance",
    default=0.005,
    show_default=True,
    help="Relative deviation that raises no alarm, however significant.",
)
@click.option(
    "--familywise",
    is_flag=True,
    help="Apply the level to all configurations together, not to each.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    forecast_or_sweep: str,
    big: str,
    *,
    tolerance: float,
    familywise: bool,
    as_json: bool,
    **columns: Any,
) -> int:
    """Check finished runs against a forecast.

    FORECAST_OR_SWEEP is a sealed forecast (.json) or a sweep; BIG holds the larger runs. Runs that
    differ only in their seed are one configuration and are judged together.

    The exit code is 1 if a run is off the law of tuned runs. It is 0 if none is, also where some
    or all are undecided; the output says so (on_law null and n_judged with --json).
    """
    from extrap.checking import check
    from extrap.documents import verdicts_document
    from extrap.reporting.terminal import UNDECIDED, check_answer, verdicts_text

    made = forecast_of(forecast_or_sweep, columns, big=big)
    runs = read_big(big, made, columns)
    verdicts = check(made, runs, tolerance=tolerance, familywise=familywise)
    document = verdicts_document(verdicts, level=made.level, forecast=made, familywise=familywise)
    if {each.seal for each in verdicts if each.status == "complete"} == {"in-sweep"}:
        say(OWN_RUNS, err=as_json)
    if as_json:
        answer = check_answer(verdicts, made, familywise=familywise)
        print_json({"answer": answer.plain, **document})
        if not document["n_judged"]:
            say(UNDECIDED, err=True)
    else:
        say(verdicts_text(verdicts, made, familywise=familywise))
    return FINE if document["ok"] else DEVIATES
