import math
import shutil
import sqlite3
from contextlib import closing

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own, on stores of files
NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


def log(client, experiment, name, params, losses, *, status="FINISHED", **metrics):
    from mlflow.entities import Metric, Param

    run_id = client.create_run(experiment, run_name=name).info.run_id
    points = [Metric("val_loss", loss, 10 + step, step) for step, loss in losses.items()]
    points += [Metric(key.replace("_", "/"), value, 10, 0) for key, value in metrics.items()]
    told = [Param(key, str(value)) for key, value in params.items()]
    client.log_batch(run_id, metrics=points, params=told)
    client.set_terminated(run_id, status)
    return run_id


def fill(uri, sweep):
    """A store with the runs of a sweep, its client and the number of the experiment."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("sweep")
    for run in sweep:
        losses = {step: run.loss(step) for step in range(6)}
        log(client, experiment, run.name, run._asdict(), losses, train_loss=math.inf)
    return client, experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sweep):
    root = tmp_path_factory.mktemp("mlflow") / "mlruns"
    fill(root.as_uri(), sweep)
    return root


@pytest.fixture(scope="module")
def database(tmp_path_factory, sweep):
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    fill(f"sqlite:///{path}", sweep)
    return path


def test_a_store_of_files_holds_the_sweep(folder, table):
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    runs = read_runs(folder, **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    assert len(runs.curves()) == 6 * len(table)
    assert math.isinf(runs.to_frame()["train/loss"][0])
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
    assert len(read_runs(folder, **NAMES, study="sweep")) == len(table)


def test_a_database_holds_the_sweep_whoever_reads_it_and_is_not_changed(database, table):
    before = database.read_bytes()
    plain = read_runs(table, size="width", tune="lr")
    for form in ("sqlite:///{}", "{}", "mlflow+sqlite:///{}"):
        runs = read_runs(form.format(database), **NAMES)
        assert runs.data_hash() == plain.data_hash()
        best = read_runs(form.format(database), **NAMES, final="best").to_frame()
        assert best["loss"].tolist() == runs.to_frame()["loss"].tolist()
        assert math.isinf(runs.to_frame()["train/loss"][0])
    assert database.read_bytes() == before
    names = [path.name for path in database.parent.iterdir() if "mlflow.db" in path.name]
    assert names == ["mlflow.db"]


def test_a_database_whose_newest_pages_lie_beside_it_is_read(database, tmp_path, table):
    here, there = tmp_path / "live.db", tmp_path / "copied"
    shutil.copy(database, here)
    there.mkdir()
    with closing(sqlite3.connect(here)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE metrics SET value = 9 WHERE key = 'val_loss' AND step = 5")
        connection.commit()
        for path in tmp_path.glob("live.db*"):
            shutil.copy(path, there / path.name)
    runs = read_runs(str(there / "live.db"), **NAMES)
    assert runs.to_frame()["loss"].tolist() == [9.0] * len(table)


def test_several_experiments_need_a_name(database, tmp_path):
    path = tmp_path / "two.db"
    shutil.copy(database, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE runs SET experiment_id = 0 WHERE run_uuid = (SELECT min(run_uuid) FROM runs)"
        )
    with pytest.raises(DataError, match="study=…"):
        read_runs(str(path), **NAMES)
    assert len(read_runs(str(path), **NAMES, study="0")) == 1
    with pytest.raises(DataError, match="no experiment 'other'"):
        read_runs(str(path), **NAMES, study="other")


def test_runs_that_did_not_finish_do_not_count_nor_the_first_part_of_a_restarted_one(
    sweep, tmp_path
):
    client, experiment = fill((tmp_path / "mlruns").as_uri(), sweep[:4])
    found = client.search_runs([experiment])
    client.delete_run(found[0].info.run_id)
    client.set_terminated(found[1].info.run_id, "KILLED")
    counts = read_runs(tmp_path / "mlruns", **NAMES).counts()
    assert (counts["runs"], counts["failed"]) == (3, 1)
    split = {"width": 99, "lr": 0.1, "seed": 0}
    log(client, experiment, "split", split, dict.fromkeys(range(4), 4.0), status="FAILED")
    log(client, experiment, "split", split, dict.fromkeys(range(3, 9), 2.0))
    for place in (tmp_path / "mlruns", f"mlflow+{(tmp_path / 'mlruns').as_uri()}"):
        runs = read_runs(place, **NAMES, final="best")
        whole = runs.complete().to_frame()
        assert whole.loc[whole["width"] == 99, "loss"].tolist() == [2.0]
        assert len(runs) == 5


def test_a_torn_store_is_one_clear_error(folder, database, tmp_path):
    shutil.copytree(folder, tmp_path / "mlruns")
    metric = next((tmp_path / "mlruns").rglob("val_loss"))
    metric.write_text("10 2.5")  # without a step
    read_runs(tmp_path / "mlruns", **NAMES)
    metric.write_text("10 2.5 0\n11 lo")
    with pytest.raises(DataError, match="does not give"):
        read_runs(tmp_path / "mlruns", **NAMES)
    data = database.read_bytes()
    (tmp_path / "torn.db").write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))
    with pytest.raises((DataError, Exception), match=r"torn\.db"):
        read_runs(str(tmp_path / "torn.db"), **NAMES)


def test_a_server_that_does_not_answer_is_one_clear_error(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DataError, match=r"http://.*127\.0\.0\.1:9") as caught:
        read_runs("http://me:secret@127.0.0.1:9", **NAMES)
    assert "secret" not in str(caught.value)


def test_experiments_in_the_trash_do_not_count(folder, tmp_path):
    root = tmp_path / "mlruns"
    shutil.copytree(folder, root)
    metas = (path for path in root.rglob("meta.yaml") if "name: sweep" in path.read_text())
    own = next(metas).parent
    shutil.copytree(own, root / ".trash/2")
    for meta in (root / ".trash").rglob("meta.yaml"):
        meta.write_text(meta.read_text().replace(own.name, "2").replace("name: sweep", "name: x"))
    assert read_runs(root, **NAMES).data_hash() == read_runs(folder, **NAMES).data_hash()
