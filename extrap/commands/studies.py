"""Study files on the command line: what runs or plans each kind, and what reports on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from extrap.commands.allocations import study_of_allocation
from extrap.commands.batches import study_of_batches
from extrap.commands.cascades import study_of_cascade
from extrap.commands.comparisons import study_of_comparison
from extrap.commands.knobs import study_of_knobs
from extrap.commands.levers import study_of_levers
from extrap.commands.printing import say

if TYPE_CHECKING:
    from extrap.records import BatchStudy, ComparisonStudy, LeverStudy, StudySpec
    from extrap.tuning import Tune

__all__ = [
    "KINDS",
    "StudyKind",
    "Work",
    "accept_training",
    "report_study_file",
    "run_study_file",
    "train_study_file",
]


class RunStudy(Protocol):
    """Runs the study file `path`, or only says what would be run."""

    def __call__(
        self,
        path: str,
        assignments: Sequence[str],
        *,
        storage: str | None,
        dry_run: bool,
        quiet: bool,
    ) -> None: ...


Report = Callable[[str, str | None, str | None, str | None], Path]
"""From path, storage, run table and output to the page written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How a worker trains.

    Attributes:
        storage: Storage URL; by default that of the study.
        tune: Trains the cells of a sweep.
        say: Hears one line at each step.
    """

    storage: str | None
    tune: Tune
    say: Callable[[str], None]

    def place(self, study: StudySpec | BatchStudy | ComparisonStudy | LeverStudy) -> str:
        """The storage of a study."""
        from extrap.pipeline import default_storage

        return self.storage or default_storage(study)


TrainStudy = Callable[[str, Sequence[str], Work], None]
"""Trains what a study file wants, and reports nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyKind:
    """What is done with one kind of study file.

    Attributes:
        run: Runs it or resumes it; plans it on a dry run.
        report: Reports on what is there, without training.
        takes_table: Whether it can be reported from a run table instead of a storage.
        train: Trains it as one worker of many; None where `work_study` does, or nobody can.
    """

    run: RunStudy
    report: Report
    takes_table: bool
    train: TrainStudy | None = None


