"""`run`, `train`, `report`: a whole study of any kind, stage by stage."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extrap.errors import DataError, StudyError, without_password
from extrap.files import read_csv, require_file, write_csv
from extrap.reading.reader import as_runs
from extrap.reading.table_files import read_table
from extrap.records import STAGES, Cell, Runs, StudySpec, Train, seals
from extrap.study.dispatch import Training
from extrap.study.progress import Notify, StudyProgress
from extrap.study.protocol import (
    Kind,
    RunsByStage,
    Say,
    Seal,
    Stage,
    no_runs,
    only,
    plan_text,
    read_cells,
    sweep,
)
from extrap.study.status import DEFAULT_STORAGE
from extrap.study.trials import sealed_at
from extrap.training.preemption import Preemption

if TYPE_CHECKING:
    import pandas as pd

    from extrap.reporting.blocks import Page

logger = logging.getLogger(__name__)

TimeOf = Callable[[Seal, str], str]
"""From a seal and a time to when it was first written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a finished study left behind.

    Attributes:
        study: The study.
        result: What its runs say; see the kind's `analyse`.
        runs: Its runs.
        sealed: What was written down → the file.
        tables: Name → table of runs or figures.
        table_paths: Name → its file.
        page: The page.
        report_path: Its file.
        index_path: The index of all pages beside it.
    """

    study: Kind
    result: Any
    runs: RunsByStage
    sealed: Mapping[str, Path]
    tables: Mapping[str, Any]
    table_paths: Mapping[str, Path]
    page: Page
    report_path: Path
    index_path: Path

    def text(self) -> str:
        """What is printed at the end: the first screen of the page, and what follows from it."""
        from extrap.reporting.text import blocks_text

        parts = [blocks_text(self.page.blocks), *self.study.closing(self.result)]
        return "\n\n".join(filter(None, parts))


def default_storage(study: Kind) -> str:
    """`sqlite:///.extrap/NAME.db` in the working directory."""
    return DEFAULT_STORAGE.format(study.name)


def run(
    study: Kind,
    *,
    storage: str | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
    notify: Notify | None = None,
    device: str | None = None,
    executor: Executor | None = None,
    preemption: Preemption | None = None,
    say: Say = logger.info,
) -> Outcome:
    """Run a study, or resume it; finished runs are not trained again.

    What a study foresees is written to a file beside its reports before anything is trained on
    the strength of it.

    Args:
        study: The study.
        storage: Storage URL; by default `default_storage(study)`.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.
        notify: Hears of the progress of the training.
        device: `"cpu"`, `"cuda:1"`, … of extrap's own training; a GPU if there is one by default.
        executor: Where packs train; on this machine by default.
        preemption: As in `tune`.
        say: Hears one line at each step.

    Raises:
        StudyError: The storage is unusable or holds another study of this name, or another
            process runs it.
        DataError: The runs do not support what is to be trained next, or the report.
    """
    where, folder = storage or default_storage(study), Path(reports)
    with Training(
        where,
        study.specs(),
        executor=executor,
        device=device,
        notify=notify,
        say=say,
        preemption=preemption,
        name=study.name,
        follows=bool(study.follows()),
    ) as training:
        runs = _train(study, training, runs_in(study, where, reports=folder), say)
        time_of = training.first_sealed
        return _finish(study, runs, folder, path, source=where, time_of=time_of, say=say)


def train(
    study: Kind,
    storage: str,
    *,
    reports: str | Path = "reports",
    notify: Notify | None = None,
    device: str | None = None,
    executor: Executor | None = None,
    say: Say = logger.info,
) -> RunsByStage:
    """Train what a study wants; no report.

    A seal is written, and its time is in the storage, before the first pack of its stage is
    handed out.

    Args:
        study: The study.
        storage: Storage URL, which keeps the times of seals.
        reports: Folder of what is written down.
        notify: Hears of the progress of the training.
        device: `"cpu"`, `"cuda:1"`, … of extrap's own training; a GPU if there is one by default.
        executor: Where packs train; on this machine by default.
        say: Hears one line at each step.

    Returns:
        All its runs.

    Raises:
        StudyError: The storage is unusable or holds another study of this name, or another
            process runs it.
        DataError: The runs do not support what is to be trained next.
    """
    with Training(
        storage,
        study.specs(),
        executor=executor,
        device=device,
        notify=notify,
        say=say,
        name=study.name,
        follows=bool(study.follows()),
    ) as training:
        return _train(study, training, runs_in(study, storage, reports=reports), say)


def _train(study: Kind, training: Training, runs: RunsByStage, say: Say) -> RunsByStage:
    """Train all stages of a study, and seal what it foresees before a stage begins."""
    is_single, sealed = len(study.specs()) == 1, set[str]()

    def put(stage: Stage, stage_runs: Runs) -> None:
        runs.put(stage, stage_runs)
        larger = "larger " if stage.name == "check" else ""
        if not is_single:
            say(f"{stage.spec.name}: {len(stage_runs)} {larger}runs")
        for note in stage_runs.notes:
            say(note)

    for stages in study.stages(runs):
        for stage in stages:
            if stage.seal is not None and stage.seal.file not in sealed:
                sealed.add(stage.seal.file)
                folder = runs.register(stage.seal).parent
                write_seal(stage.seal, folder, training.first_sealed, say)
            for note in stage.notes:
                say(note)
        nonempty = [stage for stage in stages if not _is_empty(stage)]
        training.follows &= all(stage.name == "tune" for stage in stages)
        training.train(nonempty, study.training_of, put)
    training.follows = False
    for failure in training.failures():
        say(failure)
    return runs


def tune(
    spec: StudySpec,
    storage: str,
    *,
    train: Train | None = None,
    extend: Callable[[Runs], Sequence[Cell]] | Any = None,
    stage: str = "tune",
    notify: Notify | None = None,
    progress: bool = False,
    device: str | None = None,
    executor: Executor | None = None,
    preemption: Preemption | None = None,
) -> Runs:
    """Train every wanted cell exactly once, smallest sizes first, and return the runs.

    After an interruption it resumes: finished cells are kept, and those in training go on from
    their last checkpoints.

    Args:
        spec: The study.
        storage: URL of its storage, `sqlite:///…` or any other that Optuna can open.
        train: Your own training function `train(size, tuned, seed)`; it returns the loss, NaN for
            a diverged run, a mapping with `loss` and optionally `curve`, `n_params`, `n_tokens`,
            `flops` and `cost`, or a `RunResult`. Or a `Command` that trains a run. By default
            extrap's own training.
        extend: Function from the runs so far to all wanted cells, or a table of them, such as the
            `next.csv` of `extrap plan`; finished cells are skipped. By
            default what the study's sampler wants, a grid grown where its best value lies at an
            edge; where Optuna samples, cells beyond those.
        stage: `"tune"` for the sweep, `"check"` for larger runs; the latter needs `extend`.
        notify: Called with a `TuneEvent` as packs train and when one is done.
        progress: Whether to show progress: a bar in a notebook or on a terminal, else one line per
            minute.
        device: `"cpu"`, `"cuda:1"`, …, of extrap's own training; by default CUDA if available.
        executor: Where runs train, any `concurrent.futures.Executor`; on this machine by default.
        preemption: Object that requests a stop, from a signal handler or another thread, and names
            the folder of checkpoints: by default `.extrap/checkpoints/NAME`, written once a
            minute. Runs that a pruner watches have no checkpoints.

    Returns:
        The runs of this stage in the order of size, tuned values and seed.

    Raises:
        KeyboardInterrupt: A stop was requested (`extrap.training.preemption.StopAsked`).
        StudyError: The storage cannot be used, holds a study of this name made differently, or
            another process runs it; or some runs failed three times.
        ValueError: The study names a workload, option or stage that does not exist, or its path
            gives a fraction for a whole number.
        DataError: The workload's data are missing.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, got {stage!r}.")
    if stage == "check" and extend is None:
        raise ValueError(
            "stage='check' needs extend=, a function that returns the next runs; got None."
        )
    spec = spec if train is None else spec.without_recipe()
    stages = [sweep(spec)] if stage == "tune" and (extend is None or spec.is_sampled) else []
    if extend is not None:
        wants = extend if callable(extend) else only(read_cells(extend, spec))
        stages.append(Stage(spec=spec, wants=wants, name=stage))
    runs: list[Runs] = []
    with ExitStack() as stack:
        if progress:
            notify = stack.enter_context(StudyProgress()).beside(notify)
        training = stack.enter_context(
            Training(
                storage,
                [spec],
                executor=executor,
                device=device,
                notify=notify,
                say=logger.warning if extend is None else logger.info,
                preemption=preemption,
            )
        )
        for current in stages:
            training.train([current], lambda _: train, lambda _, of_stage: runs.append(of_stage))
        if failures := training.failures():
            raise StudyError(" ".join(failures)) from [*training.given_up.values()][-1]
    return runs[-1]


