"""Progress of a study: a bar on a terminal or in a notebook, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from types import TracebackType
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
"""Seconds between two lines of a log; a study that is done before gets none."""
DRAW_EVERY_S = 0.5
"""Seconds between two drawings in a notebook: each is a message to the browser."""


@dataclass(slots=True)
class _StageProgress:
    """The cost of a stage that is done, and since when and what was seen."""

    name: str
    began: float
    done_before: float
    done: float = 0.0
    total: float = 0.0
    pack: str = ""

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0

    def words(self, now: float) -> str:
        """`37 % after 4 min, about 7 min left; width 64, 24 runs`."""
        elapsed, own = now - self.began, self.done - self.done_before
        left = elapsed * (self.total - self.done) / own if own > 0 else None
        about = "" if left is None else f", about {duration(left)} left"
        return f"{100 * self.fraction:.0f} % after {duration(elapsed)}{about}; {self.pack}"


class StudyProgress:
    """Shows a study's `TuneEvent`s; a context manager.

    On a terminal one bar per stage and one line per finished pack; in a notebook the same without
    the lines, in the cell's output; elsewhere one line per minute.

    Args:
        console: Where to draw outside of notebooks; by default the standard error.
        quiet: Whether to show nothing anywhere.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        console = console or Console(stderr=True)
        display = notebook_display()
        self._shown: _Notebook | _Terminal | _Log | None
        if quiet:
            self._shown = None
        elif display is not None:
            self._shown = _Notebook(display)
        else:
            self._shown = _Terminal(console) if console.is_terminal else _Log(console)
        self._stages: dict[str, _StageProgress] = {}

    def __enter__(self) -> StudyProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def notify(self, event: TuneEvent) -> None:
        """Show the progress of a stage."""
        if self._shown is None:
            return
        if event.stage not in self._stages:
            name = STAGES.get(event.stage, event.stage)
            self._stages[event.stage] = _StageProgress(name, time.monotonic(), event.cost_done)
        stage = self._stages[event.stage]
        stage.total = event.cost_total
        stage.done = min(event.cost_done, stage.total)  # a cell may be trained twice
        size = ", ".join(f"{column} {value:g}" for column, value in event.size.items())
        stage.pack = f"{size}, {event.n_runs} run{'s' * (event.n_runs != 1)}"
        self._shown.show(stage, event)

    def beside(self, notify: Notify | None) -> Notify:
        """A listener that passes events to this one and to another."""

        def both(event: TuneEvent) -> None:
            self.notify(event)
            if notify is not None:
                notify(event)

        return both


class _Terminal:
    """A bar per stage, and one line per finished pack."""

    def __init__(self, console: Console) -> None:
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

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        self._bar.start()
        if stage.name not in self._tasks:
            self._tasks[stage.name] = self._bar.add_task(stage.name, total=stage.total)
        self._bar.update(self._tasks[stage.name], total=stage.total, completed=stage.done)
        if event.is_finished:
            how = f" ({event.layout})" if event.layout else ""
            _print(self._bar.console, f"{stage.name}: {stage.pack} in {event.wall_s:.1f} s{how}")

    def stop(self) -> None:
        self._bar.stop()


class _Log:
    """A line now and then, for output that is not a terminal: a file, a batch system, a pipe."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY_S:
            self._last = now
            with suppress(OSError, ValueError):  # a closed log is no reason to stop training
                _print(self._console, f"{stage.name}: {stage.words(now)}")

    def stop(self) -> None:
        """A log needs no end."""


class _Notebook:
    """Bars in the output of a notebook's cell, which stay there when it is saved."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._last = 0.0
        self._stages: dict[str, tuple[float, str]] = {}

    def show(self, stage: _StageProgress, event: TuneEvent) -> None:
        now = time.monotonic()
        self._stages[stage.name] = (stage.fraction, stage.words(now))
        if self._handle is None:
            self._handle = self._display(self, display_id=True)
        elif event.is_finished or now - self._last >= DRAW_EVERY_S:
            self._handle.update(self)
        else:
            return
        self._last = now

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.update(self)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {words}" for name, (_, words) in self._stages.items())

    def _repr_html_(self) -> str:
        return "".join(
            f'<div>{escape(name)} <progress value="{fraction:.4f}" max="1"></progress> '
            f"{escape(words)}</div>"
            for name, (fraction, words) in self._stages.items()
        )


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this process is a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:  # a script, or IPython at a terminal
        return None
    from IPython.display import display

    return display
