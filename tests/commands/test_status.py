"""`extrap study status`: once, as JSON, and live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extrap.cli import main
from extrap.commands import status as status_module
from extrap.standing import COUNTS
from extrap.study_files import load_study
from extrap.tuning import tune

STUDY = """
from extrap.records import *
STUDY = StudySpec(
    name="tiny", question="?", workload=Workload(name="mine"), growth=0,
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)}, seeds=(0, 1),
)
"""


def loss_of(size: dict[str, float], tuned: dict[str, float], seed: int) -> float:
    return 1.0 + size["width"] ** -0.5 + tuned["lr"] + 0.001 * seed


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(STUDY)
    return "tiny.py"


def fill() -> None:
    tune(load_study("tiny.py"), "sqlite:///.extrap/tiny.db", train=loss_of)


def test_json_is_one_object_with_whole_numbers(study: str, capsys: Any) -> None:
    assert main(["study", "status", study, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {name: document[name] for name in COUNTS} == {
        "cells": 12,
        "complete": 0,
        "running": 0,
        "waiting": 12,
        "failed": 0,
        "diverged": 0,
        "duplicates": 0,
    }
    assert all(type(document[name]) is int for name in COUNTS)
    assert sorted(set(document) - set(COUNTS)) == sorted(
        ["at", "cost", "done", "eta_s", "notes", "optima", "sizes", "storage", "study", "workers"]
    )
    assert not Path(".extrap").exists()
    fill()
    assert main(["study", "status", study, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["complete"], document["done"], document["eta_s"]) == (12, True, 0.0)
    assert document["sizes"][0]["size"] == {"width": 8.0}


def test_the_table_says_the_same(study: str, capsys: Any) -> None:
    fill()
    assert main(["study", "status", study]) == 0
    said = capsys.readouterr().out
    assert "tiny: 12 cells, 12 complete, 0 running, 0 waiting" in said
    assert "width 16" in said
    assert "not bracketed yet" in said


def test_watching_says_each_change_and_ends(
    study: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = iter([lambda: None, fill])
    monkeypatch.setattr(status_module.time, "sleep", lambda _: next(naps)())
    assert main(["study", "status", study, "--watch"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tiny: 12 cells, 0 complete, 0 running, 12 waiting",
        "tiny: 12 cells, 12 complete, 0 running, 0 waiting",
    ]
    assert main(["study", "status", study, "--watch", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["complete"] == 12


def test_ctrl_c_ends_watching(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status_module.time, "sleep", stop)
    assert main(["study", "status", study, "--watch"]) == 130


def test_a_terminal_gets_a_table_that_is_redrawn(
    study: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(status_module.Console):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(force_terminal=True, width=100)

    monkeypatch.setattr(status_module, "Console", Terminal)
    naps = iter([fill])
    monkeypatch.setattr(status_module.time, "sleep", lambda _: next(naps)())
    assert main(["study", "status", study, "--watch"]) == 0
    said = capsys.readouterr().out
    assert "0 complete" in said
    assert "12 complete" in said


@pytest.mark.parametrize("text", ["nothing.py", "bad.py"])
def test_what_is_no_study_file_is_bad_usage(text: str, study: str, capsys: Any) -> None:
    Path("bad.py").write_text("STUDY = 1\n")
    assert main(["study", "status", text]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_no_storage_is_bad_data(study: str, capsys: Any) -> None:
    Path("x.db").write_bytes(b"no database at all" * 100)
    for url in ("sqlite:///x.db", "journal:///x.db", "nonsense", "postgresql://u:p@localhost:1/x"):
        assert main(["study", "status", study, "--storage", url]) == 2, url
        assert "extrap: " in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "export", "repair", "merge"])
@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_what_only_reads_changes_no_byte(verb: str, kind: str, study: str, tmp_path: Path) -> None:
    (folder := tmp_path / "there").mkdir()
    url = f"{kind}:///{folder}/tiny"
    tune(load_study(study), url, train=loss_of)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    words = {
        "status": ["--storage", url],
        "export": ["--storage", url, "--out", "tiny.parquet"],
        "repair": ["--storage", url, "--dry-run"],
        "merge": [url],
    }
    assert main(["study", verb, study, *words[verb]]) == 0
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before


def test_names_from_a_storage_are_text(study: str, capsys: Any) -> None:
    from extrap.reading.optuna import WORKER
    from extrap.reading.storages import open_storage

    fill()
    odd = {"beat": 1, "at": "2999-01-01T00:00:00+00:00", "grace_s": 60.0, "pid": 1, "created": 1.0}
    storage = open_storage("sqlite:///.extrap/tiny.db")
    storage.set_study_user_attr(1, f"{WORKER}[red]x[/blue]", {**odd, "host": "[bold]h[/nope]"})
    assert main(["study", "status", study]) == 0
    assert "[bold]h[/nope]" in capsys.readouterr().out.replace("\n", "")


def test_export_import_and_repair_from_the_command_line(study: str, capsys: Any) -> None:
    fill()
    assert main(["study", "export", study, "--out", "out/t.parquet"]) == 0
    assert capsys.readouterr().out == "wrote 12 trials to out/t.parquet\n"
    for words in ("12 runs copied, 0 were there already", "0 runs copied, 12 were there already"):
        assert (
            main(["study", "import", study, "out/t.parquet", "--storage", "sqlite:///b.db"]) == 0
        )
        assert words in capsys.readouterr().out
    assert main(["study", "repair", study, "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing to mend\n"
    assert main(["study", "import", study, "tiny.py"]) == 2
    assert main(["study", "export", study, "--out", "t.csv"]) == 2
    assert main(["study", "repair", study, "--storage", "sqlite:///none.db"]) == 2
    assert not Path("none.db").exists()
