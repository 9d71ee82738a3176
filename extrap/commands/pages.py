"""`extrap index`: a table of the pages in a folder."""

from __future__ import annotations

from pathlib import Path

import click

from extrap.commands.analysis import command
from extrap.commands.printing import say


@command("index [FOLDER]")
def index_command(folder: str | None) -> None:
    """Write the index of all reports in a folder.

    FOLDER is reports by default. The index is FOLDER/index.html and lists reports of every kind,
    newest first.
    """
    from extrap.reporting.index import write_index

    folder = folder or "reports"
    if not Path(folder).is_dir():
        raise click.UsageError(f"there is no folder {folder}; check the path.")
    say(f"wrote {write_index(folder)}")
