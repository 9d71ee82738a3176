"""A bar with the time left for a terminal; nothing where there is none."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from extrap.tuning import TuneEvent

__all__ = ["StudyProgress"]

STAGES = {"tune": "sweep", "check": "larger runs"}


class StudyProgress:
    """Shows a study's `TuneEvent`s: one bar a stage, one line a finished size.

    Args:
        console: Where to draw; nothing is shown if it is no terminal.
        quiet: Whether to show nothing on a terminal either.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._is_shown = console.is_terminal and not quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed, left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            speed_estimate_period=120,
            disable=not self._is_shown,
        )
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> StudyProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def notify(self, event: TuneEvent) -> None:
        """Move the bar of the event's stage; write a line when a pack is finished."""
        name = STAGES.get(event.stage, event.stage)
        if event.stage not in self._tasks:
            self._tasks[event.stage] = self._bar.add_task(name, total=event.cost_total)
        self._bar.update(
            self._tasks[event.stage],  # type: ignore[arg-type]
            total=event.cost_total,
            completed=event.cost_done,
        )
        if event.is_finished and self._is_shown:
            size = ", ".join(f"{column} {value:g}" for column, value in event.size.items())
            how = f" ({event.layout})" if event.layout else ""
            line = f"{name}: {size}, {event.n_runs} runs in {event.wall_s:.1f} s{how}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
