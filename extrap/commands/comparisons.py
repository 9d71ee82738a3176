"""A study file that has a `COMPARISON`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.commands.printing import say

__all__ = ["study_of_comparison"]


def study_of_comparison(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has a `COMPARISON`, or say what would be run."""
    from rich.console import Console

    from extrap.comparison_sweeps import plan_comparison, run_comparison
    from extrap.reporting.comparisons_page import comparison_study_text
    from extrap.study_files import comparison_of
    from extrap.tuning.progress import StudyProgress

    study = comparison_of(path, assignments=assignments)
    if dry_run:
        say(plan_comparison(study, storage=storage))
        return
    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        outcome = run_comparison(study, storage=storage, notify=progress.notify, say=say)
    say(comparison_study_text(outcome.findings))
    say(f"comparison {outcome.document_path}")
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")
