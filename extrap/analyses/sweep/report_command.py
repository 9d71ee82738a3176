"""`extrap report`: the page of a sweep and its larger runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import command
from extrap.commands.inputs import (
    checked_source_kind,
    load_or_fit_forecast,
    parse_forecast_size,
    read_big,
)
from extrap.commands.option_table import FORECAST_OPTIONS
from extrap.commands.printing import say
from extrap.files import write_text

if TYPE_CHECKING:
    from extrap.forecasting import Forecast
    from extrap.records import Runs, Verdict
    from extrap.reporting.blocks import Page


@command(
    "report SWEEP [BIG]",
    f"{FORECAST_OPTIONS} big_curves output storage",
    """
    --loss losses TEXT... | Loss column, default loss; each further one gets a short section
        (repeatable). | table big
    --title TEXT | Title of the page. | table sealed
    --at SIZE... | A size the answer is about: 4096, 8x (8 times the largest fitted), width=4096,
        or params=1e9,tokens=2e10 (repeatable). | table sealed
    --price AMOUNT | Price of an hour of training, to price waste; needs the columns wall_s and
        flops. | table sealed
    --markdown FILE | Write a summary for a pull request to this file; - prints it.
    """,
)
def report_command(
    sweep: str,
    big: str | None,
    *,
    losses: Sequence[str],
    output: str | None,
    at: Sequence[str],
    markdown: str | None,
    **options: Any,
) -> None:
    """Write an HTML report on a sweep and its larger runs.

    SWEEP is what extrap forecast reads; BIG holds the larger runs. SWEEP may also be a study
    file: then the report is made from its storage, or from the run table BIG that the study wrote
    to reports/NAME.runs.csv. Nothing is trained.
    """
    if checked_source_kind(sweep, big) == "study":
        from extrap.commands.study_files import report_study_file

        outcome = report_study_file(sweep, storage=options["storage"], table=big, output=output)
        _say_written(outcome.page, outcome.report_path, markdown=markdown)
        return
    from extrap.analyses.sweep.page import forecast_page
    from extrap.records.seals import is_sealed_file
    from extrap.reporting.html import write_page

    first, *others = dict.fromkeys(losses or options["maximise"][:1] or (None,))
    once = [source for source in (sweep, big) if source == "-" or is_sealed_file(source)]
    if others and once:
        raise click.UsageError(
            f"several --loss need tables that can be read again, got {once[0]}; give one --loss."
        )
    forecast, verdicts, runs = _judged(sweep, big, {**options, "loss": first})
    metrics = {str(name): _judged(sweep, big, {**options, "loss": name})[:2] for name in others}
    page = forecast_page(
        forecast,
        verdicts,
        at=[parse_forecast_size(text, forecast) for text in at],
        title=options["title"],
        metrics=metrics,
        runs=runs,
        price=options["price"],
    )
    _say_written(page, write_page(page, output or "reports/report.html"), markdown=markdown)


def _judged(
    sweep: str, big: str | None, options: dict[str, Any]
) -> tuple[Forecast, tuple[Verdict, ...], Runs | None]:
    """A forecast, the verdicts on its larger runs, and these if any are given."""
    from extrap.analyses.sweep.verdicts import check

    forecast = load_or_fit_forecast(sweep, options, big=big)
    runs = read_big(big, forecast, options, sweep=sweep) if big else None
    return forecast, () if runs is None else check(forecast, runs), runs


def _say_written(page: Page, path: Path, *, markdown: str | None) -> None:
    """Say that a report was written, and write its summary where asked; `-` prints it."""
    from extrap.reporting.markdown import report_markdown
    from extrap.reporting.text import blocks_text

    say(f"{blocks_text([page.answer])}\nwrote {path}", err=markdown == "-")
    if markdown is None:
        return
    page_path = path if markdown == "-" else os.path.relpath(path, Path(markdown).parent)
    text = report_markdown(page, link=Path(page_path).as_posix())
    if markdown == "-":
        say(text.rstrip("\n"))
    else:
        write_text(markdown, text)
        say(f"wrote {markdown}")
