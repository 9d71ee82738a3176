"""`extrap forecast`: hyperparameters and loss at larger sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import (
    forecast_of,
    loss_option,
    size_of,
    sweep_options,
)


@click.command(name="forecast", cls=Command)
@click.argument("sweep")
@sweep_options
@loss_option
@click.option(
    "--at",
    multiple=True,
    help="A size to forecast: 4096, 8x (8 times the largest swept), width=4096, or "
    "params=1e9,tokens=2e10 (repeatable).",
)
@click.option("--save", type=click.Path(dir_okay=False), help="Seal the forecast in this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def forecast_command(
    sweep: str,
    *,
    at: Sequence[str],
    save: str | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Forecast the best values and the loss at larger sizes.

    SWEEP is a CSV, Parquet or JSONL file, the URL of an Optuna storage or MLflow store, a folder
    of a tracker's runs, a sealed forecast (.json), or - for CSV on the standard input.
    """
    from extrap.documents import SHOWN, forecast_document, save_forecast
    from extrap.reporting.forecast_answer import answer_rows, forecast_answer
    from extrap.reporting.terminal import forecast_text

    made = forecast_of(sweep, columns)
    sizes = [size_of(text, made) for text in at] or made.default_targets()
    points = [made.at(**size) for size in sizes]
    if as_json:
        answer = forecast_answer(made, answer_rows(made, (), sizes))
        print_json({"answer": answer.plain, **forecast_document(made, points)})
    else:
        say(forecast_text(made, points))
    if save:
        sealed = save_forecast(made, save)
        say(f"sealed in {save}, content hash {sealed[:SHOWN]}", err=as_json)
