"""A study file that has a `CASCADE`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

import click

__all__ = ["study_of_cascade"]


def study_of_cascade(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has a `CASCADE`, or say what would be run."""
    from extrap.cascade_sweeps import plan_cascade, run_cascade
    from extrap.reporting import cascades_text
    from extrap.study_files import cascade_of

    study = cascade_of(path, assignments=assignments)
    if dry_run:
        click.echo(plan_cascade(study, storage=storage))
        return

    def say(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    outcome = run_cascade(study, storage=storage, say=say)
    click.echo(cascades_text(outcome.report))
    click.echo(f"report    {outcome.report_path}")
    click.echo(f"index     {outcome.index_path}")
