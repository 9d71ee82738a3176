"""`extrap study status`: once, as JSON, and live."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.commands import live_status
from extrap.study import open_study, tune
from extrap.study.database import open_storage
from extrap.study.status import DRIVER
from extrap.study_folders import name_in

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
    assert "0 cells, 0 complete" in before
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
    storage = open_storage("sqlite:///.extrap/tiny.db")
    (told,) = (s.user_attrs[DRIVER] for s in storage.get_all_studies() if DRIVER in s.user_attrs)
    odd = {"at": "2999-01-01T00:00:00+00:00", "host": "[bold]h[/nope]"}
    storage.set_study_user_attr(1, DRIVER, {**told, **odd})
    assert main(["study", "status", study]) == 0
    assert "[bold]h[/nope]" in capsys.readouterr().out.replace("\n", "")


HEAVY = """
import sys
from extrap.cli import main

code = main(sys.argv[1:])
heavy = {"torch", "tiny", "pandas", "scipy", "optuna"}.intersection(sys.modules)
sys.exit(f"{code}, imported {heavy}" if code or heavy else 0)
"""


@pytest.mark.parametrize("more", [[], ["--json"], ["--watch"]])
def test_nothing_of_the_study_is_imported(study, fill, more):
    """What the study's file does when it is imported would be seen."""
    text = Path(study).read_text()
    Path(study).write_text(f"raise SystemExit('imported')\n{text}")
    fill()
    words = [sys.executable, "-c", HEAVY, "study", "status", study, *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("12 cells, 12 complete" in done.stdout) or json.loads(done.stdout)["complete"] == 12


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("STUDY = StudySpec(name='a', workload=Workload(name='b'))", "a"),
        ("STUDY: StudySpec = StudySpec(name='a')", "a"),
        ("BASE = StudySpec(name='a')\nSTUDY = replace(BASE, seeds=(0,))", "a"),
        ("BASE = StudySpec(name='a')\nSTUDY = replace(BASE, name='b')", "b"),
        ("STUDY = StudySpec(name='a')\nCOMPARISON = ComparisonStudy(name='b')", "b"),
        ("MINE = Record(name='a')", "a"),
        ("NAME = 'a'\nSTUDY = StudySpec(name=NAME)", ""),
        ("STUDY = replace(STUDY, seeds=(0,))", ""),
        ("from elsewhere import STUDY", ""),
    ],
)
def test_the_name_of_a_study_is_read_in_its_text(text, name, tmp_path, capsys):
    (path := tmp_path / "study.py").write_text(text)
    assert name_in(path) == name
    if not name:
        assert main(["study", "status", str(path)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "--storage" in said


@pytest.mark.parametrize("text", ["def", None])
def test_a_file_that_is_no_study_is_refused(text, tmp_path, capsys):
    path = tmp_path / "study.py"
    if text:
        path.write_text(text)
    assert main(["study", "status", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_a_storage_without_a_status_says_so(study, fill, capsys):
    fill()
    with closing(sqlite3.connect(".extrap/tiny.db")) as storage:
        storage.execute("DELETE FROM study_user_attributes WHERE key = ?", (DRIVER,))
        storage.commit()
    assert main(["study", "status", study, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cells"], found["done"], len(found["notes"])) == (0, False, 1)
    Path(".extrap/tiny.db").write_text("no database")
    assert main(["study", "status", study]) == 2
    assert "must be an Optuna database" in capsys.readouterr().err
