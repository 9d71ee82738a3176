"""`extrap report`: an HTML page on a sweep and its larger runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.helping import Command
from extrap.commands.pages import write_besides
from extrap.commands.studies import report_study_file
from extrap.commands.sweeps import (
    big_curves_option,
    judged,
    refuse_columns,
    size_of,
    sweep_options,
)


@click.command(name="report", cls=Command)
@click.argument("sweep")
@click.argument("big", required=False)
@sweep_options
@big_curves_option
@click.option(
    "--loss",
    "losses",
    multiple=True,
    help="Loss column, default loss; each further one gets a short section (repeatable).",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="HTML file to write.")
@click.option("--storage", help="Storage URL, if a study file is given.")
@click.option("--title", help="Title of the page.")
@click.option(
    "--at",
    multiple=True,
    help="A size the answer is about: 4096, 8x (8 times the largest swept), width=4096, or "
    "params=1e9,tokens=2e10 (repeatable).",
)
@click.option(
    "--price",
    type=click.FloatRange(min=0),
    help="Price of an hour of training, to price waste; needs the columns wall_s and flops.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write a summary for a pull request to this file; - prints it.",
)
def report_command(
    sweep: str,
    big: str | None,
    *,
    output: str | None,
    storage: str | None,
    title: str | None,
    at: Sequence[str],
    price: float | None,
    markdown: str | None,
    losses: Sequence[str],
    **columns: Any,
) -> None:
    """Write an HTML report on a sweep and its larger runs.

    SWEEP is what extrap forecast reads; BIG holds the larger runs. SWEEP may also be a study
    file: then the report is made from its storage, or from the run table BIG that the study wrote
    to reports/NAME.runs.csv. Nothing is trained.
    """
    first, *others = dict.fromkeys(losses or columns["maximise"][:1] or (None,))
    if sweep.endswith(".py"):
        refuse_columns(sweep, {**columns, "loss": losses})
        page = report_study_file(sweep, storage=storage, table=big, output=output)
        write_besides(page, markdown=markdown)
        return
    from extrap.records.seals import is_sealed_file
    from extrap.reporting.forecast_page import report

    once = [source for source in (sweep, big) if source == "-" or is_sealed_file(source)]
    if others and once:
        raise click.UsageError(
            f"several --loss need tables that can be read again, got {once[0]}; give one --loss."
        )
    made, verdicts, runs = judged(sweep, big, {**columns, "loss": first})
    metrics = {str(name): judged(sweep, big, {**columns, "loss": name})[:2] for name in others}
    path = report(
        made,
        verdicts,
        path=output or "reports/report.html",
        at=[size_of(text, made) for text in at],
        title=title,
        metrics=metrics,
        runs=runs,
        price=price,
    )
    write_besides(path, markdown=markdown)
