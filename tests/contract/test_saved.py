"""What version 0.1 saved is read and verified by this version; the numbers are those of 0.1."""

import copy
import json
import shutil
import sqlite3

import pytest

import extrap
from extrap.allocation_sweeps import report_allocation
from extrap.errors import DataError
from extrap.reading.optuna import seal_time
from extrap.records import AllocationStudy, Recipe, StudySpec, TunedRange, Workload

from .workplace import FOLDER

SAVED = FOLDER / "saved_v1"
ALLOCATION = AllocationStudy(
    name="toy",
    question="Wider or longer?",
    study=StudySpec(
        name="own",
        question="?",
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(batch_size=64),
        sizes={"width": (12, 16, 24, 32, 48, 64)},
        tune={"lr": TunedRange(low=2**-9.5, high=2**-5.5, n=5)},
        seeds=(0,),
    ),
    budgets=(2e9, 4e9, 8e9, 1.6e10, 3.2e10),
    check_seeds=(100, 101),
    unique_tokens=2e5,
    inference_tokens=1e7,
)
FORECASTS = {
    "curves": ({"width": 512}, 0.1266574238, (0.1166850, 0.1374817), {"lr": 0.005993584035}),
    "divergence": ({"width": 256}, 1.979544232, (1.948803, 2.010784), {"lr": 0.007741296586}),
    "path": ({"depth": 30}, 2.158831424, None, {}),
}
"""Name → size asked for, loss, its prediction interval where it is pinned, tuned values."""


def read(name):
    return json.loads((SAVED / name).read_text(encoding="utf-8"))


def leaves(value, place=()):
    """Where a document has its numbers."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, item in items for found in leaves(item, (*place, key))]
    return [place] if isinstance(value, float) else []


@pytest.mark.parametrize("name", FORECASTS)
def test_forecasts_say_the_same_and_are_written_the_same(name, tmp_path):
    made = extrap.load_forecast(SAVED / f"{name}.forecast.json")
    size, loss, loss_pi, tuned = FORECASTS[name]
    point = made.at(**size)
    assert point.loss == pytest.approx(loss, rel=1e-6)
    assert {key: e.value for key, e in point.tuned.items()} == pytest.approx(tuned, rel=1e-6)
    if loss_pi is not None:
        assert tuple(point.loss_pi) == pytest.approx(loss_pi, rel=1e-5)
    assert (made.curves is not None) == (name == "curves")
    assert (made.path is not None) == (name == "path")
    extrap.save_forecast(made, tmp_path / "again.json")
    again, before = (
        json.loads((tmp_path / "again.json").read_text()),
        read(f"{name}.forecast.json"),
    )
    if extrap.__version__ == before["extrap_version"]:
        assert again == before
    hashed = ("extrap_version", "content_hash", "seal")
    assert all(again[key] == before[key] for key in {**before, **again} if key not in hashed)


def test_chance_of_divergence_is_that_of_its_coefficients():
    made = extrap.load_forecast(SAVED / "divergence.forecast.json")
    assert made.divergence is not None
    assert made.divergence.chance({"width": 256}, {"lr": 0.1}) == pytest.approx(0.65818916, 1e-7)


@pytest.mark.parametrize("name", FORECASTS)
def test_any_number_of_a_forecast_that_changed_breaks_its_seal(name, tmp_path):
    document = read(f"{name}.forecast.json")
    places = leaves(document)
    for place in places[:: max(1, len(places) // 12)]:
        changed = copy.deepcopy(document)
        holder = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = 1.001 * holder[place[-1]] + 1e-3
        (tmp_path / "f.json").write_text(json.dumps(changed))
        with pytest.raises(DataError, match="seal"):
            extrap.load_forecast(tmp_path / "f.json")


def test_split_is_known_again_by_its_runs(tmp_path):
    shutil.copy(SAVED / "toy.allocation.json", tmp_path)
    outcome = report_allocation(ALLOCATION, table=SAVED / "toy.runs.csv", reports=tmp_path)
    assert read("toy.allocation.json")["sealed"] in outcome.report_path.read_text("utf-8")
    assert outcome.seal_path.read_bytes() == (SAVED / "toy.allocation.json").read_bytes()


def test_page_gives_its_numbers():
    found = extrap.read_report(SAVED / "page.html")
    assert (found["kind"], found["title"], found["ok"]) == ("report", "Saved page", None)
    (point,) = found["numbers"]["forecast"]["points"][:1]
    assert point["loss"] == pytest.approx(2.26778022, rel=1e-7)
    assert found["numbers"]["kind"] == "extrap-report"


def test_storage_knows_when_a_content_was_sealed(tmp_path):
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.executescript((SAVED / "sealed.sql").read_text(encoding="utf-8"))
    connection.close()
    sealed, url = read("toy-recipes.comparison.json"), f"sqlite:///{tmp_path / 's.db'}"
    assert seal_time(url, study="plain", content_hash=sealed["content_hash"]) == sealed["created"]
    assert seal_time(url, study="plain", content_hash="0" * 64) == ""
