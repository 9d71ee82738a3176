import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from extrap.study import progress
from extrap.study.events import TuneEvent
from extrap.study.progress import StudyProgress


@pytest.fixture
def clock(monkeypatch):
    """A monotonic clock that stands until it is moved."""
    made = SimpleNamespace(now=1000.0, monotonic=lambda: made.now)
    monkeypatch.setattr(progress, "time", made)
    return made


def event(done, *, stage="tune", is_finished=False, width=64.0):
    cost = {"fraction": 0.5, "cost_done": done, "cost_total": 100.0, "is_finished": is_finished}
    ran = {"n_runs": 24, "wall_s": 3.0, "layout": "packed"}
    return TuneEvent(stage=stage, size={"width<b>": width}, **cost, **ran)


def console(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def test_a_log_gets_one_line_a_size_and_one_at_the_end(clock):
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        for done in range(1, 31):
            clock.now += 10.0
            shown.notify(event(done, is_finished=True, width=(16.0, 32.0)[done // 10 % 2]))
    lines = place.file.getvalue().splitlines()
    assert len(lines) == 3
    # the second size begins with 10 of 100: 9 in 90 s since the first, 900 s for 90; 29 in 290 s
    for line, words in (
        (lines[0], ("1 %", " 16,")),
        (lines[1], ("10 %", "2 min", "15 min", " 32,")),
        (lines[2], ("30 %", "12 min")),
    ):
        assert all(word in line for word in words)


def test_the_time_left_counts_what_others_had_done_and_a_closed_log_stops_nothing(clock):
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        shown.notify(event(80))
        clock.now += 100.0
        shown.notify(event(90, width=128.0))
        assert "about 2 min left" in place.file.getvalue()  # ten more as those in 100 s
        place.file.close()
        clock.now += 100.0
        heard = []
        shown.beside(heard.append)(event(95))
        assert heard == [event(95)]  # who listens already goes on hearing


def test_the_time_left_is_never_negative(clock):
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        for done in (50, 60, 140):  # other workers trained some of these cells too
            shown.notify(event(done))
            clock.now += 100.0
        shown.notify(event(140))
    assert "100 %" in place.file.getvalue()
    assert "-" not in place.file.getvalue()


def test_a_terminal_gets_a_bar_a_stage_and_no_line_a_run():
    place = console(terminal=True)
    with StudyProgress(place) as shown:
        for done in range(51):
            shown.notify(event(done, is_finished=True))
        shown.notify(event(10, stage="check"))
    last = place.file.getvalue().rpartition("\x1b[2K")[2]  # what the last drawing leaves
    last = last.partition("\x1b[?25h")[0]
    assert [line.split()[0] for line in last.splitlines()] == ["sweep", "larger"]
    assert "50 %" in last
    assert "24 runs (packed)" in last
    assert place.file.getvalue().count("\n") < 10


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(terminal):
    place = console(terminal=terminal)
    with StudyProgress(place, quiet=True) as shown:
        shown.notify(event(100, is_finished=True))
    assert place.file.getvalue() == ""


@pytest.fixture
def cell(monkeypatch):
    """The HTML of a notebook's cell after each drawing, from an IPython that has a kernel."""
    drawings: list[str] = []

    def display(thing, *, display_id):
        assert display_id
        drawings.append(thing._repr_html_())
        return SimpleNamespace(update=lambda thing: drawings.append(thing._repr_html_()))

    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return drawings


def test_a_notebook_gets_a_bar_that_is_redrawn_now_and_then(clock, cell):
    place = console(terminal=True)
    with StudyProgress(place) as shown:
        for done in range(40):
            shown.notify(event(done))
            clock.now += 0.1
    assert place.file.getvalue() == ""
    assert 8 <= len(cell) <= 10  # four seconds, twice a second, and the end
    assert 'value="0.39"' in cell[-1]
    assert "width&lt;b&gt; 64" in cell[-1]
    assert "<b>" not in cell[-1]
    with StudyProgress() as shown:
        shown.notify(event(1))
        shown.notify(event(50, is_finished=True))
        assert 'value="0.5"' in cell[-1]  # a finished pack is drawn at once
        shown.notify(event(10, stage="check", is_finished=True))
    assert cell[-1].count("<progress") == 2
