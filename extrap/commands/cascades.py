"""A study file that has a `CASCADE`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.commands.printing import say

__all__ = ["study_of_cascade"]


def study_of_cascade(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has a `CASCADE`, or say what would be run."""
    from extrap.cascade_sweeps import plan_cascade, run_cascade
    from extrap.reporting.cascades_page import cascades_text
    from extrap.study_files import cascade_of

    study = cascade_of(path, assignments=assignments)
    if dry_run:
        say(plan_cascade(study, storage=storage))
        return

    def tell(line: str) -> None:
        if not quiet:
            say(line, err=True)

    outcome = run_cascade(study, storage=storage, say=tell)
    say(cascades_text(outcome.report))
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")