def report(
    study: Kind,
    *,
    storage: str | None = None,
    table: str | Path | None = None,
    reports: str | Path = "reports",
    path: str | Path | None = None,
) -> Outcome:
    """Report on what is there of a study, without training anything.

    Args:
        study: The study.
        storage: Storage URL; by default `default_storage(study)`.
        table: A table to read instead, as `run` writes one beside the report.
        reports: Folder of the reports.
        path: Where to write the page; by default `reports/NAME.html`.

    Raises:
        DataError: The source lacks runs that the study needs.
    """
    where = str(table) if table is not None else storage or default_storage(study)
    folder, time_of = Path(reports), None
    if table is not None:
        runs = runs_of_table(study, table, reports=folder)
    else:
        runs = runs_in(study, where, reports=folder)
        if "://" in where:
            time_of = partial(_sealed_at, where)
    return _finish(study, runs, folder, path, source=where, time_of=time_of, say=logger.info)


def dry_run(study: Kind, *, storage: str | None = None) -> str:
    """What `run` would train, as text; nothing is opened or trained.

    Raises:
        ValueError: The study cannot be trained as it says.
    """
    where = without_password(storage or default_storage(study))
    first = [f"study {study.name}: {study.question}", f"storage: {where}"]
    return "\n".join([*first, plan_text(study)])


