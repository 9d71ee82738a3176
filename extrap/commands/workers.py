"""`extrap study work`, `merge` and `serve`: a study on many machines."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from extrap.commands.printing import say

__all__ = ["merge_command", "serve_command", "stops_on_sigterm", "work_command"]

_assignments = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field, of the baseline too if the study has one (repeatable).",
)


@click.command(name="work")
@click.argument("path")
@click.option(
    "--storage",
    help="Storage URL: sqlite:///FILE on one machine, postgresql://… for several, "
    "grpc://HOST:PORT for very many, journal:///FILE on a shared disk; default "
    "sqlite:///.extrap/NAME.db.",
)
@click.option(
    "--shard",
    metavar="I/N",
    help="Train the I-th of N parts of the grid into a storage of its own, reaching nothing else; "
    "default .extrap/NAME.shard-I-of-N.db. `extrap study merge` puts the parts together.",
)
@click.option("--device", help="Where to train: cpu, cuda:1, …; a GPU where there is one.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds of silence after which others may train what this worker had taken.",
)
@_assignments
@click.option("--quiet", is_flag=True, help="No progress.")
def work_command(
    path: str,
    *,
    storage: str | None,
    shard: str | None,
    device: str | None,
    grace: float,
    assignments: Sequence[str],
    quiet: bool,
) -> None:
    """Train cells of the study file PATH until none is missing.

    Start it on as many machines as you like, one process a GPU; stop and kill them as you like.
    `extrap study run` on the same storage writes the report.
    """
    from rich.console import Console

    from extrap.progress import StudyProgress
    from extrap.study_files import load_baseline, load_study, override_both
    from extrap.working import Shard, work_study

    _require_study(path, "work")
    spec, baseline = override_both(load_study(path), load_baseline(path), assignments)
    with stops_on_sigterm(), StudyProgress(Console(stderr=True), quiet=quiet) as progress:
        work_study(
            spec,
            baseline,
            storage=storage,
            shard=None if shard is None else Shard.parse(shard),
            device=device,
            grace_s=grace,
            notify=progress.notify,
            say=say,
        )


@click.command(name="merge")
@click.argument("path")
@click.argument("sources", nargs=-1, required=True)
@click.option("--storage", help="Storage URL to merge into; default sqlite:///.extrap/NAME.db.")
@_assignments
def merge_command(
    path: str, sources: Sequence[str], *, storage: str | None, assignments: Sequence[str]
) -> None:
    """Copy the runs of the study file PATH from SOURCES into one storage.

    SOURCES are storage URLs or the paths of SQLite files, such as the shards of `extrap study
    work --shard`. What is there already stays; merging twice changes nothing.
    """
    from extrap.study_files import load_baseline, load_study, override_both
    from extrap.working import merge_study

    _require_study(path, "merge")
    spec, baseline = override_both(load_study(path), load_baseline(path), assignments)
    urls = [source if "://" in source else f"sqlite:///{source}" for source in sources]
    say(merge_study(spec, baseline, urls, storage=storage))


@click.command(name="serve")
@click.option("--storage", required=True, help="URL of the database: postgresql://USER@HOST/NAME.")
@click.option("--host", default="localhost", show_default=True, help="Where to listen.")
@click.option("--port", default=13000, show_default=True, help="At which port.")
def serve_command(*, storage: str, host: str, port: int) -> None:
    """Serve a database to very many workers, which take it as grpc://HOST:PORT.

    There is no password: listen only where every machine may be trusted.
    """
    from extrap.reading.storages import safe_url, serve_storage

    say(f"serving {safe_url(storage)} at grpc://{host}:{port}")
    with stops_on_sigterm():
        serve_storage(storage, host=host, port=port)


@contextmanager
def stops_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM, by which clusters end a job, is as Ctrl-C: cells are freed."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: leaving takes a moment
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_study(path: str, verb: str) -> None:
    from extrap.study_files import kind_of

    if (kind := kind_of(path)) != "STUDY":
        raise click.UsageError(
            f"extrap study {verb} takes a file with a STUDY, got {path} with {kind}; run "
            "extrap study run with the same --storage on every machine, they share the cells."
        )
