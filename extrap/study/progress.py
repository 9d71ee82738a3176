"""How far a study is: a bar on a terminal or in a notebook, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from types import TracebackType
from typing import Any, Protocol

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
"""A log gets a line so seldom; a study that is done before gets none."""
DRAW_EVERY_S = 0.5
"""A notebook is redrawn so seldom: every drawing is a message to the browser."""


@dataclass(slots=True)
class _Course:
    """A stage on its way: what is spent of its cost, and since when we look."""

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


class _Face(Protocol):
    """Where progress is shown."""

    def start(self) -> None: ...

    def show(self, course: _Course, event: TuneEvent) -> None: ...

    def stop(self) -> None: ...


class StudyProgress:
    """Shows a study's `TuneEvent`s; a context manager.

    On a terminal one bar a stage and one line per finished size; in a notebook the same without
    the lines, in the cell's output; elsewhere one line per minute.

    Args:
        console: Where to draw outside of notebooks; by default the standard error.
        quiet: Whether to show nothing anywhere.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        console = console or Console(stderr=True)
        display = notebook_display()
        self._face: _Face | None
        if quiet:
            self._face = None
        elif display is not None:
            self._face = _Notebook(display)
        else:
            self._face = _Terminal(console) if console.is_terminal else _Log(console)
        self._courses: dict[str, _Course] = {}

    def __enter__(self) -> StudyProgress:
        if self._face is not None:
            self._face.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._face is not None:
            self._face.stop()

    def notify(self, event: TuneEvent) -> None:
        """Hear how far a stage is."""
        if self._face is None:
            return
        if event.stage not in self._courses:
            name = STAGES.get(event.stage, event.stage)
            self._courses[event.stage] = _Course(name, time.monotonic(), event.cost_done)
        course = self._courses[event.stage]
        course.total = event.cost_total
        course.done = min(event.cost_done, course.total)  # a cell may be trained twice
        size = ", ".join(f"{column} {value:g}" for column, value in event.size.items())
        course.pack = f"{size}, {event.n_runs} run{'s' * (event.n_runs != 1)}"
        self._face.show(course, event)

    def beside(self, notify: Notify | None) -> Notify:
        """A listener that tells this one and another."""

        def both(event: TuneEvent) -> None:
            self.notify(event)
            if notify is not None:
                notify(event)

        return both


class _Terminal:
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

    def show(self, course: _Course, event: TuneEvent) -> None:
        if course.name not in self._tasks:
            self._tasks[course.name] = self._bar.add_task(course.name, total=course.total)
        self._bar.update(self._tasks[course.name], total=course.total, completed=course.done)
        if event.is_finished:
            how = f" ({event.layout})" if event.layout else ""
            line = f"{course.name}: {course.pack} in {event.wall_s:.1f} s{how}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        self._bar.stop()


class _Log:
    """A line now and then, for output that is not a terminal: a file, a batch system, a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    def start(self) -> None:
        self._last = time.monotonic()

    def show(self, course: _Course, event: TuneEvent) -> None:
        del event
        now = time.monotonic()
        if now - self._last < LINE_EVERY_S:
            return
        self._last = now
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop training
            line = f"{course.name}: {course.words(now)}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """A log needs no end."""


class _Notebook:
    """Bars in the output of a notebook's cell, which stay there when it is saved."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._bars = _Bars()
        self._last = 0.0

    def start(self) -> None:
        """The first event draws."""

    def show(self, course: _Course, event: TuneEvent) -> None:
        now = time.monotonic()
        self._bars.courses[course.name] = (course.fraction, course.words(now))
        if self._handle is None:
            self._handle = self._display(self._bars, display_id=True)
        elif event.is_finished or now - self._last >= DRAW_EVERY_S:
            self._handle.update(self._bars)
        else:
            return
        self._last = now

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.update(self._bars)


class _Bars:
    """What a notebook shows: one bar per stage, or a line where there is no HTML."""

    def __init__(self) -> None:
        self.courses: dict[str, tuple[float, str]] = {}

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {words}" for name, (_, words) in self.courses.items())

    def _repr_html_(self) -> str:
        return "".join(
            f'<div>{escape(name)} <progress value="{fraction:.4f}" max="1"></progress> '
            f"{escape(words)}</div>"
            for name, (fraction, words) in self.courses.items()
        )


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this process is a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:  # a script, or IPython at a terminal
        return None
    from IPython.display import display

    return display
