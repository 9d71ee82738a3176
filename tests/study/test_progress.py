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


def event(done, *, stage="tune", is_finished=False):
    cost = {"fraction": 0.5, "cost_done": done, "cost_total": 100.0, "is_finished": is_finished}
    ran = {"n_runs": 24, "wall_s": 3.0, "layout": "packed"}
    return TuneEvent(stage=stage, size={"width<b>": 64.0}, **cost, **ran)


def console(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def test_a_log_gets_one_line_a_minute(clock):
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        for done in range(0, 31):
            shown.notify(event(done, is_finished=done % 5 == 0))
            clock.now += 10.0
    lines = place.file.getvalue().splitlines()
    assert len(lines) == 5
    # 6 of 100 in 60 s: 940 s are left; 30 in 300 s: 700 s
    for line, words in ((lines[0], ("6 %", "60 s", "16 min")), (lines[-1], ("30 %", "12 min"))):
        assert all(word in line for word in words)


def test_the_time_left_counts_what_others_had_done_and_a_closed_log_stops_nothing(clock):
    place = console(terminal=False)
    with StudyProgress(place) as shown:
        shown.notify(event(80))
        clock.now += 100.0
        shown.notify(event(90))
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


def test_a_terminal_gets_a_bar_and_a_line_a_finished_pack():
    place = console(terminal=True)
    with StudyProgress(place) as shown:
        shown.notify(event(40))
        shown.notify(event(50, is_finished=True))
        shown.notify(event(10, stage="check"))
    text = place.file.getvalue()
    assert "runs in 3.0 s (packed)" in text
    assert "larger runs" in text
    assert "50%" in text


@pytest.mark.parametrize(("terminal", "quiet"), [(True, True), (False, True), (False, False)])
def test_quiet_and_a_short_study_show_nothing(clock, terminal, quiet):
    place = console(terminal=terminal)
    with StudyProgress(place, quiet=quiet) as shown:
        clock.now += 100.0 * quiet
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
    assert 'value="0.3900"' in cell[-1]
    assert "width&lt;b&gt; 64" in cell[-1]
    assert "<b>" not in cell[-1]
    with StudyProgress() as shown:
        shown.notify(event(1))
        shown.notify(event(50, is_finished=True))
        assert 'value="0.5000"' in cell[-1]  # a finished pack is drawn at once
        shown.notify(event(10, stage="check", is_finished=True))
    assert cell[-1].count("<progress") == 2
