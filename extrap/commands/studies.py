"""Study files on the command line: run and report."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from extrap.commands.printing import say

if TYPE_CHECKING:
    from extrap.study import Kind, Outcome


def run_study_file(
    path: str,
    assignments: Sequence[str],
    *,
    cells: str | None,
    storage: str | None,
    dry_run: bool,
    device: str | None,
    cluster: str | None,
    n_gpus: float,
    accepts: bool,
    quiet: bool,
) -> None:
    """Run the study in a file, or say what would be run."""
    from extrap import study as studies

    study = studies.open_study(path, assignments=assignments)
    if cells is not None:
        from extrap.study.forecasts import ForecastKind
        from extrap.study.protocol import read_cells

        if not isinstance(study, ForecastKind):
            raise click.UsageError(
                f"--cells adds runs to a STUDY, {path} defines {study.symbol}; leave it out."
            )
        study.cells = read_cells(cells, study.study)
    if dry_run:
        say(studies.dry_run(study, storage=storage))
        return
    if accepts:
        accept_training(study, path, storage)
    if device is not None and any(map(study.training_of, study.specs())):
        raise click.UsageError(
            f"--device is for extrap's training, {path} has TRAIN or COMMAND; set "
            "CUDA_VISIBLE_DEVICES instead."
        )
    with ExitStack() as stack:
        executor: Executor | None = None
        if cluster is not None:
            from extrap.study.clusters import executor_on

            executor = stack.enter_context(executor_on(cluster, n_gpus=n_gpus))
        outcome = run_shown(study, storage=storage, quiet=quiet, device=device, executor=executor)
    say(f"{outcome.text()}\n")
    files = {**outcome.sealed, "report": outcome.report_path, "index": outcome.index_path}
    width = max(map(len, files))
    for what, file in files.items():
        say(f"{what:<{width}}  {file}")


def run_shown(
    study: Kind,
    *,
    storage: str | None,
    quiet: bool,
    output: str | None = None,
    err: bool = False,
    device: str | None = None,
    executor: Executor | None = None,
) -> Outcome:
    """Run or resume a study and show its progress; its lines may go to stderr."""
    from rich.console import Console

    from extrap.study import run
    from extrap.study.progress import StudyProgress

    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        return run(
            study,
            storage=storage,
            path=output,
            notify=progress.notify,
            device=device,
            executor=executor,
            say=partial(say, err=err),
        )


def accept_training(study: Kind, path: str, storage: str | None) -> None:
    """Accept a changed TRAIN or COMMAND."""
    from extrap.study import default_storage
    from extrap.study.transfer import adopt_training

    trains = [(spec, train) for spec in study.specs() if (train := study.training_of(spec))]
    if not trains:
        raise click.UsageError(
            f"--accept-training is for a file with TRAIN or COMMAND, {path} has none; leave it "
            "out."
        )
    for spec, train in trains:
        for change in adopt_training(spec, storage or default_storage(study), train):
            say(f"{spec.name}: {change}")


def report_study_file(
    path: str, *, storage: str | None, table: str | None, output: str | None
) -> Path:
    """Report on the study in a file without training, and return the page written."""
    from extrap.study import open_study, report

    study = open_study(path)
    if table is not None and not study.reads_tables:
        raise click.UsageError(
            f"the page of a file with {study.symbol} is made from its storage, got the table "
            f"{table} too; leave it out, or name the storage with --storage."
        )
    return report(study, storage=storage, table=table, path=output).report_path
