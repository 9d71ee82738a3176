"""`extrap check`: larger runs held against a forecast."""

from __future__ import annotations

from typing import Any

import click

from extrap.commands.exits import DEVIATES, FINE
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import (
    big_curves_option,
    forecast_of,
    loss_option,
    read_big,
    sweep_options,
)

__all__ = ["check_command"]


@click.command(name="check")
@click.argument("forecast_or_sweep")
@click.argument("big")
@sweep_options
@loss_option
@big_curves_option
@click.option(
    "--tolerance",
    default=0.005,
    show_default=True,
    help="Relative deviation that is no alarm, however significant.",
)
@click.option(
    "--familywise",
    is_flag=True,
    help="Let the level hold for any false alarm among all configurations, not for each.",
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
    """Hold the larger runs of BIG against a forecast; exit 1 if one is off the law of tuned runs.

    Runs that differ in their seed alone are one configuration and judged together.

    FORECAST_OR_SWEEP is a sealed forecast (.json) or a sweep. Where nothing can be judged that is
    said, and the exit code is 0: no run deviates. With --json see n_judged.
    """
    from extrap.checking import check
    from extrap.documents import verdicts_document
    from extrap.reporting.terminal import NOTHING_JUDGED, verdicts_text

    made = forecast_of(forecast_or_sweep, columns, big=big)
    runs = read_big(big, made, columns)
    verdicts = check(made, runs, tolerance=tolerance, familywise=familywise)
    document = verdicts_document(verdicts, level=made.level, forecast=made, familywise=familywise)
    if as_json:
        print_json(document)
        if not document["n_judged"]:
            say(NOTHING_JUDGED, err=True)
    else:
        say(verdicts_text(verdicts, made, familywise=familywise))
    return FINE if document["ok"] else DEVIATES
