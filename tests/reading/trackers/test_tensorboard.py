from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

pytest.importorskip("tensorboard")
torch_tensorboard = pytest.importorskip("torch.utils.tensorboard")
NAMES: dict[str, Any] = {"size": "width", "tune": "lr", "loss": "val/loss"}


def log(folder: Path, losses: dict[int, float], hparams: dict[str, Any] | None = None) -> None:
    """A run as PyTorch's own writer logs it."""
    with torch_tensorboard.SummaryWriter(str(folder)) as writer:
        for step, loss in losses.items():
            writer.add_scalar("val/loss", loss, step)
        if hparams is not None:
            writer.add_hparams(hparams, {"hparam/loss": 1.0})


def test_hyperparameters_of_the_plugin_are_settings(
    tmp_path: Path, sweep: list[Any], table: pd.DataFrame
) -> None:
    for number, run in enumerate(sweep[:6]):
        log(tmp_path / f"r{number}", {s: run.loss(s) for s in range(6)}, run._asdict())
    runs, plain = read_runs(tmp_path, **NAMES), read_runs(table[:6], size="width", tune="lr")
    ours, theirs = runs.canonical(), plain.canonical()
    assert ours[["width", "lr", "seed"]].equals(theirs[["width", "lr", "seed"]])
    assert ours["loss"].tolist() == pytest.approx(theirs["loss"].tolist(), rel=1e-6)  # float32
    assert not any("stitched" in note for note in runs.notes)


def test_settings_stand_in_the_names_of_folders_too(tmp_path: Path, sweep: list[Any]) -> None:
    for run in sweep[:3]:
        log(tmp_path / "pairs" / run.name, {5: run.loss(5)})
        log(tmp_path / "glued" / f"w_width{run.width}" / f"lr={run.lr} s{run.seed}", {5: 2.0})
    pairs, glued = (read_runs(tmp_path / name, **NAMES) for name in ("pairs", "glued"))
    assert pairs.to_frame()["width"].tolist() == [16.0, 16.0, 16.0]
    assert glued.to_frame()["width"].tolist() == [16.0, 16.0, 16.0]
    assert "width was read from the names of the runs" in glued.notes


def test_a_restart_in_the_same_folder_replaces_what_it_repeats(tmp_path: Path) -> None:
    folder = tmp_path / "width=8,lr=0.1"
    log(folder, {0: 4.0, 1: 3.5, 2: 3.25})
    first = next(folder.iterdir())
    first.rename(folder / "events.out.tfevents.100.host.1.0")
    log(folder, {2: 3.0, 3: 2.5})
    runs = read_runs(tmp_path, **NAMES)
    curves = runs.curves()
    assert curves is not None
    assert curves["loss"].tolist() == [4.0, 3.5, 3.0, 2.5]
    assert runs.notes[0].startswith("1 run(s) were stitched from 2 parts")


def test_a_torn_file_is_read_to_where_it_is_torn(tmp_path: Path) -> None:
    folder = tmp_path / "width=8,lr=0.1"
    log(folder, {0: 4.0, 1: 3.5, 2: 3.25})
    file = next(folder.iterdir())
    file.write_bytes(file.read_bytes()[:-10])
    assert read_runs(tmp_path, **NAMES).to_frame()["loss"].tolist() == [3.5]


def test_a_folder_without_any_run_says_what_could_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder without runs; a tracker leaves meta\.yaml"):
        read_runs(tmp_path, **NAMES)
