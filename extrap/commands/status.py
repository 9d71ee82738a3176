"""`extrap study status`: the progress of a study, once or live."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from extrap.commands.helping import Command
from extrap.commands.printing import print_json


@click.command(name="status", cls=Command)
@click.argument("path")
@click.option("--storage", help="Storage URL; default sqlite:///.extrap/NAME.db.")
@click.option("--watch", is_flag=True, help="Refresh every few seconds until all is done.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; with --watch a line per change."
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field, as in extrap study run (repeatable).",
)
def status_command(
    path: str, *, storage: str | None, watch: bool, as_json: bool, assignments: Sequence[str]
) -> None:
    """Show the progress of a study.

    PATH is the study file; its storage is only read. JSON has the whole numbers `cells` =
    `complete` + `running` + `waiting` + `failed`, and `diverged` and `duplicates` among the
    complete ones; then `done`, `eta_s`, `cost` (`wall_s`, `flops`), `sizes` (the same counts for
    each), `workers`, `optima` and `notes`.
    """
    from extrap.commands.live_status import follow, show
    from extrap.study import open_study
    from extrap.study.status import study_status

    look = partial(study_status, open_study(path, assignments=assignments), storage)
    if watch:
        follow(look, as_json=as_json)
    elif as_json:
        print_json(look().to_dict())
    else:
        show(look())
