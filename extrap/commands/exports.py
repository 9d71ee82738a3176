"""`extrap study export`, `import` and `repair`: what a storage holds, carried and mended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from extrap.commands.printing import say

__all__ = ["export_command", "import_command", "repair_command"]


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
            help="Override a field, as of extrap study run (repeatable).",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(name="export")
@_of_a_study
@click.option("--out", required=True, help="The file to write: FILE.parquet.")
def export_command(
    path: str, *, storage: str | None, assignments: Sequence[str], out: str
) -> None:
    """Write all finished trials of the study file PATH to one Parquet file.

    The file holds what the storage does, the fingerprint and the seals too, but nothing of
    workers and no address.
    """
    from extrap.sweeps import export_study, open_study_file

    n_trials = export_study(open_study_file(path, assignments=assignments), out, storage=storage)
    say(f"wrote {n_trials} trials to {out}")


@click.command(name="import")
@_of_a_study
@click.argument("file")
def import_command(
    path: str, *, storage: str | None, assignments: Sequence[str], file: str
) -> None:
    """Copy the runs of FILE, an export, into the storage of the study file PATH.

    What is there already stays; importing twice changes nothing. Seals come along, with the
    times that FILE gives: whoever wrote it may have put in any.
    """
    from extrap.sweeps import import_study, open_study_file

    say(import_study(open_study_file(path, assignments=assignments), file, storage=storage))


@click.command(name="repair")
@_of_a_study
@click.option("--dry-run", is_flag=True, help="Say what is found, and mend nothing.")
def repair_command(
    path: str, *, storage: str | None, assignments: Sequence[str], dry_run: bool
) -> None:
    """Find and mend trials of dead workers, second results, half-written and unreadable ones.

    Workers of other machines are listened to for as long as they said they might be silent.
    Nothing is deleted: finished trials are set aside, and their cells are trained anew. What
    is unreadable is kept as text.
    """
    from extrap.sweeps import open_study_file, repair_study

    study = open_study_file(path, assignments=assignments)
    found = repair_study(study, storage=storage, dry_run=dry_run, say=say)
    for fault in found:
        say(fault)
    verb = "found" if dry_run else "found and mended"
    say(f"{len(found)} faults {verb}" if found else "nothing to mend")
