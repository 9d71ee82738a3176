"""Commands on study files: `study run` and `study status`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import command
from extrap.commands.printing import print_json, say

if TYPE_CHECKING:
    from extrap.study import Kind, Outcome


@command(
    "run PATH",
    "storage assignments quiet",
    """
    --dry-run | List what would be trained, and train nothing.
    --cells FILE | Also train the runs of this table: size and tuned columns and seed, as extrap
        plan -o writes it.
    --device TEXT | Device: cpu, cuda:1, …; default: a GPU if there is one.
    --on CLUSTER | Train on a cluster: ray, ray://HOST:10001 or dask://HOST:8786; default: this
        machine.
    --gpus-per-pack AMOUNT | GPUs that each pack takes on a cluster. [default: 0]
    --checkpoints FOLDER | Folder of checkpoints, on a shared disk or s3://BUCKET/FOLDER if there
        are several machines; default .extrap/checkpoints.
    --stop-within SECONDS | Seconds that training may take to its next evaluation after SIGTERM or
        SIGUSR1. [default: 25]
    --accept-training | Continue although TRAIN or COMMAND changed, and keep the existing runs.
    """,
)
def run_command(
    path: str,
    *,
    storage: str | None,
    assignments: Sequence[str],
    cells: str | None,
    device: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Run or resume a study, and write its report.

    PATH is the study file.
    """
    from extrap import study as studies
    from extrap.commands.stopping import stops_gracefully

    stopping = stops_gracefully(options["stop_within"], checkpoints=options["checkpoints"])
    with stopping as preemption, ExitStack() as stack:
        study = studies.open_study(path, assignments=assignments)
        if cells is not None:
            from extrap.study.protocol import read_cells

            if study.cells is None:
                raise click.UsageError(
                    "--cells adds runs to a study of a kind that takes them, which "
                    f"{study.symbol} of {path} does not; leave it out."
                )
            study.cells = read_cells(cells, study.specs()[0])
        if options["dry_run"]:
            say(studies.dry_run(study, storage=storage))
            return
        if options["accept_training"]:
            _accept_training(study, path, storage)
        if device is not None and any(map(study.training_of, study.specs())):
            raise click.UsageError(
                f"--device is for extrap's training, {path} has TRAIN or COMMAND; set "
                "CUDA_VISIBLE_DEVICES instead."
            )
        executor = None
        if options["on"] is not None:
            from extrap.study.clusters import executor_on

            executor = stack.enter_context(
                executor_on(options["on"], n_gpus=options["gpus_per_pack"])
            )
        outcome = run_shown(
            study,
            storage=storage,
            quiet=quiet,
            device=device,
            executor=executor,
            preemption=preemption,
        )
        say(f"{outcome.text()}\n")
        files = {**outcome.sealed, "report": outcome.report_path, "index": outcome.index_path}
        width = max(map(len, files))
        for what, file in files.items():
            say(f"{what:<{width}}  {file}")


def run_shown(study: Kind, *, quiet: bool, **options: Any) -> Outcome:
    """Run or resume a study and show its progress."""
    from extrap.study import run
    from extrap.study.progress import StudyProgress

    with StudyProgress(quiet=quiet) as progress:
        return run(study, notify=progress.notify, say=progress.above(say), **options)


def _accept_training(study: Kind, path: str, storage: str | None) -> None:
    """Accept a changed TRAIN or COMMAND."""
    from extrap.study import default_storage
    from extrap.study.trials import adopt_training

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
) -> Outcome:
    """Report on the study in a file without training."""
    from extrap.study import open_study, report

    return report(open_study(path), storage=storage, table=table, path=output)


@command(
    "status PATH",
    "storage",
    """
    --watch | Refresh every few seconds until all is done.
    --json as_json | Print JSON; with --watch a line per change.
    """,
)
def status_command(path: str, *, storage: str | None, watch: bool, as_json: bool) -> None:
    """Show the progress of a study, as it was last run.

    PATH is the study file, of which only the study's name is read; its storage is only read. JSON
    has the whole numbers `cells` = `complete` + `running` + `waiting` + `failed`, and `diverged`
    and `duplicates` among the complete ones; then `done`, `eta_s`, `cost` (`wall_s`, `flops`),
    `sizes` (the same counts for each), `workers` and `notes`.
    """
    from extrap.commands.live_status import follow, status_text
    from extrap.records.codec import encode
    from extrap.study.status import DEFAULT_STORAGE, read_status
    from extrap.study_folders import name_in

    name = name_in(Path(path))
    if not (name or storage):
        raise click.UsageError(
            f"status reads the name of a study in its file, {path} has no name='…' in the record "
            "of the study; give --storage."
        )
    look = partial(read_status, storage or DEFAULT_STORAGE.format(name), name)
    if watch:
        follow(look, as_json=as_json)
    elif as_json:
        print_json(encode(look()))
    else:
        say(status_text(look()))
