from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap import forecast
from extrap.errors import DataError
from extrap.reading import read_runs

wandb = pytest.importorskip("wandb")
NAMES: dict[str, Any] = {"size": "width", "tune": "lr", "loss": "val_loss"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sweep: list[Any]) -> Iterator[Path]:
    """Run files that W&B itself wrote, offline."""
    root = tmp_path_factory.mktemp("wandb")
    for run in sweep:
        config = {"width": run.width, "opt": {"lr": run.lr}, "seed": run.seed}
        with wandb.init(
            project="p", mode="offline", dir=str(root), name=run.name, config=config
        ) as logged:
            for step in range(6):
                logged.log({"val_loss": run.loss(step), "val_acc": step / 10}, step=step)
    yield root
    wandb.teardown()


@pytest.fixture(scope="module")
def objects(sweep: list[Any]) -> list[Any]:
    """Run objects of the public API, filled as a server would."""
    from wandb.apis.public import Run

    class Offline(Run):
        def load(self, force: bool = False) -> dict[str, Any]:
            return self._load_from_attrs()

        def load_full_data(self, force: bool = False) -> dict[str, Any]:
            return self._load_from_attrs()

    made = []
    for number, run in enumerate(sweep):
        config = {"width": run.width, "lr": run.lr, "seed": run.seed, "_wandb": {}}
        attributes = {
            "name": f"id{number}",
            "displayName": run.name,
            "state": "finished",
            "config": json.dumps({key: {"value": value} for key, value in config.items()}),
            "summaryMetrics": json.dumps({"val_loss": run.loss(5), "_step": 5}),
            "createdAt": "2026-11-22T00:00:00Z",
        }
        made.append(Offline(None, "us", "p", f"id{number}", attrs=attributes, lazy=False))
    return made


def test_offline_run_files_hold_the_sweep(folder: Path, table: pd.DataFrame) -> None:
    runs = read_runs(folder, **{**NAMES, "tune": "opt.lr"})
    plain = read_runs(table.rename(columns={"lr": "opt.lr"}), size="width", tune="opt.lr")
    assert runs.data_hash() == plain.data_hash()
    curves = runs.curves()
    assert curves is not None
    assert len(curves) == 6 * len(table)
    made, expected = forecast(runs).at(width=256), forecast(plain).at(width=256)
    assert made.loss == expected.loss
    assert made.loss_pi == expected.loss_pi
    assert made.tuned["opt.lr"].value == expected.tuned["opt.lr"].value


def test_a_metric_of_a_run_file_may_be_maximised(folder: Path) -> None:
    runs = read_runs(folder, size="width", tune="opt.lr", maximise="val_acc", final="best")
    assert runs.to_frame()["loss"].unique().tolist() == [0.5]


def test_a_file_cut_short_is_read_to_where_it_was_cut(folder: Path, tmp_path: Path) -> None:
    file = sorted(folder.rglob("run-*.wandb"))[0]
    (tmp_path / file.name).write_bytes(file.read_bytes()[:-700])
    with pytest.raises(DataError, match="name the size") as caught:
        read_runs(tmp_path)
    assert "val_loss" in str(caught.value)
    runs = read_runs(tmp_path, size="width", loss="val_loss", stage="check")
    assert runs.to_frame()["status"].tolist() == ["failed"]
    assert "1 run(s) did not finish (running): counted as failed" in runs.notes


def test_a_file_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "run-x.wandb").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"is no run of W&B; leave the file out"):
        read_runs(tmp_path, **NAMES)


def test_a_resumed_run_is_one(tmp_path: Path) -> None:
    for steps, loss in ((range(5), 3.0), (range(3, 8), 2.0)):
        with wandb.init(
            project="p", mode="offline", dir=str(tmp_path), id="same", config={"width": 8, "lr": 1}
        ) as run:
            for step in steps:
                run.log({"val_loss": loss}, step=step)
    wandb.teardown()  # what it writes is there when its own process has ended
    files = sorted(tmp_path.rglob("run-same.wandb"))
    assert len(files) >= 1
    runs = read_runs(tmp_path, **NAMES)
    curves = runs.curves()
    assert curves is not None
    assert curves["step"].tolist() == list(range(8))
    assert runs.to_frame()["loss"].tolist() == [2.0]


def test_objects_of_the_public_api_are_runs(objects: list[Any], table: pd.DataFrame) -> None:
    runs = read_runs(objects, **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    assert runs.source == "the list of runs"


def test_histories_of_objects_are_asked_for_where_a_curve_is_wanted() -> None:
    class Told:
        state, id, name = "finished", "a", "a"

        def __init__(self) -> None:
            self.config = {"width": 8, "lr": 0.1}
            self.summary = {"val_loss": 2.0, "val_acc": "NaN"}
            self.asked = 0

        def scan_history(self, keys: list[str]) -> list[dict[str, Any]]:
            self.asked += 1
            return [{"_step": 0, keys[1]: 1.5}, {"_step": 1, keys[1]: "NaN"}, {"_step": 2}]

    run = Told()
    assert read_runs([run], **NAMES).to_frame()["loss"].tolist() == [2.0]
    assert run.asked == 0
    best = read_runs([run], **NAMES, final="best").to_frame()
    assert best["status"].tolist() == ["diverged"]
    assert run.asked == 1


def test_the_runs_table_exports_as_csv_and_is_read(table: pd.DataFrame, tmp_path: Path) -> None:
    named = table.rename(columns={"loss": "val_loss"}).assign(Name="x", State="finished")
    named.loc[0, ["State", "val_loss"]] = ["crashed", 9.0]
    named.to_csv(tmp_path / "export.csv", index=False)
    runs = read_runs(tmp_path / "export.csv", **NAMES)
    assert runs.to_frame()["status"].tolist() == ["failed"] + ["complete"] * (len(table) - 1)


def test_a_metric_whose_summary_is_its_minimum_is_read_from_its_history() -> None:
    class Told:
        state = "finished"

        def __init__(self, width: int, summary: dict[str, Any]) -> None:
            self.id = self.name = f"w{width}"
            self.config = {"width": width, "lr": 0.1}
            self.summary = summary

        def scan_history(self, keys: list[str]) -> list[dict[str, Any]]:
            losses = {0: 3.0, 1: 1.5, 2: 2.0}
            logged = keys[1] == "val_loss"
            return [{"_step": s, keys[1]: loss} for s, loss in losses.items() if logged]

    defined = [Told(8, {"val_loss": {"min": 1.5}}), Told(16, {"val_loss": {"min": 1.5}})]
    runs = read_runs(defined, **NAMES)
    assert runs.to_frame()["loss"].tolist() == [2.0, 2.0]
    assert not any("optimistic" in note for note in runs.notes)
    mixed = [Told(8, {"val_loss": 2.25}), Told(16, {"val_loss": {"min": 1.5}})]
    assert read_runs(mixed, **NAMES).to_frame()["loss"].tolist() == [2.25, 2.0]
    least = read_runs(defined, **{**NAMES, "loss": "val_loss.min"})
    assert least.to_frame()["loss"].tolist() == [1.5, 1.5]
    assert any("val_loss.min is the minimum of val_loss over a run" in n for n in least.notes)
