"""`extrap page` and `extrap index`: what is made from existing reports."""

from __future__ import annotations

import os
from pathlib import Path

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say
from extrap.files import write_text


def write_besides(page: str | Path, *, markdown: str | None) -> None:
    """Say that a report was written, and write its summary where asked.

    Args:
        page: The report.
        markdown: File of the summary, `-` for the standard output; its link is relative to it.
    """
    from extrap.reporting.embedded import read_blocks, read_report
    from extrap.reporting.markdown import report_markdown
    from extrap.reporting.text import blocks_text

    blocks = read_blocks(page)
    say(f"{blocks_text(blocks[:1])}\nwrote {page}", err=markdown == "-")
    if markdown == "-":
        say(
            report_markdown(
                read_report(page), read_blocks(page), link=Path(page).as_posix()
            ).rstrip("\n")
        )
    elif markdown:
        link = Path(os.path.relpath(page, Path(markdown).parent)).as_posix()
        write_text(markdown, report_markdown(read_report(page), blocks, link=link))
        say(f"wrote {markdown}")


@click.command(name="page", cls=Command)
@click.argument("page", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the page's numbers as JSON.")
@click.option("--link", help="Address of the page, for the last line of the summary.")
def page_command(page: str, *, as_json: bool, link: str | None) -> None:
    """Print the summary or the numbers of a report.

    PAGE is an HTML report. The summary is Markdown, for a pull request or, in a GitHub
    workflow, $GITHUB_STEP_SUMMARY.
    """
    from extrap.reporting.embedded import read_blocks, read_report
    from extrap.reporting.markdown import report_markdown

    document = read_report(page)
    if as_json:
        print_json(document)
    else:
        say(report_markdown(document, read_blocks(page), link=link).rstrip("\n"))


@click.command(name="index", cls=Command)
@click.argument("folder", default="reports", type=click.Path(file_okay=False, exists=True))
def index_command(folder: str) -> None:
    """Write the index of all reports in a folder.

    It is FOLDER/index.html and lists reports of every kind, newest first.
    """
    from extrap.reporting.index import write_index

    say(f"wrote {write_index(folder)}")
