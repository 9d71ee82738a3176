"""A study file that has `BATCHES`: what `extrap study run` does with it."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.commands.printing import say

__all__ = ["study_of_batches"]


def study_of_batches(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has `BATCHES`, or say what would be run."""
    from rich.console import Console

    from extrap.batch_sweeps import plan_batches, run_batches
    from extrap.reporting.embedded import read_blocks
    from extrap.reporting.text import blocks_text
    from extrap.study_files import batches_of
    from extrap.tuning.progress import StudyProgress

    study = batches_of(path, assignments=assignments)
    if dry_run:
        say(plan_batches(study, storage=storage))
        return
    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        outcome = run_batches(study, storage=storage, notify=progress.notify, say=say)
    say(f"{blocks_text(read_blocks(outcome.report_path))}\n")
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")
