"""`extrap backtest`: forecasts from the small sizes of a sweep, tested on its larger ones."""

from __future__ import annotations

from typing import Any

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import (
    backtested,
    loss_option,
    sweep_options,
)


@click.command(name="backtest", cls=Command)
@click.argument("sweep")
@sweep_options
@loss_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backtest_command(sweep: str, *, as_json: bool, **columns: Any) -> None:
    """Fit the small sizes, test on the larger ones.

    SWEEP is what extrap forecast reads. A sealed forecast gives its runs, its band and its fixed
    parameters.
    """
    from extrap.backtesting import backtest
    from extrap.records.codec import document
    from extrap.reporting.backtests import backtest_answer
    from extrap.reporting.terminal import backtest_text

    level = 0.9 if columns["level"] is None else columns["level"]
    runs, band, fix = backtested(sweep, columns)
    found = backtest(runs, level=level, band=band, fix=fix)
    if as_json:
        print_json(document(found, answer=backtest_answer(found).plain))
    else:
        say(backtest_text(found))
