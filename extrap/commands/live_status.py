"""The progress of a study as tables for a terminal, once or redrawn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from extrap.commands.printing import say
from extrap.files import as_written
from extrap.records.displays import duration
from extrap.study.status import StudyStatus

EVERY_S = 2.0
IDLE_TIMES = 5
"""A look that takes long is taken seldom: it waits at least so many times as long."""
ENDED = ("left", "gone")
COUNTS = ("complete", "running", "waiting", "failed", "diverged", "duplicates")
NARROW = ("size", "cells", "double", *COUNTS)
"""Columns that are never broken: a table of them fits into 80 characters."""


def show(status: StudyStatus) -> None:
    """Print the status as tables."""
    Console().print(_drawn(status))


def follow(look: Callable[[], StudyStatus], *, as_json: bool) -> None:
    """Look until all is done: a redrawn table, or without a terminal one line per change."""
    console = Console()
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            _repeat(look, lambda status: live.update(_drawn(status), refresh=True))
        return
    said: list[str] = []

    def tell(status: StudyStatus) -> None:
        line = _line(status)
        if line not in said[-1:]:
            say(json.dumps(status.to_dict(), allow_nan=False) if as_json else line)
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


def _drawn(status: StudyStatus) -> Group:
    """The whole status as tables; names from the storage are text, never markup."""
    head = [_line(status), f"storage {status.storage}"]
    if status.eta_s is None:
        head.append("time left: known after the first run")
    elif status.eta_s and not status.done:  # else larger runs follow, as the notes say
        n_workers = sum(worker.state == "at work" for worker in status.workers)
        who = f"the {n_workers} workers at work" if n_workers > 1 else "one worker"
        head.append(f"about {duration(status.eta_s)} left with {who}")
    if status.wall_s:
        flops = f", {status.flops:.3g} FLOPs" if status.flops else ""
        head.append(f"so far {duration(status.wall_s)} of training{flops}")
    parts: list[Text | Table] = [*(_text(line) for line in head), _sizes(status)]
    if status.workers:
        parts.append(_workers(status))
    if status.optima:
        parts.append(_optima(status))
    return Group(*parts, *(_text(note) for note in status.notes))


def _sizes(status: StudyStatus) -> Table:
    table = _table("study", "size", "cells", *COUNTS[:-1], "double")
    for size in status.sizes:
        name = f"{size.study} (larger)" if size.stage == "check" else size.study
        counts = [str(getattr(size, column) or "·") for column in ("cells", *COUNTS)]
        table.add_row(_text(name), _text(_sized(size.size)), *counts)
    return table


def _workers(status: StudyStatus) -> Table:
    table = _table("worker", "host", "pid", "state", "last beat", "running", "done")
    ended = [worker for worker in status.workers if worker.state in ENDED and not worker.n_running]
    for worker in status.workers:
        if worker not in ended:
            table.add_row(
                *(_text(each) for each in (worker.worker or "?", worker.host, str(worker.pid))),
                worker.state,
                _text(worker.last_beat or "never"),
                str(worker.n_running),
                str(worker.n_done),
            )
    if ended:
        done = sum(worker.n_done for worker in ended)
        table.add_row(f"{len(ended)} that ended", "", "", "", "", "0", str(done))
    return table


def _optima(status: StudyStatus) -> Table:
    names = list(dict.fromkeys(name for each in status.optima for name in each["tuned"]))
    table = _table("study", "size", *(f"best {name}" for name in names), "loss there")
    for each in status.optima:
        values = []
        for name in names:
            value = each["tuned"].get(name, {}).get("value")
            values.append("not bracketed yet" if value is None else f"{value:.4g}")
        loss = each["loss"] if each["loss"] is not None else each["best_loss"]
        shown = "" if loss is None else f"{loss:.4f}"
        table.add_row(_text(each["study"]), _text(_sized(each["size"])), *values, shown)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(_text(column), overflow="fold", no_wrap=column in NARROW)
    return table


def _text(words: str) -> Text:
    """Text for a terminal: a host or a name is whatever somebody wrote into the storage."""
    return Text(as_written(words))


def _sized(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())
