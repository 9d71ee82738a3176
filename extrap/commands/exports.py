"""`extrap study export` and `import`: copy what a storage holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from extrap.commands.helping import Command
from extrap.commands.printing import say


def _of_a_study(command: Callable[..., Any]) -> Callable[..., Any]:
    """The study file, its storage and fields of it."""
    options = [
        click.argument("path"),
        click.option("--storage", help="Storage URL; default sqlite:///.extrap/NAME.db."),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a field, as in extrap study run (repeatable).",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(name="export", cls=Command)
@_of_a_study
@click.option(
    "--out", type=click.Path(dir_okay=False), required=True, help="File to write: FILE.db."
)
def export_command(
    path: str, *, storage: str | None, assignments: Sequence[str], out: str
) -> None:
    """Write all finished trials of a study to one file.

    PATH is the study file. The SQLite file is an Optuna storage with the trials, the fingerprint
    and the seals. It holds no address.
    """
    from extrap.study import open_study
    from extrap.study.transfer import export_study

    n_trials = export_study(open_study(path, assignments=assignments), out, storage=storage)
    say(f"wrote {n_trials} trials to {out}")


@click.command(name="import", cls=Command)
@_of_a_study
@click.argument("file")
def import_command(
    path: str, *, storage: str | None, assignments: Sequence[str], file: str
) -> None:
    """Copy the trials of an export into a study's storage.

    PATH is the study file, FILE the export. Trials that are there already stay, and importing
    twice changes nothing. Seals keep the times that FILE states, which nothing proves.
    """
    from extrap.study import open_study
    from extrap.study.transfer import import_study

    say(import_study(open_study(path, assignments=assignments), file, storage=storage))
