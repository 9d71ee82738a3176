import json

import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

wandb = pytest.importorskip("wandb")
NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


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


def test_a_run_without_the_loss_in_its_summary_has_none():
    curve = {0: 3.0, 1: 1.5, 2: 2.0}
    runs = [Told(8, {"val_loss": 2.25}, curve), Told(16, {"val_loss": {"min": 1.5}}, curve)]
    read = read_runs(runs, **NAMES).to_frame()
    assert read["status"].tolist() == ["complete", "failed"]
    best = read_runs(runs[1:], **{**NAMES, "loss": "val_loss.min"})
    assert best.to_frame()["loss"].tolist() == [1.5]
    assert sum("optimistic" in note for note in best.notes) == 1
    named = {**NAMES, "loss": "held_out", "rename": {"val_loss": "held_out"}}
    every = read_runs(runs, **named, final="best")
    assert every.to_frame()["loss"].tolist() == [1.5, 1.5]


def test_a_project_that_the_server_does_not_give_is_one_clear_error(monkeypatch):
    monkeypatch.setattr("wandb.Api", lambda: int("no key"))
    with pytest.raises(DataError, match=r"us/p: .*'no key'"):
        read_runs("wandb://us/p", **NAMES)
