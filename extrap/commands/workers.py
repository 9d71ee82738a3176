"""`extrap study work`, `merge` and `serve`: a study on many machines."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from extrap.commands.helping import Command
from extrap.commands.printing import say
from extrap.commands.studies import accept_training
from extrap.training.preemption import CHECKPOINTS, Preemption

if TYPE_CHECKING:
    from extrap.study import Kind

__all__ = [
    "accepting",
    "merge_command",
    "preemptible",
    "serve_command",
    "stops_gracefully",
    "work_command",
]

STDERR = 2
SIGNALS = ("SIGTERM", "SIGUSR1")
ALARM = getattr(signal, "SIGALRM", None)  # Windows has none
WITHIN_S = 25.0
"""Kubernetes kills after 30."""

_assignments = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field of the study and of its baseline (repeatable).",
)


def accepting(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that says that another training of one's own is the same study."""
    return click.option(
        "--accept-training",
        "accepts",
        is_flag=True,
        help="Continue although TRAIN or COMMAND changed, and keep the existing runs.",
    )(command)


def preemptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how training is stopped, and where it leaves its checkpoints."""
    options = [
        click.option(
            "--checkpoints",
            metavar="FOLDER",
            help="Folder of checkpoints, on a shared disk if there are several machines; default "
            ".extrap/checkpoints.",
        ),
        click.option(
            "--stop-within",
            type=click.FloatRange(min=0, min_open=True),
            default=WITHIN_S,
            show_default=True,
            help="Seconds from SIGTERM or SIGUSR1 to the end, at an evaluation if one comes.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(name="work", cls=Command)
@click.argument("path")
@click.option(
    "--storage",
    help="Storage URL: sqlite:///FILE on one machine, postgresql://… for several, "
    "grpc://HOST:PORT for very many, journal:////SHARED/FILE on a shared disk (four slashes for "
    "an absolute path); default sqlite:///.extrap/NAME.db.",
)
@click.option(
    "--shard",
    metavar="I/N",
    help="Train part I of N of the grid into a storage of its own, default "
    ".extrap/NAME.shard-I-of-N.db; extrap study merge combines the parts.",
)
@click.option("--device", help="Device: cpu, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds of silence after which other workers may take over its runs.",
)
@preemptible
@_assignments
@accepting
@click.option("--quiet", is_flag=True, help="Show no progress.")
def work_command(
    path: str,
    *,
    storage: str | None,
    shard: str | None,
    device: str | None,
    grace: float,
    checkpoints: str | None,
    stop_within: float,
    assignments: Sequence[str],
    accepts: bool,
    quiet: bool,
) -> None:
    """Train the runs of a study as one of many workers.

    PATH is the study file. Start one process per GPU on any number of machines; each may be
    stopped or killed at any time. extrap study run on the same storage writes the report.
    """
    from rich.console import Console

    from extrap.study import default_storage, open_study, train
    from extrap.study.working import Shard, work_shard
    from extrap.tuning import tune
    from extrap.tuning.progress import StudyProgress

    study = open_study(path, assignments=assignments)
    if accepts:
        accept_training(study, path, storage)
    if shard is not None:
        _require_study(study, path, "work --shard")
    if study.keeps_answers:
        raise click.UsageError(
            f"extrap study work shares runs in a storage, got {path} with {study.symbol}, whose "
            "models are kept beside their answers; run extrap study run on one machine."
        )
    if device is not None and any(map(study.training_of, study.specs())):
        raise click.UsageError(
            f"--device is for our own training, {path} has one of its own; set "
            "CUDA_VISIBLE_DEVICES for this worker instead."
        )
    stops = stops_gracefully(stop_within, checkpoints=checkpoints)
    with stops, StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        share = partial(
            tune, notify=progress.notify, device=device, shares=shard is None, grace_s=grace
        )
        if shard is not None:
            work_shard(study, Shard.parse(shard), storage=storage, tune=share, say=say)
        else:
            runs = train(study, storage or default_storage(study), tune=share, say=say)
            n_large = runs.count("check")
            larger = f" and {n_large} larger runs" if n_large else ""
            say(f"{study.name}: complete with {runs.count()} runs{larger}")


@click.command(name="merge", cls=Command)
@click.argument("path")
@click.argument("sources", nargs=-1, required=True)
@click.option("--storage", help="Storage URL to merge into; default sqlite:///.extrap/NAME.db.")
@_assignments
@accepting
def merge_command(
    path: str,
    sources: Sequence[str],
    *,
    storage: str | None,
    assignments: Sequence[str],
    accepts: bool,
) -> None:
    """Copy the runs of several storages into one.

    PATH is the study file. SOURCES are storage URLs or paths of SQLite files, such as the parts
    of extrap study work --shard. Runs that are there already stay, and merging twice changes
    nothing. Runs of a TRAIN or COMMAND that has changed since are refused.
    """
    from extrap.study import open_study
    from extrap.study.working import merge_study

    study = open_study(path, assignments=assignments)
    _require_study(study, path, "merge")
    if accepts:
        accept_training(study, path, storage)
    urls = [source if "://" in source else f"sqlite:///{source}" for source in sources]
    say(merge_study(study, urls, storage=storage, accepts=accepts))


@click.command(name="serve", cls=Command)
@click.option("--storage", required=True, help="URL of the database: postgresql://USER@HOST/NAME.")
@click.option("--host", default="localhost", show_default=True, help="Address to listen on.")
@click.option("--port", default=13000, show_default=True, help="Port to listen on.")
def serve_command(*, storage: str, host: str, port: int) -> None:
    """Serve a database to very many workers.

    Workers use --storage grpc://HOST:PORT. There is no password: listen only where every machine
    can be trusted.
    """
    from extrap.reading.storages import safe_url, serve_storage

    say(f"serving {safe_url(storage)} at grpc://{host}:{port}")
    with stops_gracefully():
        serve_storage(storage, host=host, port=port)


@contextmanager
def stops_gracefully(
    within_s: float = WITHIN_S, *, checkpoints: str | None = None
) -> Iterator[None]:
    """Within the block SIGTERM and SIGUSR1, by which clusters end a job, ask training to stop.

    It does at its next evaluation, when its runs have left checkpoints; whatever else is going on
    ends at once, as by Ctrl-C. So does training when that evaluation does not come in time, or at
    the second signal. In any case cells are freed.

    Args:
        within_s: The time.
        checkpoints: Folder of the checkpoints; by default that of `Preemption`.
    """
    preemption = Preemption(checkpoints or CHECKPOINTS)
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]

    def end() -> NoReturn:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # once is enough: leaving takes a moment
        raise KeyboardInterrupt

    def ask(number: int, frame: FrameType | None) -> None:
        is_first, is_heard = not preemption.is_asked, preemption.ask()
        if is_first and is_heard:
            if ALARM is not None:
                signal.setitimer(signal.ITIMER_REAL, within_s)
            message = f"stopping at the next evaluation, in {within_s:g} s at the latest\n"
            os.write(STDERR, message.encode())  # a print may be in the middle of something
        elif is_first or is_heard:
            end()  # else it is leaving

    def give_up(number: int, frame: FrameType | None) -> None:
        if preemption.is_heard:  # else it is leaving
            end()

    with ExitStack() as stack:
        for number in numbers:
            stack.callback(signal.signal, number, signal.signal(number, ask))
        if ALARM is not None:
            stack.callback(signal.signal, ALARM, signal.signal(ALARM, give_up))
            stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        stack.enter_context(preemption.in_force())
        yield


def _require_study(study: Kind, path: str, verb: str) -> None:
    if study.symbol != "STUDY":
        raise click.UsageError(
            f"extrap study {verb} takes a file with a STUDY, got {path} with {study.symbol}; let "
            "its workers share a storage, extrap study work --storage URL."
        )