def run_study_file(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run the study in a file, or say what would be run."""
    KINDS[_kind(path)].run(path, assignments, storage=storage, dry_run=dry_run, quiet=quiet)


def accept_training(path: str, assignments: Sequence[str], storage: str | None) -> None:
    """Let the training of its own in a study file be another one than its storage knows."""
    from extrap.pipeline import default_storage
    from extrap.study_files import load_baseline, load_study, load_training, override_both
    from extrap.tuning import adopt_training

    own = load_training(path)
    if own.train is None:
        raise click.UsageError(
            f"--accept-training is for a file with TRAIN or COMMAND, {path} has none; leave it "
            "out."
        )
    spec, baseline = override_both(load_study(path), load_baseline(path), assignments)
    place = storage or default_storage(spec)
    for each, train in ((spec, own.train), (baseline, own.baseline)):
        if each is not None and train is not None:
            for change in adopt_training(each, place, train):
                say(f"{each.name}: {change}")


def train_study_file(path: str, assignments: Sequence[str], work: Work) -> None:
    """Train what the study in a file of another kind than `STUDY` wants, beside other workers."""
    kind = _kind(path)
    train = KINDS[kind].train
    if train is None:
        raise click.UsageError(
            f"extrap study work shares runs in a storage, got {path} with {kind}, whose models "
            "are kept beside their answers; run extrap study run on one machine."
        )
    train(path, assignments, work)


def report_study_file(
    path: str, *, storage: str | None, table: str | None, output: str | None
) -> Path:
    """Report on the study in a file without training, and return the page written."""
    name = _kind(path)
    if table is not None and not KINDS[name].takes_table:
        raise click.UsageError(
            f"the page of a file with {name} is made from its storage, got the table {table} too; "
            "leave it out, or name the storage with --storage."
        )
    return KINDS[name].report(path, storage, table, output)


def _kind(path: str) -> str:
    from extrap.study_files import kind_of

    return kind_of(path)


def _study_of_forecast(
    path: str, assignments: Sequence[str], *, storage: str | None, dry_run: bool, quiet: bool
) -> None:
    """Run a study file that has nothing but a `STUDY`, and perhaps a `BASELINE`."""
    from rich.console import Console

    from extrap.pipeline import plan_study, run_study
    from extrap.study_files import load_baseline, load_study, load_training, override_both
    from extrap.tuning.progress import StudyProgress

    spec, baseline = override_both(load_study(path), load_baseline(path), assignments)
    own = load_training(path)
    if dry_run:
        say(plan_study(spec, baseline, storage=storage, train=own.train))
        return
    with StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        outcome = run_study(
            spec,
            baseline,
            storage=storage,
            train=own.train,
            train_baseline=None if baseline is None else own.baseline,
            notify=progress.notify,
            say=say,
        )
    from extrap.reporting.embedded import read_blocks
    from extrap.reporting.text import blocks_text

    say(f"{blocks_text(read_blocks(outcome.report_path))}\n")
    say(f"forecast  {outcome.forecast_path} (content hash {outcome.seal})")
    say(f"report    {outcome.report_path}")
    say(f"index     {outcome.index_path}")


def _report_forecast(
    path: str, storage: str | None, table: str | None, output: str | None
) -> Path:
    from extrap.pipeline import report_study
    from extrap.study_files import load_baseline, load_study

    spec, baseline = load_study(path), load_baseline(path)
    return report_study(spec, baseline, storage=storage, table=table, path=output).report_path


def _report_knobs(path: str, storage: str | None, table: str | None, output: str | None) -> Path:
    from extrap.knob_sweeps import report_knobs
    from extrap.study_files import knobs_of

    del table
    return report_knobs(knobs_of(path), storage=storage, path=output).report_path


def _report_levers(path: str, storage: str | None, table: str | None, output: str | None) -> Path:
    from extrap.lever_sweeps import report_levers
    from extrap.study_files import levers_of

    return report_levers(levers_of(path), storage=storage, table=table, path=output).report_path


def _report_batches(path: str, storage: str | None, table: str | None, output: str | None) -> Path:
    from extrap.batch_sweeps import report_batches
    from extrap.study_files import batches_of

    del table
    return report_batches(batches_of(path), storage=storage, path=output).report_path


def _report_comparison(
    path: str, storage: str | None, table: str | None, output: str | None
) -> Path:
    from extrap.comparison_sweeps import report_comparison
    from extrap.study_files import comparison_of

    study = comparison_of(path)
    return report_comparison(study, storage=storage, table=table, path=output).report_path


def _report_allocation(
    path: str, storage: str | None, table: str | None, output: str | None
) -> Path:
    from extrap.allocation_sweeps import report_allocation
    from extrap.study_files import allocation_of

    study = allocation_of(path)
    return report_allocation(study, storage=storage, table=table, path=output).report_path


def _report_cascade(path: str, storage: str | None, table: str | None, output: str | None) -> Path:
    from extrap.cascade_sweeps import report_cascade
    from extrap.study_files import cascade_of

    del storage
    return report_cascade(cascade_of(path), table=table, path=output).report_path


def _train_knobs(path: str, assignments: Sequence[str], work: Work) -> None:
    from extrap.knob_sweeps import train_knobs
    from extrap.study_files import knobs_of

    knobs = knobs_of(path, assignments=assignments)
    train_knobs(knobs, work.place(knobs.study), tune=work.tune, say=work.say)


def _train_levers(path: str, assignments: Sequence[str], work: Work) -> None:
    from extrap.lever_sweeps import train_levers
    from extrap.study_files import levers_of

    study = levers_of(path, assignments=assignments)
    train_levers(study, work.place(study), tune=work.tune, say=work.say)


def _train_batches(path: str, assignments: Sequence[str], work: Work) -> None:
    from extrap.batch_sweeps import train_batches
    from extrap.study_files import batches_of

    study = batches_of(path, assignments=assignments)
    train_batches(study, work.place(study), tune=work.tune, say=work.say)


def _train_comparison(path: str, assignments: Sequence[str], work: Work) -> None:
    from extrap.comparison_sweeps import train_comparison
    from extrap.study_files import comparison_of

    study = comparison_of(path, assignments=assignments)
    train_comparison(study, work.place(study), tune=work.tune, say=work.say)


def _train_allocation(path: str, assignments: Sequence[str], work: Work) -> None:
    from extrap.allocation_sweeps import train_allocation
    from extrap.study_files import allocation_of

    study = allocation_of(path, assignments=assignments)
    train_allocation(study, work.place(study.study_named), tune=work.tune, say=work.say)


KINDS = {
    "STUDY": StudyKind(run=_study_of_forecast, report=_report_forecast, takes_table=True),
    "KNOBS": StudyKind(
        run=study_of_knobs, report=_report_knobs, takes_table=False, train=_train_knobs
    ),
    "COMPARISON": StudyKind(
        run=study_of_comparison,
        report=_report_comparison,
        takes_table=True,
        train=_train_comparison,
    ),
    "LEVERS": StudyKind(
        run=study_of_levers, report=_report_levers, takes_table=True, train=_train_levers
    ),
    "BATCHES": StudyKind(
        run=study_of_batches, report=_report_batches, takes_table=False, train=_train_batches
    ),
    "ALLOCATION": StudyKind(
        run=study_of_allocation,
        report=_report_allocation,
        takes_table=True,
        train=_train_allocation,
    ),
    "CASCADE": StudyKind(run=study_of_cascade, report=_report_cascade, takes_table=True),
}
"""What a study file defines → what is done with it."""
