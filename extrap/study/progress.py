"""How far a study is: a bar on a terminal or in a notebook, a line now and then in a log."""

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

from extrap.records.displays import duration, plural
from extrap.study.events import Notify, TuneEvent

STAGES = {"tune": "sweep", "check": "larger runs"}
LINE_EVERY_S = 60.0
"""Between two lines of a log; a study that takes less gets none."""
DRAW_EVERY_S = 0.5
"""Between two drawings in a notebook, each of which is a message to the browser."""


class StudyProgress:
    """Shows a study's `TuneEvent`s; a context manager.

    On a terminal one bar a stage and one line per finished size; in a notebook the same without
    the lines, in the cell's output; elsewhere one line per minute.

    Args:
        console: Where to draw outside of notebooks; by default the standard error.
        quiet: Whether to show nothing anywhere.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        console, draw = console or Console(stderr=True), notebook_display()
        self._stages: dict[str, _StageProgress] = {}
        self._display = _Display()
        if draw is not None and not quiet:
            self._display = _Notebook(draw)
        elif not quiet:
            self._display = _Terminal(console) if console.is_terminal else _Log(console)

    def __enter__(self) -> StudyProgress:
        self._display.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.stop()

    def notify(self, event: TuneEvent) -> None:
        """Show how far a stage is."""
        if event.stage not in self._stages:
            name = STAGES.get(event.stage, event.stage)
            self._stages[event.stage] = _StageProgress(name, time.monotonic(), event.cost_done)
        stage = self._stages[event.stage]
        stage.total = event.cost_total
        stage.done = min(event.cost_done, stage.total)  # a cell may be trained twice
        size = ", ".join(f"{column} {value:g}" for column, value in event.size.items())
        stage.pack = f"{size}, {plural(event.n_runs, 'run')}"
        self._display.show(stage, event)

    def beside(self, notify: Notify | None) -> Notify:
        """A listener that hands every event to this one and another."""

        def both(event: TuneEvent) -> None:
            self.notify(event)
            if notify is not None:
                notify(event)

        return both


@dataclass(slots=True)
class _StageProgress:
    """What is spent of a stage's cost, and since when we look."""

    name: str
    began: float
    done_before: float
    done: float = 0.0
    total: float = 0.0
    pack: str = ""

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0

    def words(self) -> str:
        """`37 % after 4 min, about 7 min left; width 64, 24 runs`."""
        elapsed, own = time.monotonic() - self.began, self.done - self.done_before
        left = elapsed * (self.total - self.done) / own if own > 0 else None
        about = "" if left is None else f", about {duration(left)} left"
        return f"{100 * self.fraction:.0f} % after {duration(elapsed)}{about}; {self.pack}"


class _Display:
    """Where progress is shown; this one shows nothing."""

    def start(self) -> None:
        """Begin to show."""

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        """Show a stage after an event."""

    def stop(self) -> None:
        """Show the end."""


class _Terminal(_Display):
    """A bar a stage, and one line per finished pack."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("left"),
            console=console,
            speed_estimate_period=120,
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        self._bar.stop()

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._bar.add_task(stage.name)
        self._bar.update(self._tasks[stage.name], total=stage.total, completed=stage.done)
        if event.is_finished:
            how = f" ({event.layout})" if event.layout else ""
            line = f"{stage.name}: {stage.pack} in {event.wall_s:.1f} s{how}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Log(_Display):
    """A line now and then, for output that is not a terminal: a file, a batch system, a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        del event
        if time.monotonic() - self._last < LINE_EVERY_S:
            return
        self._last = time.monotonic()
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop training
            line = f"{stage.name}: {stage.words()}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Notebook(_Display):
    """A bar a stage in the output of a notebook's cell, which stays there when it is saved."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw
        self._drawn: Any = None
        self._stages: dict[str, tuple[float, str]] = {}
        self._last = 0.0

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        self._stages[stage.name] = (stage.fraction, stage.words())
        now = time.monotonic()
        if self._drawn is None:
            self._drawn = self._draw(self, display_id=True)
        elif event.is_finished or now - self._last >= DRAW_EVERY_S:
            self._drawn.update(self)
        else:
            return
        self._last = now

    def stop(self) -> None:
        if self._drawn is not None:
            self._drawn.update(self)

    def __repr__(self) -> str:
        """Where there is no HTML."""
        return "\n".join(f"{name}: {words}" for name, (_, words) in self._stages.items())

    def _repr_html_(self) -> str:
        return "".join(
            f'<div>{escape(name)} <progress value="{fraction:.4f}" max="1"></progress> '
            f"{escape(words)}</div>"
            for name, (fraction, words) in self._stages.items()
        )


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this process is a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:  # a script, or IPython at a terminal
        return None
    from IPython.display import display

    return display
