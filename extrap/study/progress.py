"""Progress of a study: a bar on a terminal or in a notebook, a line per size in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from extrap.records.numbers import NBSP, counted, format_duration, format_level
from extrap.study.events import Notify, TuneEvent
from extrap.study.protocol import size_words

STAGES = {"tune": "sweep", "check": "larger runs"}
DRAW_EVERY_S = 0.5
"""Seconds between drawings in a notebook: every drawing is a message to the browser."""


@dataclass(slots=True)
class _Stage:
    """Progress of one stage, in units of cost, and the time since its first event."""

    name: str
    done_before: float
    began: float
    elapsed: float = 0.0
    done: float = 0.0
    total: float = 0.0
    pack: str = ""

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0

    @property
    def text(self) -> str:
        """As of now, unless it is done: `37 % after 4 min, about 7 min left; width 64, 2 runs`."""
        elapsed = self.elapsed if self.fraction == 1 else time.monotonic() - self.began
        own = self.done - self.done_before
        left, share = "", format_level(round(self.fraction, 2)).replace(NBSP, " ")
        if own > 0 and self.fraction < 1:
            left = f", about {format_duration(elapsed * (self.total - self.done) / own)} left"
        return f"{share} after {format_duration(elapsed)}{left}; {self.pack}"

    def update(self, event: TuneEvent) -> None:
        """Take the numbers of an event."""
        self.elapsed = time.monotonic() - self.began
        self.total = event.cost_total
        self.done = min(event.cost_done, self.total)  # a cell may be trained twice
        how = f" ({event.layout})" if event.layout else ""
        self.pack = f"{size_words(event.size)}, {counted(event.n_runs, 'run')}{how}"


class StudyProgress:
    """Shows a study's `TuneEvent`s; a context manager.

    On a terminal and in a notebook one bar per stage, elsewhere a line at the first pack of each
    size and one per stage at the end.

    Args:
        console: Where to draw outside of notebooks; by default the standard error.
        quiet: Whether to show nothing anywhere.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True)
        self._stages: dict[str, _Stage] = {}
        self._sizes: set[tuple[object, ...]] = set()
        self._last = time.monotonic()
        self._display = notebook_display()
        self._cell: Any = None
        self._tasks: dict[str, TaskID] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[stage].text}", markup=False),
            console=self._console,
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
        if not self._bar.disable:  # older versions of rich print an empty line all the same
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._bar.disable:
            self._bar.stop()
        elif self._cell is not None:
            self._cell.update(self)
        elif self._stages:
            self._write(str(self))

    def notify(self, event: TuneEvent) -> None:
        """Show an event."""
        if self._show is None:
            return
        if event.stage not in self._stages:
            name = STAGES.get(event.stage, event.stage)
            self._stages[event.stage] = _Stage(name, event.cost_done, time.monotonic())
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
        """A bar per stage."""
        del event
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._bar.add_task(stage.name, stage=stage)
        self._bar.update(self._tasks[stage.name], total=stage.total, completed=stage.done)

    def _write_log(self, stage: _Stage, event: TuneEvent) -> None:
        """A line per size, for output that is not a terminal: a file, a batch system, a pipe."""
        size = (stage.name, *event.size.items())
        if size not in self._sizes:
            self._sizes.add(size)
            self._write(f"{stage.name}: {stage.text}")

    def _draw_cell(self, stage: _Stage, event: TuneEvent) -> None:
        """Bars in the output of a notebook's cell, which stay there when it is saved."""
        del stage
        now = time.monotonic()
        if self._display is not None and self._cell is None:
            self._cell = self._display(self, display_id=True)
        elif event.is_finished or now - self._last >= DRAW_EVERY_S:
            self._cell.update(self)
        else:
            return
        self._last = now

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a closed output is no reason to stop training
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __repr__(self) -> str:
        return "\n".join(f"{stage.name}: {stage.text}" for stage in self._stages.values())

    def _repr_html_(self) -> str:
        return "".join(
            f'<div>{escape(stage.name)} <progress value="{round(stage.fraction, 4)}" max="1">'
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
