import io
import sys

import pytest
from tqdm.auto import tqdm

from extrap.study.progress import StudyProgress, TuneEvent


@pytest.fixture
def clock(monkeypatch):
    """Moves the clock of all bars by some seconds."""
    moved = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: 1000.0 + moved[0])

    def move(seconds):
        moved[0] += seconds

    return move


def event(done, *, stage="tune", total=100.0, width=64.0, study="toy"):
    cost = {"fraction": 0.5, "cost_done": done, "cost_total": total, "is_finished": False}
    ran = {"n_runs": 24, "wall_s": 3.0, "layout": "packed"}
    return TuneEvent(stage=stage, size={"width": width}, study=study, **cost, **ran)


def test_a_log_gets_one_line_a_minute_and_one_at_the_end(clock, capfd):
    with StudyProgress() as shown:
        for done in range(20, 51):
            shown.notify(event(done, width=8.0 * done))
            clock(10)
    lines = capfd.readouterr().err.splitlines()
    for line, parts in (
        (lines[0], ("20 %", "00:00", "?", "width 160")),
        (lines[1], ("26 %", "01:00", "12:20", "width 208")),  # 74 parts, of which one took 10 s
        (lines[-1], ("50 %", "05:10", "24 runs (packed)")),
    ):
        assert all(part in line for part in parts)
    assert len(lines) == 1 + 5 + 1


def test_costs_beyond_the_total_are_all_of_it_and_a_closed_log_stops_nothing(capfd, monkeypatch):
    heard = []
    with StudyProgress() as shown:
        shown.notify(event(50))
        shown.notify(event(140))  # other workers trained some of these cells too
        shown.notify(event(10, stage="check", study="other"))
        assert "toy sweep: 100 %" in capfd.readouterr().err
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stderr", closed)
        shown.beside(heard.append)(event(95))
    assert heard == [event(95)]


def test_lines_and_warnings_stand_above_the_bars_of_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    printed = []
    with StudyProgress() as shown:
        for done in range(51):
            shown.notify(event(done))
        shown.notify(event(10, stage="check"))
        assert len(tqdm._instances) == 2
        shown.above(lambda text: printed.append((text, capsys.readouterr().err)))("sealed")
    ((text, drawn),) = printed
    assert text == "sealed"
    assert "toy larger runs:  10%" in drawn
    assert drawn.rpartition("packed)")[2].count(f"\r{20 * ' '}") == 2  # both are cleared
    assert "sweep:  50%" in capsys.readouterr().err
    assert not tqdm._instances