def read_study(spec: StudySpec, storage: str, *, stage: str = "tune") -> Runs:
    """The runs of a sweep in a storage or run table, its columns named as the spec has them.

    Raises:
        DataError: There is no such run.
    """
    return as_runs(
        storage,
        {},
        may_mix=True,
        size=tuple(spec.sizes),
        tune=tuple(spec.tune),
        conditions=tuple(spec.conditions()),
        study=spec.name,
        stage=stage,
    )


def runs_in(study: Kind, storage: str, *, reports: str | Path = "reports") -> RunsByStage:
    """The runs of a study in its storage, read when they are asked for."""
    read = partial(read_study, storage=storage)
    return RunsByStage(lambda spec, stage: read(spec, stage=stage), Path(reports))


def runs_of_table(
    study: Kind, path: str | Path, *, reports: str | Path = "reports"
) -> RunsByStage:
    """The runs of a study in a table that `run` wrote.

    Raises:
        DataError: There is no such file, or it lacks a column.
    """
    path, specs = Path(path), study.specs()
    frame = _read_table(path)
    if len(specs) == 1:
        only_sweep = {"arm": specs[0].name, "stage": "tune"}
        frame = frame.assign(**{c: v for c, v in only_sweep.items() if c not in frame})
    sizes = [column for column, values in specs[0].sizes.items() if len(values) > 1]
    needed = ["arm", "stage", *sizes, *specs[0].tune, "loss"]
    if missing := [name for name in needed if name not in frame]:
        raise DataError(
            f"a run table of {study.name!r} needs the columns {', '.join(needed)}; {path} "
            f"lacks {', '.join(missing)}."
        )

    def read(spec: StudySpec, stage: str) -> Runs:
        table = frame[(frame["arm"] == spec.name) & (frame["stage"] == stage)]
        if table.empty:
            sweeps = ", ".join(sorted(set(frame["arm"].astype(str))))
            raise DataError(
                f"{path} has no runs of stage {stage!r} of {spec.name!r}; it has {sweeps}."
            )
        constant = {c: v[0] for c, v in spec.sizes.items() if c not in table and len(v) == 1}
        table = table.assign(**constant).drop(columns="arm")
        table = table[[c for c in table if c == "loss" or not table[c].isna().all()]]
        return as_runs(
            table,
            {},
            may_mix=True,
            size=tuple(spec.sizes),
            tune=tuple(spec.tune),
            conditions=tuple(c for c in spec.conditions() if c in table),
            stage=stage,
        )

    return RunsByStage(read, Path(reports))


