"""The progress of a study as text for a terminal, once or redrawn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from extrap.commands.printing import say
from extrap.files import as_written
from extrap.records.codec import encode
from extrap.records.numbers import format_duration, format_scientific, name_size
from extrap.reporting.blocks import Block, Paragraph
from extrap.reporting.tables import keyed_table
from extrap.reporting.text import blocks_text
from extrap.study.status import StudyStatus

EVERY_S = 2.0
IDLE_TIMES = 5
"""A look that takes long is taken seldom: it waits at least so many times as long."""
COUNTS = ("complete", "running", "waiting", "failed", "diverged", "duplicates")


def status_text(status: StudyStatus) -> str:
    """The whole status: counts, time left, the worker, a table of the sizes."""
    return blocks_text(_blocks(status))


def follow(look: Callable[[], StudyStatus], *, as_json: bool) -> None:
    """Look until all is done: a redrawn text, or without a terminal one line per change."""
    console = Console()
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False, transient=False) as live:

            def draw(status: StudyStatus) -> None:
                live.update(Text(as_written(status_text(status))), refresh=True)

            _repeat(look, draw)
        return
    said: list[str] = []

    def tell(status: StudyStatus) -> None:
        line = _line(status)
        if line not in said[-1:]:
            say(json.dumps(encode(status), allow_nan=False) if as_json else line)
            said[:] = [line]

    _repeat(look, tell)


def _repeat(look: Callable[[], StudyStatus], show: Callable[[StudyStatus], None]) -> None:
    while True:
        started = time.monotonic()
        status = look()
        show(status)
        if status.done:
            return
        time.sleep(max(EVERY_S, IDLE_TIMES * (time.monotonic() - started)))


def _line(status: StudyStatus) -> str:
    """All counts in one line, which changes when they do."""
    counts = ", ".join(
        f"{status.count(name)} {name}"
        for name in COUNTS
        if name in ("complete", "running", "waiting") or status.count(name)
    )
    return f"{status.study}: {status.count('cells')} cells, {counts}"


def _blocks(status: StudyStatus) -> Iterator[Block]:
    lines = [_line(status), f"storage {status.storage}"]
    if status.eta_s is None and status.sizes:
        lines.append("time left: known after the first run")
    elif status.eta_s and not status.done:  # else larger runs follow, as the notes say
        lines.append(f"about {format_duration(status.eta_s)} left")
    if status.wall_s:
        flops = f", {format_scientific(status.flops)} FLOPs" if status.flops else ""
        lines.append(f"so far {format_duration(status.wall_s)} of training{flops}")
    for worker in status.workers:
        beat = worker.last_beat or "never"
        lines.append(
            f"worker {worker.worker or '?'} on {worker.host}, process {worker.pid}: "
            f"{worker.state}, last beat {beat}, {worker.n_running} running, {worker.n_done} done"
        )
    yield Paragraph("\n".join(lines))
    rows = [
        {
            "study": f"{size.study} (larger)" if size.stage == "check" else size.study,
            "size": name_size(size.size),
            **{name: str(getattr(size, name) or "·") for name in ("cells", *COUNTS)},
        }
        for size in status.sizes
    ]
    if rows:
        yield keyed_table("Cells", rows)
    yield Paragraph("\n".join(status.notes))
