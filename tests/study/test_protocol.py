"""A kind of study in one file: the study file itself."""

import json
from pathlib import Path

import pandas as pd
import pytest

from extrap.cli import main
from extrap.study import open_study
from extrap.study.files import kind_of

FILE = (Path(__file__).parents[2] / "examples" / "own" / "kind.py").read_text(encoding="utf-8")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("twice.py").write_text(FILE, encoding="utf-8")


def test_a_kind_of_its_own_is_planned_run_followed_and_reported(home, capsys):
    assert main(["study", "run", "twice.py", "--dry-run"]) == 0
    assert "best rate: 2 runs" in capsys.readouterr().out
    assert main(["study", "run", "twice.py", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "which 2 runs bear out" in out
    assert "sealed best rate written to reports/doubling.json" in out
    assert main(["study", "status", "twice.py", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["complete"], status["done"]) == (5, True)
    assert main(["study", "export", "twice.py", "--out", "twice.db"]) == 0
    assert main(["report", "twice.py", "-o", "again.html"]) == 0
    assert main(["report", "twice.py", "reports/twice.runs.csv", "-o", "table.html"]) == 0
    for page in ("again.html", "table.html"):
        assert "which 2 runs bear out" in Path(page).read_text(encoding="utf-8")
    assert set(pd.read_csv("reports/twice.runs.csv")["arm"]) == {"twice"}


def test_what_is_sealed_stands_before_the_first_run_that_follows(home):
    assert main(["study", "run", "twice.py", "--quiet"]) == 0
    sealed = json.loads(Path("reports/doubling.json").read_text())
    first = pd.read_csv("reports/twice.runs.csv").query("stage == 'check'")["started_at"].min()
    assert sealed["created"] <= first


def test_a_kind_may_not_take_a_built_in_name_nor_change_one_by_inheritance():
    kind = kind_of("STUDY")
    type("Mine", (kind,), {})
    assert kind_of("STUDY") is kind
    with pytest.raises(ValueError, match="BATCHES is a kind"):
        type("Mine", (kind,), {"symbol": "BATCHES"})


def test_a_variable_with_the_name_of_an_earlier_kind_is_no_study(home):
    open_study("twice.py")
    Path("plain.py").write_text(PLAIN)
    assert open_study("plain.py").symbol == "STUDY"


PLAIN = """
from extrap import StudySpec, TunedRange, Workload
DOUBLING = True
STUDY = StudySpec(name="plain", question="?", workload=Workload(name="teacher"),
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=0.01, high=0.04, n=3)}, seeds=(0,))
"""
