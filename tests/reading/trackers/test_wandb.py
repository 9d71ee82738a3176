import json

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

wandb = pytest.importorskip("wandb")
NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


def log(root, config, losses, **options):
    """A run that W&B itself writes, offline: losses by step."""
    with wandb.init(
        project="p", mode="offline", dir=str(root), config=config, **options
    ) as logged:
        for step, loss in losses.items():
            logged.log({"val_loss": loss, "val_acc": step / 10}, step=step)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sweep):
    """Run files of four runs, one of them resumed."""
    root = tmp_path_factory.mktemp("wandb")
    for run in sweep[:4]:
        config = {"width": run.width, "opt": {"lr": run.lr}, "seed": run.seed}
        log(root / "sweep", config, {step: run.loss(step) for step in range(6)}, name=run.name)
    for steps, loss in ((range(5), 3.0), (range(3, 8), 2.0)):
        log(root / "resumed", {"width": 8, "lr": 1}, dict.fromkeys(steps, loss), id="same")
    wandb.teardown()  # what it writes is there when its own process has ended
    return root


def test_offline_run_files_hold_the_sweep(folder, table):
    runs = read_runs(folder / "sweep", **{**NAMES, "tune": "opt.lr"})
    plain = table[:4].rename(columns={"lr": "opt.lr"})
    assert runs.data_hash() == read_runs(plain, size="width", tune="opt.lr").data_hash()
    assert len(runs.curves()) == 6 * 4
    named = {"size": "width", "tune": "opt.lr", "maximise": "val_acc"}
    best = read_runs(folder / "sweep", **named, final="best")
    assert best.to_frame()["loss"].unique().tolist() == [0.5]


def test_a_file_cut_short_is_read_to_where_it_was_cut(folder, tmp_path):
    file = sorted((folder / "sweep").rglob("run-*.wandb"))[0]
    (tmp_path / file.name).write_bytes(file.read_bytes()[:-700])
    with pytest.raises(DataError, match="three sizes"):
        read_runs(tmp_path)
    runs = read_runs(tmp_path, size="width", loss="val_loss", stage="check")
    assert runs.to_frame()["status"].tolist() == ["failed"]
    (tmp_path / file.name).write_bytes(b"something else")
    with pytest.raises(DataError, match="is no run of W&B"):
        read_runs(tmp_path, **NAMES)


def test_a_resumed_run_is_one(folder):
    runs = read_runs(folder / "resumed", **NAMES)
    assert runs.curves()["step"].tolist() == list(range(8))
    assert runs.curves()["loss"].tolist() == [3.0] * 3 + [2.0] * 5
    assert runs.to_frame()["loss"].tolist() == [2.0]


def test_objects_of_the_public_api_are_runs(sweep, table):
    from wandb.apis.public import Run

    class Offline(Run):
        def load(self, force=False):
            return self._load_from_attrs()

        load_full_data = load

    objects = []
    for number, run in enumerate(sweep):  # filled as a server would
        config = {**run._asdict(), "_wandb": {}}
        attributes = {
            "name": f"id{number}",
            "displayName": run.name,
            "state": "finished",
            "config": json.dumps({key: {"value": value} for key, value in config.items()}),
            "summaryMetrics": json.dumps({"val_loss": run.loss(5), "_step": 5}),
            "createdAt": "2026-11-22T00:00:00Z",
        }
        objects.append(Offline(None, "us", "p", f"id{number}", attrs=attributes, lazy=False))
    runs = read_runs(objects, **NAMES)
    assert runs.data_hash() == read_runs(table, size="width", tune="lr").data_hash()
    assert runs.source == "the list of runs"


class Told:
    """A run object as the public API gives it, whose history is scanned on demand."""

    state = "finished"

    def __init__(self, width, summary, points):
        self.id = self.name = f"w{width}"
        self.config = {"width": width, "lr": 0.1}
        self.summary, self.points, self.asked = summary, points, 0

    def scan_history(self, keys):
        self.asked += 1
        points = self.points.items() if keys[1] == "val_loss" else ()
        return [{"_step": step, keys[1]: loss} for step, loss in points] + [{"_step": 99}]


def test_histories_of_objects_are_asked_for_where_a_curve_is_wanted():
    run = Told(8, {"val_loss": 2.0, "val_acc": "NaN"}, {0: 1.5, 1: "NaN"})
    assert read_runs([run], **NAMES).to_frame()["loss"].tolist() == [2.0]
    assert run.asked == 0
    best = read_runs([run], **NAMES, final="best").to_frame()
    assert best["status"].tolist() == ["diverged"]
    assert run.asked == 1


def test_a_metric_whose_summary_is_its_minimum_is_read_from_its_history():
    curve = {0: 3.0, 1: 1.5, 2: 2.0}
    low = {"val_loss": {"min": 1.5}}
    defined = [Told(8, low, curve), Told(16, low, curve)]
    mixed = [Told(8, {"val_loss": 2.25}, curve), Told(16, low, curve)]
    for runs, loss, found, n_notes in (
        (defined, "val_loss", [2.0, 2.0], 0),
        (mixed, "val_loss", [2.25, 2.0], 0),
        (defined, "val_loss.min", [1.5, 1.5], 1),
    ):
        read = read_runs(runs, **{**NAMES, "loss": loss})
        assert read.to_frame()["loss"].tolist() == found
        assert sum("optimistic" in note for note in read.notes) == n_notes


def test_a_project_that_the_server_does_not_give_is_one_clear_error(monkeypatch):
    monkeypatch.setattr("wandb.Api", lambda: int("no key"))
    with pytest.raises(DataError, match=r"us/p: .*'no key'"):
        read_runs("wandb://us/p", **NAMES)
