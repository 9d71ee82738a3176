from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from extrap import forecast
from extrap.errors import DataError
from extrap.reading import read_runs

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own, on stores of files
NAMES: dict[str, Any] = {"size": "width", "tune": "lr", "loss": "val_loss"}


def fill(uri: str, sweep: list[Any]) -> Any:
    """A store as MLflow's own client writes it."""
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("sweep")
    for run in sweep:
        made = client.create_run(experiment, run_name=run.name)
        params = [Param(key, str(value)) for key, value in run._asdict().items()]
        metrics = [Metric("val_loss", run.loss(step), 10 + step, step) for step in range(6)]
        metrics.append(Metric("train/loss", math.inf, 10, 0))
        client.log_batch(made.info.run_id, metrics=metrics, params=params)
        client.set_terminated(made.info.run_id)
    return client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sweep: list[Any]) -> Path:
    root = tmp_path_factory.mktemp("mlflow") / "mlruns"
    fill(root.as_uri(), sweep)
    return root


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, sweep: list[Any]) -> Path:
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    fill(f"sqlite:///{path}", sweep)
    return path


def test_a_store_of_files_holds_the_sweep(folder: Path, table: pd.DataFrame) -> None:
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    runs = read_runs(folder, **NAMES)
    plain = read_runs(table, size="width", tune="lr")
    assert runs.data_hash() == plain.data_hash()
    assert forecast(runs).at(width=256) == forecast(plain).at(width=256)
    curves = runs.curves()
    assert curves is not None
    assert len(curves) == 6 * len(table)
    assert math.isinf(runs.to_frame()["train/loss"][0])
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
    assert len(read_runs(folder, **NAMES, study="sweep")) == len(table)


@pytest.mark.parametrize("form", ["sqlite:///{}", "{}", "mlflow+sqlite:///{}"])
def test_a_database_holds_the_sweep_whoever_reads_it(
    database: Path, table: pd.DataFrame, form: str
) -> None:
    runs = read_runs(form.format(database), **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    best = read_runs(form.format(database), **NAMES, final="best").to_frame()
    assert best["loss"].tolist() == runs.to_frame()["loss"].tolist()
    assert math.isinf(runs.to_frame()["train/loss"][0])


def test_reading_a_database_changes_nothing(database: Path) -> None:
    before = database.read_bytes()
    read_runs(str(database), **NAMES)
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.iterdir() if "mlflow.db" in path.name] == [
        "mlflow.db"
    ]


def test_a_database_whose_newest_pages_lie_beside_it_is_read(
    database: Path, tmp_path: Path, table: pd.DataFrame
) -> None:
    here, there = tmp_path / "live.db", tmp_path / "copied"
    shutil.copy(database, here)
    there.mkdir()
    connection = sqlite3.connect(here)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("UPDATE metrics SET value = 9 WHERE key = 'val_loss' AND step = 5")
    connection.commit()
    for path in tmp_path.glob("live.db*"):
        shutil.copy(path, there / path.name)
    connection.close()
    runs = read_runs(str(there / "live.db"), **NAMES)
    assert runs.to_frame()["loss"].tolist() == [9.0] * len(table)


def test_several_experiments_need_a_name(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    shutil.copy(database, path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE runs SET experiment_id = 0 WHERE run_uuid = (SELECT min(run_uuid) FROM runs)"
        )
    connection.close()
    with pytest.raises(DataError, match=r"several experiments, .*; name one of them .* --study"):
        read_runs(str(path), **NAMES)
    assert len(read_runs(str(path), **NAMES, study="0")) == 1
    with pytest.raises(DataError, match="no experiment 'other' with runs"):
        read_runs(str(path), **NAMES, study="other")


def test_runs_that_did_not_finish_or_were_deleted_do_not_count(
    sweep: list[Any], tmp_path: Path
) -> None:
    client = fill((tmp_path / "mlruns").as_uri(), sweep[:4])
    experiment = client.get_experiment_by_name("sweep").experiment_id
    found = client.search_runs([experiment])
    client.delete_run(found[0].info.run_id)
    client.set_terminated(found[1].info.run_id, "KILLED")
    runs = read_runs(tmp_path / "mlruns", **NAMES)
    assert runs.counts()["runs"] == 3
    assert runs.counts()["failed"] == 1
    assert "1 run(s) did not finish (killed): counted as failed" in runs.notes


def test_a_restarted_run_is_stitched(sweep: list[Any], tmp_path: Path) -> None:
    from mlflow.entities import Metric, Param

    client = fill((tmp_path / "mlruns").as_uri(), sweep[:1])
    experiment = client.get_experiment_by_name("sweep").experiment_id
    for steps, loss in ((range(4), 4.0), (range(3, 9), 2.0)):
        run = client.create_run(experiment, run_name="split")
        params = [Param("width", "99"), Param("lr", "0.1"), Param("seed", "0")]
        client.log_batch(
            run.info.run_id,
            metrics=[Metric("val_loss", loss, step, step) for step in steps],
            params=params,
        )
        client.set_terminated(run.info.run_id, "FAILED" if loss > 3 else "FINISHED")
    runs = read_runs(tmp_path / "mlruns", **NAMES)
    assert "1 run(s) were stitched from 2 parts: split" in runs.notes
    frame, curves = runs.to_frame(), runs.curves()
    assert frame["loss"].tolist()[-1] == 2.0
    assert curves is not None
    assert curves[curves["run"] == 1]["step"].tolist() == list(range(9))


def test_a_torn_store_is_one_clear_error(folder: Path, database: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "mlruns")
    metric = next((tmp_path / "mlruns").rglob("val_loss"))
    metric.write_text("10 2.5 0\n11 lo")
    with pytest.raises(DataError, match="lines of time, value and step, got '11 lo'"):
        read_runs(tmp_path / "mlruns", **NAMES)
    data = bytearray(database.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    (tmp_path / "torn.db").write_bytes(data)
    with pytest.raises((DataError, Exception), match=r"torn\.db"):
        read_runs(str(tmp_path / "torn.db"), **NAMES)


def test_a_server_that_does_not_answer_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DataError, match=r"MLflow does not give the runs of http://127") as e:
        read_runs("http://me:secret@127.0.0.1:9", **NAMES)
    assert "secret" not in str(e.value)


def test_experiments_in_the_trash_do_not_count(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    shutil.copytree(folder, root)
    own = next(
        path.parent for path in root.rglob("meta.yaml") if "name: sweep" in path.read_text()
    )
    shutil.copytree(own, root / ".trash/2")
    for meta in (root / ".trash").rglob("meta.yaml"):
        meta.write_text(meta.read_text().replace(own.name, "2").replace("name: sweep", "name: x"))
    assert read_runs(root, **NAMES).data_hash() == read_runs(folder, **NAMES).data_hash()
