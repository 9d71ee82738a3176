"""A study file that has `LEVERS`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.commands.printing import say

__all__ = ["study_of_levers"]


def study_of_levers(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has `LEVERS`, or say what would be run."""
    from rich.console import Console

    from extrap.lever_sweeps import plan_levers, run_levers
    from extrap.reporting.ablation_page import levers_text
    from extrap.study_files import levers_of
    from extrap.tuning.progress import StudyProgress

    study = levers_of(path, assignments=assignments)
    if dry_run:
        say(plan_levers(study, storage=storage))
        return
    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        outcome = run_levers(study, storage=storage, notify=progress.notify, say=say)
    say(levers_text(outcome.report))
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")
