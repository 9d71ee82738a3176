"""Progress of a study: a bar on a terminal or in a notebook, a line per minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from extrap.records.displays import duration
from extrap.study.events import Notify, TuneEvent

STAGES = {"tune": "sweep", "check": "larger runs"}
LINE_EVERY_S = 60.0
"""Seconds between lines of a log; a study that is done before gets none."""
DRAW_EVERY_S = 0.5
"""Seconds between drawings in a notebook: every drawing is a message to the browser."""


@dataclass(slots=True)
class _Stage:
    """Progress of one stage, in units of cost, and the time since its first event."""

    name: str
    began: float
    done_before: float
    done: float = 0.0
    total: float = 0.0
    pack: str = ""
    text: str = ""

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0

    def update(self, event: TuneEvent) -> None:
        """Take the numbers of an event; the text is `37 % after 4 min, about 7 min left; …`."""
        self.total = event.cost_total
        self.done = min(event.cost_done, self.total)  # a cell may be trained twice
        size = ", ".join(f"{column} {value:g}" for column, value in event.size.items())
        self.pack = f"{size}, {event.n_runs} run{'s' * (event.n_runs != 1)}"
        elapsed, own = time.monotonic() - self.began, self.done - self.done_before
        left_s = elapsed * (self.total - self.done) / own if own > 0 else None
        left = "" if left_s is None else f", about {duration(left_s)} left"
        self.text = f"{100 * self.fraction:.0f} % after {duration(elapsed)}{left}; {self.pack}"


class StudyProgress:
    """Shows a study's `TuneEvent`s; a context manager.

    On a terminal one bar per stage and one line per finished pack; in a notebook the same without
    the lines, in the cell's output; elsewhere one line per minute.

    Args:
        console: Where to draw outside of notebooks; by default the standard error.
        quiet: Whether to show nothing anywhere.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True)
        self._stages: dict[str, _Stage] = {}
        self._last = time.monotonic()
        self._display = notebook_display()
        self._cell: Any = None
        self._tasks: dict[str, TaskID] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("left"),
            console=self._console,
            speed_estimate_period=120,
            disable=quiet or self._display is not None or not self._console.is_terminal,
        )
        self._show: Callable[[_Stage, TuneEvent], None] | None
        if quiet:
            self._show = None
        elif self._display is not None:
            self._show = self._draw_cell
        else:
            self._show = self._write_log if self._bar.disable else self._draw_bar

    def __enter__(self) -> StudyProgress:
        self._last = time.monotonic()
        if not self._bar.disable:  # older versions of rich print an empty line all the same
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:
            self._bar.stop()
        if self._cell is not None:
            self._cell.update(self)

    def notify(self, event: TuneEvent) -> None:
        """Show an event."""
        if self._show is None:
            return
        if event.stage not in self._stages:
            name = STAGES.get(event.stage, event.stage)
            self._stages[event.stage] = _Stage(name, time.monotonic(), event.cost_done)
        stage = self._stages[event.stage]
        stage.update(event)
        self._show(stage, event)

    def beside(self, notify: Notify | None) -> Notify:
        """A listener that passes each event to this one and to another."""

        def both(event: TuneEvent) -> None:
            self.notify(event)
            if notify is not None:
                notify(event)

        return both

    def _draw_bar(self, stage: _Stage, event: TuneEvent) -> None:
        """A bar per stage, and one line per finished pack."""
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._bar.add_task(stage.name, total=stage.total)
        self._bar.update(self._tasks[stage.name], total=stage.total, completed=stage.done)
        if event.is_finished:
            how = f" ({event.layout})" if event.layout else ""
            self._write(f"{stage.name}: {stage.pack} in {event.wall_s:.1f} s{how}")

    def _write_log(self, stage: _Stage, event: TuneEvent) -> None:
        """A line per minute, for output that is not a terminal: a file, a batch system, a pipe."""
        del event
        if self._is_due(LINE_EVERY_S):
            with suppress(OSError, ValueError):  # a closed output is no reason to stop training
                self._write(f"{stage.name}: {stage.text}")

    def _draw_cell(self, stage: _Stage, event: TuneEvent) -> None:
        """Bars in the output of a notebook's cell, which stay there when it is saved."""
        del stage
        if self._display is not None and self._cell is None:
            self._last = time.monotonic()
            self._cell = self._display(self, display_id=True)
        elif self._is_due(0.0 if event.is_finished else DRAW_EVERY_S):
            self._cell.update(self)

    def _is_due(self, every_s: float) -> bool:
        """Whether the last output is this long ago; if so, the next one counts from now."""
        now = time.monotonic()
        is_due = now - self._last >= every_s
        self._last = now if is_due else self._last
        return is_due

    def _write(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __repr__(self) -> str:
        return "\n".join(f"{stage.name}: {stage.text}" for stage in self._stages.values())

    def _repr_html_(self) -> str:
        return "".join(
            f'<div>{escape(stage.name)} <progress value="{stage.fraction:.4f}" max="1">'
            f"</progress> {escape(stage.text)}</div>"
            for stage in self._stages.values()
        )


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this process is a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:  # a script, or IPython at a terminal
        return None
    from IPython.display import display

    return display