def _read_table(path: Path) -> pd.DataFrame:
    """A run table; numbers of a CSV file are numbers, as in a storage, for hashes to be equal."""
    require_file(path)
    try:
        return read_table(path) if path.suffix == ".parquet" else read_csv(path)
    except ValueError as error:
        raise DataError(
            f"a table of a study is a CSV or Parquet file, got {path} ({error}); run the study, "
            "which writes one beside its report."
        ) from error


def _is_empty(stage: Stage) -> bool:
    """Whether a stage that follows from others wants nothing."""
    return (
        stage.name == "check" and stage.wants is not None and not stage.wants(no_runs(stage.spec))
    )


def _finish(
    study: Kind,
    runs: RunsByStage,
    reports: Path,
    path: str | Path | None,
    *,
    source: str,
    time_of: TimeOf | None,
    say: Say,
) -> Outcome:
    """Analyse, seal what commands read, write tables, page and index."""
    from extrap.reporting.html import write_page  # matplotlib, which a run does without
    from extrap.reporting.index import write_index
    from extrap.reporting.study_page import About

    result = study.analyse(runs)
    for seal in study.seals(result, runs):
        before, folder = runs.sealed(seal), runs.register(seal).parent
        if write_seal(seal, folder, time_of, say if before is None else logger.debug) != before:
            result = study.analyse(runs)  # which knows its time now
    tables, table_paths = study.tables(result, runs), {}
    for name, table in tables.items():
        table_paths[name] = reports / f"{study.name}.{name}.csv"
        write_csv(table, table_paths[name])
    rows = {
        **study.provenance(result, runs, source),
        "commit": current_commit(),
        "trained with": installed("torch", "optuna"),
    }
    page = study.page(result, runs, About(study.name, study.question, rows))
    page_path = Path(path) if path is not None else reports / f"{study.name}.html"
    return Outcome(
        study=study,
        result=result,
        runs=runs,
        sealed=runs.files,
        tables=tables,
        table_paths=table_paths,
        page=page,
        report_path=write_page(page, page_path),
        index_path=write_index(page_path.parent),
    )


def write_seal(
    seal: Seal, reports: Path, time_of: TimeOf | None = None, say: Say = logger.debug
) -> dict[str, Any]:
    """Write down what a study foresees, once for one and the same content; as it stands now.

    An earlier file that says something else is kept beside it.
    """
    from extrap.forecasting.documents import write_sealed

    path, earlier = reports / seal.file, seal.read_matching(reports)
    now = {**seal.document, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    document = {**(earlier or now), **seal.added}
    first = document["created"] if time_of is None else time_of(seal, document["created"])
    document = seals.seal({**document, "created": document["created"] if earlier else first})
    if document != earlier:
        write_sealed(document, path)
    created, content = document["created"], document["content_hash"]
    say(f"sealed {seal.what} written to {path} ({created}, content hash {content})")
    return document


def _sealed_at(storage: str, seal: Seal, now: str) -> str:
    """When a storage first heard of a content; who only reads does not write that down."""
    return sealed_at(storage, seal.spec.name, seal.content_hash) or now


def installed(*names: str) -> str:
    """Libraries with their versions; those that are not installed are left out."""
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)


def current_commit() -> str:
    """The commit of the working directory, or nothing where there is no git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
