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
from extrap.records.numbers import format_decimals, format_scientific, name_size
from extrap.reporting.blocks import Block, Paragraph
from extrap.reporting.tables import keyed_table
from extrap.reporting.text import blocks_text
from extrap.study.status import STATUS_COUNTS, StudyStatus

REFRESH_S = 2.0
"""Seconds between two looks at the storage, at least."""
IDLE_TIMES = 5
"""A look that takes long is taken seldom: it waits at least so many times as long."""
ALWAYS_SHOWN = ("cells", "complete", "running", "waiting")
"""Counts that are written even where they are 0."""


def status_text(status: StudyStatus) -> str:
    """The whole status: counts, time left, the worker, a table of the sizes."""
    return blocks_text(_blocks(status))


def follow(look: Callable[[], StudyStatus], *, as_json: bool) -> None:
    """Look until all is done: a redrawn text, or without a terminal one line per change."""
    console = Console()
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            for status in _until_done(look):
                live.update(Text(as_written(status_text(status))), refresh=True)
        return
    last_line = ""
    for status in _until_done(look):
        if (line := _line(status)) != last_line:
            say(json.dumps(encode(status), allow_nan=False) if as_json else line)
            last_line = line


def _until_done(look: Callable[[], StudyStatus]) -> Iterator[StudyStatus]:
    while True:
        started = time.monotonic()
        yield (status := look())
        if status.done:
            return
        time.sleep(max(REFRESH_S, IDLE_TIMES * (time.monotonic() - started)))


def _line(status: StudyStatus) -> str:
    """All counts in one line, which changes when they do."""
    counts = ", ".join(
        f"{status.count(name)} {name}"
        for name in STATUS_COUNTS
        if name in ALWAYS_SHOWN or status.count(name)
    )
    return f"{status.study}: {counts}"


def _duration(seconds: float) -> str:
    """A time in its largest sensible unit, never below zero: `40 s`, `12 min`, `3.5 h`."""
    left = max(0.0, seconds)
    if left < 90:
        return f"{format_decimals(left, 0)} s"
    if left < 5_400:
        return f"{format_decimals(left / 60, 0)} min"
    if left < 172_800:
        return f"{format_decimals(left / 3_600, 1)} h"
    return f"{format_decimals(left / 86_400, 1)} days"


def _blocks(status: StudyStatus) -> Iterator[Block]:
    lines = [_line(status), f"storage {status.storage}"]
    if status.eta_s is None and status.sizes:
        lines.append("time left: known after the first run")
    elif status.eta_s and not status.done:  # else larger runs follow, as the notes say
        lines.append(f"about {_duration(status.eta_s)} left")
    if status.wall_s:
        flops = f", {format_scientific(status.flops)} FLOPs" if status.flops else ""
        lines.append(f"so far {_duration(status.wall_s)} of training{flops}")
    lines += [
        f"worker {worker.worker} on {worker.host}, process {worker.pid}: {worker.state}, "
        f"last beat {worker.last_beat}, {worker.n_running} running, {worker.n_done} done"
        for worker in status.workers
    ]
    yield Paragraph("\n".join(lines))
    rows = [
        {
            "study": f"{size.study} (larger)" if size.stage == "check" else size.study,
            "size": name_size(size.size),
            **{name: str(getattr(size, name) or "·") for name in STATUS_COUNTS},
        }
        for size in status.sizes
    ]
    if rows:
        yield keyed_table("Cells", rows)
    yield Paragraph("\n".join(status.notes))
