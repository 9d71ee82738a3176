from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

pytest.importorskip("yaml")
NAMES: dict[str, Any] = {"size": "width", "tune": "lr", "loss": "val_loss"}


def log(folder: Path, name: str, hparams: dict[str, Any], losses: dict[int, float]) -> None:
    """A run as Lightning's own logger writes it."""
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    logger = loggers.CSVLogger(str(folder), name=name)
    logger.log_hyperparams(hparams)
    for step, loss in losses.items():
        logger.log_metrics({"val_loss": loss, "lr-AdamW": 0.1}, step=step)
        logger.log_metrics({"train_loss": loss + 1}, step=step)
    logger.save()


@pytest.mark.filterwarnings("ignore")
def test_csv_logs_of_lightning_hold_the_sweep(
    tmp_path: Path, sweep: list[Any], table: pd.DataFrame
) -> None:
    for number, run in enumerate(sweep):
        log(tmp_path, f"run{number}", run._asdict(), {s: run.loss(s) for s in range(6)})
    runs = read_runs(tmp_path, **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    curves = runs.curves()
    assert curves is not None
    assert len(curves) == 6 * len(table)


def written(folder: Path, hparams: str | None, losses: dict[int, float]) -> None:
    folder.mkdir(parents=True)
    rows = "".join(f"{step},{loss},\n{step},,{loss}\n" for step, loss in losses.items())
    (folder / "metrics.csv").write_text("step,val_loss,train_loss\n" + rows)
    if hparams is not None:
        (folder / "hparams.yaml").write_text(hparams)


def test_versions_that_go_on_are_one_run_and_replicates_are_not(tmp_path: Path) -> None:
    same = "width: 8\nlr: 0.1\n"
    written(tmp_path / "logs/version_0", same, {0: 4.0, 10: 3.0, 20: 2.5})
    written(tmp_path / "logs/version_1", same, {20: 2.0, 30: 1.5})
    written(tmp_path / "logs/version_2", same, {0: 4.5, 10: 3.5, 20: 3.0})
    written(tmp_path / "logs/version_10", same, {30: 2.0})
    runs = read_runs(tmp_path, **NAMES)
    assert runs.to_frame()["loss"].tolist() == [1.5, 2.0]
    assert "2 run(s) were stitched from 4 parts: logs/version_0, logs/version_2" in runs.notes


def test_settings_are_read_from_folders_where_the_file_holds_no_plain_data(tmp_path: Path) -> None:
    hostile = "lr: !!python/object/apply:os.system ['touch owned']\n"
    written(tmp_path / "width=8,lr=0.1/version_0", hostile, {0: 2.0})
    written(tmp_path / "width=16,lr=0.1/version_0", None, {0: math.nan})
    runs = read_runs(tmp_path, **NAMES)
    assert runs.to_frame()["width"].tolist() == [16.0, 8.0]
    assert runs.to_frame()["status"].tolist() == ["diverged", "complete"]
    assert "2 run(s) without a plain hparams.yaml: settings are their folders' names" in runs.notes


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(30)) + "}"]
    for level in range(1, 8):
        inner = ", ".join(f"k{i}: *a{level - 1}" for i in range(30))
        lines.append(f"a{level}: &a{level} {{{inner}}}")
    written(tmp_path / "version_0", "\n".join(lines), {0: 2.0})
    with pytest.raises(DataError, match="at most 20,000 settings"):
        read_runs(tmp_path, **NAMES)


def test_another_metrics_csv_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("width,loss\n1,2\n")
    with pytest.raises(DataError, match="has no column step"):
        read_runs(tmp_path, **NAMES)


def test_replicates_that_log_at_other_intervals_stay_apart(tmp_path: Path) -> None:
    same = "width: 8\nlr: 0.1\n"
    written(tmp_path / "logs/version_0", same, {s: 2.0 for s in range(9, 500, 10)})
    written(tmp_path / "logs/version_1", same, {s: 2.4 for s in range(49, 500, 50)})
    assert read_runs(tmp_path, **NAMES).to_frame()["loss"].tolist() == [2.0, 2.4]


def test_the_loss_of_held_out_data_is_taken_where_none_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "logs/version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("step,loss,val_loss\n9,1.0,2.0\n19,0.5,2.2\n")
    (folder / "hparams.yaml").write_text("width: 8\n")
    assert read_runs(tmp_path, size="width").to_frame()["loss"].tolist() == [2.2]
