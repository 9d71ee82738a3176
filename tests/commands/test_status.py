"""`extrap study status`: once, as JSON, and live."""

import json
import shutil
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.commands import live_status
from extrap.study import open_study, tune
from extrap.study.database import open_storage
from extrap.study.trials import DRIVER

STUDY = """
from extrap.records import *
STUDY = StudySpec(
    name="tiny", question="?", workload=Workload(name="mine"), growth=0,
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)}, seeds=(0, 1),
)
"""


def loss_of(size, tuned, seed):
    return 1.0 + size["width"] ** -0.5 + tuned["lr"] + 0.001 * seed


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(STUDY)
    return "tiny.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The storage of the study when it is done."""
    home = tmp_path_factory.mktemp("whole")
    (home / "tiny.py").write_text(STUDY)
    tune(open_study(home / "tiny.py").study, f"sqlite:///{home}/tiny.db", train=loss_of)
    return home / "tiny.db"


@pytest.fixture
def fill(whole):
    """Train the study of the working directory, as another process would."""

    def copy():
        Path(".extrap").mkdir()
        shutil.copy(whole, ".extrap/tiny.db")

    return copy


def test_watching_says_each_change_and_ends(study, fill, capsys, monkeypatch):
    def stop():
        raise KeyboardInterrupt

    naps = iter([lambda: None, stop, lambda: None, fill])
    monkeypatch.setattr(live_status.time, "sleep", lambda _: next(naps)())
    assert main(["study", "status", study, "--watch"]) == 130
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["study", "status", study, "--watch"]) == 0
    before, after = capsys.readouterr().out.splitlines()
    assert "12 cells, 0 complete" in before
    assert "12 cells, 12 complete" in after
    assert main(["study", "status", study, "--watch", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["complete"] == 12


def test_a_terminal_gets_a_table_that_is_redrawn(study, fill, capsys, monkeypatch):
    class Terminal(live_status.Console):  # type: ignore[misc, name-defined]
        def __init__(self):
            super().__init__(force_terminal=True, width=100)

    monkeypatch.setattr(live_status, "Console", Terminal)
    naps = iter([fill])
    monkeypatch.setattr(live_status.time, "sleep", lambda _: next(naps)())
    assert main(["study", "status", study, "--watch"]) == 0
    said = capsys.readouterr().out
    assert "0 complete" in said
    assert "12 complete" in said


def test_what_only_reads_changes_no_byte(study, tmp_path, whole):
    (folder := tmp_path / "there").mkdir()
    url = f"sqlite:///{folder}/tiny"
    shutil.copy(whole, folder / "tiny")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert main(["study", "status", study, "--storage", url]) == 0
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before


def test_names_from_a_storage_are_text(study, fill, capsys):
    fill()
    odd = {"at": "2999-01-01T00:00:00+00:00", "grace_s": 60.0, "pid": 1, "created": 1.0}
    storage = open_storage("sqlite:///.extrap/tiny.db")
    storage.set_study_user_attr(1, DRIVER, {**odd, "host": "[bold]h[/nope]"})
    assert main(["study", "status", study]) == 0
    assert "[bold]h[/nope]" in capsys.readouterr().out.replace("\n", "")
