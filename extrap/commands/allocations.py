"""A study file that has an `ALLOCATION`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.commands.printing import say

__all__ = ["study_of_allocation"]


def study_of_allocation(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has an `ALLOCATION`, or say what would be run."""
    from rich.console import Console

    from extrap.allocation_sweeps import plan_allocation, run_allocation
    from extrap.reporting.allocations_page import allocations_text
    from extrap.study_files import allocation_of
    from extrap.tuning.progress import StudyProgress

    study = allocation_of(path, assignments=assignments)
    if dry_run:
        say(plan_allocation(study, storage=storage))
        return
    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        outcome = run_allocation(study, storage=storage, notify=progress.notify, say=say)
    say(allocations_text(outcome.report))
    say(f"sealed    {outcome.seal_path}")
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")
