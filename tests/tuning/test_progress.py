from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from extrap.tuning import TuneEvent, progress
from extrap.tuning.progress import StudyProgress


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def event(done: float, *, stage: str = "tune", is_finished: bool = False) -> TuneEvent:
    return TuneEvent(
        stage=stage,
        size={"width<b>": 64.0},
        n_runs=24,
        fraction=0.5,
        cost_done=done,
        cost_total=100.0,
        is_finished=is_finished,
        wall_s=3.0,
        layout="packed",
    )


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def test_a_log_gets_one_line_a_minute(clock: Clock) -> None:
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        for done in range(0, 31):
            shown.notify(event(done, is_finished=done % 5 == 0))
            clock.now += 10.0
    lines = place.file.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[0] == "sweep: 6 % after 60 s, about 16 min left; width<b> 64, 24 runs"
    assert lines[-1].startswith("sweep: 30 % after 5 min, about 12 min left")


def test_a_short_study_leaves_no_line_in_a_log(clock: Clock) -> None:
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        shown.notify(event(100, is_finished=True))
    assert place.file.getvalue() == ""


def test_the_time_left_counts_what_others_had_done_before(clock: Clock) -> None:
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        shown.notify(event(80))
        clock.now += 100.0
        shown.notify(event(90))
    assert "90 % after 2 min, about 2 min left" in place.file.getvalue()


def test_a_log_that_nobody_reads_stops_nothing(clock: Clock) -> None:
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        shown.notify(event(1))
        place.file.close()
        clock.now += 100.0
        shown.notify(event(2))


def test_a_terminal_gets_a_bar_and_a_line_a_finished_pack() -> None:
    place = console(terminal=True)
    with StudyProgress(place) as shown:
        shown.notify(event(40))
        shown.notify(event(50, is_finished=True))
        shown.notify(event(10, stage="check"))
    text = place.file.getvalue()
    assert "sweep: width<b> 64, 24 runs in 3.0 s (packed)" in text
    assert "larger runs" in text
    assert "50%" in text


def test_quiet_shows_nothing_anywhere(clock: Clock) -> None:
    for terminal in (True, False):
        place = console(terminal=terminal)
        with StudyProgress(place, quiet=True) as shown:
            clock.now += 100.0
            shown.notify(event(50, is_finished=True))
        assert place.file.getvalue() == ""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The HTML of a notebook's cell after each drawing, from an IPython that has a kernel."""
    drawings: list[str] = []

    def display(thing: Any, *, display_id: bool) -> SimpleNamespace:
        assert display_id
        drawings.append(thing._repr_html_())
        return SimpleNamespace(update=lambda thing: drawings.append(thing._repr_html_()))

    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return drawings


def test_a_notebook_gets_a_bar_that_is_redrawn_now_and_then(clock: Clock, cell: list[str]) -> None:
    place = console(terminal=True)
    with StudyProgress(place) as shown:
        for done in range(40):
            shown.notify(event(done))
            clock.now += 0.1
    assert place.file.getvalue() == ""
    assert 8 <= len(cell) <= 10  # four seconds, twice a second, and the end
    assert '<progress value="0.3900" max="1">' in cell[-1]
    assert "width&lt;b&gt; 64, 24 runs" in cell[-1]
    assert "<b>" not in cell[-1]


def test_a_finished_pack_is_drawn_at_once(clock: Clock, cell: list[str]) -> None:
    with StudyProgress() as shown:
        shown.notify(event(1))
        shown.notify(event(50, is_finished=True))
        assert 'value="0.5000"' in cell[-1]
        shown.notify(event(10, stage="check", is_finished=True))
    assert cell[-1].count("<progress") == 2


def test_ipython_at_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert progress.notebook_display() is None
    ipython.get_ipython = lambda: None
    assert progress.notebook_display() is None


def test_who_listens_already_goes_on_hearing() -> None:
    heard: list[TuneEvent] = []
    with StudyProgress(console(terminal=False)) as shown:
        shown.beside(heard.append)(event(1))
        shown.beside(None)(event(2))
    assert heard == [event(1)]
