"""`extrap coord-check`: how far the outputs of every layer move at every width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from extrap.commands.exits import DEVIATES, FINE
from extrap.commands.helping import Command
from extrap.commands.printing import print_json, say


@click.command(name="coord-check", cls=Command)
@click.argument("study_file")
@click.option(
    "--width", multiple=True, type=int, help="Width (repeatable); default: those of the study."
)
@click.option("--steps", default=5, show_default=True, help="Number of updates.")
@click.option("--lr", type=float, help="Learning rate; default: the middle of the study's range.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field of the study, e.g. recipe.parametrization=mup (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def coord_check_command(
    study_file: str,
    *,
    width: Sequence[int],
    steps: int,
    lr: float | None,
    assignments: Sequence[str],
    as_json: bool,
) -> int:
    """Check that layer outputs move equally far at every width.

    Trains the model of STUDY_FILE for a few updates at several widths. Under a width rule that
    lets the learning rate transfer, such as muP, the changes do not depend on width. The exit code
    is 1 if one does.
    """
    from extrap.study import open_study
    from extrap.training import coordinate_check

    spec = open_study(study_file, assignments=assignments, symbol="STUDY").given
    found = coordinate_check(spec, widths=width or None, steps=steps, lr=lr)
    if as_json:
        print_json({**asdict(found), "is_flat": found.is_flat})
    else:
        say(str(found))
    return FINE if found.is_flat else DEVIATES
