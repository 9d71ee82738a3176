import json
import os
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.trackers import folders


def state(folder, **config):
    folder.mkdir(parents=True, exist_ok=True)
    log = {"log_history": [{"step": 1, "eval_loss": 2.0}]}
    (folder / "trainer_state.json").write_text(json.dumps(log))
    (folder / "config.json").write_text(json.dumps(config))


def test_links_pipes_and_what_lies_too_deep_are_passed_over(tmp_path):
    state(tmp_path / "runs/width=8")
    state(tmp_path / "elsewhere/width=16")
    (tmp_path / "runs/round").symlink_to(tmp_path / "runs")
    (tmp_path / "runs/away").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs/width=32").mkdir()
    target = tmp_path / "elsewhere/width=16/trainer_state.json"
    (tmp_path / "runs/width=32/trainer_state.json").symlink_to(target)
    os.mkfifo(tmp_path / "runs/metrics.csv")
    state(Path(tmp_path, "runs", *"abcdefghijkl", "width=16"))
    state(Path(tmp_path, "runs", *"abcdefghijk", "width=64"))
    assert set(read_runs(tmp_path / "runs", size="width").to_frame()["width"]) == {8.0, 64.0}


def test_folders_without_end_are_refused(tmp_path, monkeypatch):
    for number in range(5):
        state(tmp_path / f"width={number + 1}")
    for name, most, words in (
        ("MOST_ENTRIES", 14, "at most 14 files"),
        ("MOST_FILES", 3, "and 3 of"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(folders, name, most)
            with pytest.raises(DataError, match=words):
                read_runs(tmp_path, size="width")
    monkeypatch.setattr(folders, "MOST_ENTRIES", 15)
    monkeypatch.setattr(folders, "MOST_FILES", 5)
    assert len(read_runs(tmp_path, size="width")) == 5


def test_names_cannot_command_the_terminal(tmp_path, capsys):
    state(tmp_path / "width=8\x1b[31m", **{"\x1b]0;owned\x07lr": 0.1})
    assert main(["forecast", str(tmp_path), "--size", "wide"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_settings_called_like_our_own_columns_do_no_harm(tmp_path):
    state(tmp_path / "width=8", status="broken", stage="check", run="x", eval_loss=9, loss=7)
    runs = read_runs(tmp_path, size="width").to_frame()
    assert runs[["loss", "status", "stage"]].to_numpy().tolist() == [[2.0, "complete", "tune"]]
    assert runs["config.eval_loss"].tolist() == [9]
