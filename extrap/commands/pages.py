"""`extrap page`, `extrap index` and `extrap beside`: what is made of reports that exist."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from extrap.commands.arguments import parse_tuned
from extrap.commands.printing import print_json, say
from extrap.commands.sweeps import read_table_of_runs
from extrap.files import write_text

__all__ = ["beside_command", "index_command", "page_command", "write_besides"]


def write_besides(page: str | Path, *, markdown: str | None, figures: str | None) -> None:
    """Say that a report was written, and write its summary and its figures where asked.

    Args:
        page: The report.
        markdown: File of the summary, `-` for the standard output; its link is relative to it.
        figures: Folder of the figures and tables.
    """
    from extrap.reporting import read_report, report_markdown, save_figures

    say(f"wrote {page}", err=markdown == "-")
    if figures:
        say(f"wrote {len(save_figures(page, figures))} files into {figures}", err=markdown == "-")
    if markdown == "-":
        say(report_markdown(read_report(page), link=Path(page).as_posix()).rstrip("\n"))
    elif markdown:
        link = Path(os.path.relpath(page, Path(markdown).parent)).as_posix()
        write_text(markdown, report_markdown(read_report(page), link=link))
        say(f"wrote {markdown}")


@click.command(name="page")
@click.argument("page", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the page's numbers as JSON.")
@click.option(
    "--files",
    type=click.Path(file_okay=False),
    help="Write its figures (SVG, PNG) and tables (CSV) into this folder.",
)
@click.option("--link", help="Address of the page, for the last line of the summary.")
def page_command(page: str, *, as_json: bool, files: str | None, link: str | None) -> None:
    """Print what the report PAGE says: a summary in Markdown, or its numbers as JSON.

    The summary fits a pull request or, in a GitHub workflow, $GITHUB_STEP_SUMMARY.
    """
    from extrap.reporting import read_report, report_markdown, save_figures

    if files:
        written = save_figures(page, files)
        say(f"wrote {len(written)} files into {files}", err=as_json)
    document = read_report(page)
    if as_json:
        print_json(document)
    elif not files:
        say(report_markdown(document, link=link).rstrip("\n"))


@click.command(name="index")
@click.argument("folder", default="reports", type=click.Path(file_okay=False, exists=True))
def index_command(folder: str) -> None:
    """Write FOLDER/index.html over all reports of FOLDER, of whatever kind; newest first."""
    from extrap.reporting import write_index

    say(f"wrote {write_index(folder)}")


@click.command(name="beside")
@click.argument("first")
@click.argument("second")
@click.option("--size", multiple=True, help="A size column, where a sweep is given (repeatable).")
@click.option("--tune", multiple=True, help="A tuned column, where a sweep is given (repeatable).")
@click.option("--loss", help="The loss column of a sweep; default loss.")
@click.option("--title", help="Title of the page.")
@click.option(
    "-o", "--output", default="reports/beside.html", show_default=True, help="The HTML file."
)
def beside_command(
    first: str, second: str, *, output: str, title: str | None, **columns: Any
) -> None:
    """Write a page with the studies FIRST and SECOND side by side.

    Each is a report (.html), a sealed forecast (.json), or a sweep as forecast takes it. It tests
    nothing: whether two recipes differ is what `extrap compare` tells, from their runs.
    """
    from extrap.reporting.beside import beside_page

    given = [name for name, value in columns.items() if value not in (None, ())]
    if given and not any(map(_is_sweep, (first, second))):
        raise click.UsageError(
            f"--{given[0]} says how a sweep is read, and neither {first} nor {second} is one: "
            "both hold what they were made from; leave the option out."
        )
    both = [_document(source, columns) for source in (first, second)]
    say(f"wrote {beside_page(*both, path=output, title=title)}")


def _is_sweep(source: str) -> bool:
    return not source.endswith((".html", ".htm", ".json"))


def _document(source: str, columns: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a report, of a sealed forecast, or of a forecast from a sweep."""
    from extrap.reporting import read_report
    from extrap.reporting.page import report_document

    if source.endswith((".html", ".htm")):
        return read_report(source)
    if source.endswith(".json"):
        from extrap.documents import load_forecast

        return report_document(load_forecast(source), title=Path(source).stem)
    from extrap.forecasting import forecast

    given = {**dict.fromkeys(("where", "rename", "let", "maximise"), ()), "final": "last"}
    runs = read_table_of_runs(source, given | columns, tune=parse_tuned(columns["tune"]))
    return report_document(forecast(runs), title=Path(source).name)
