"""What version 0.1 saved is read and verified by this version; the numbers are those of 0.1."""

import copy
import json
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import extrap
from extrap.batching import TradeOffForecast
from extrap.documents import read_sealed
from extrap.errors import DataError
from extrap.reading.optuna import seal_time
from extrap.records import (
    AllocationStudy,
    BatchStudy,
    BatchTask,
    ComparisonStudy,
    Recipe,
    RecipeGroup,
    StudySpec,
    TunedRange,
    Workload,
)
from extrap.records.seals import as_sealed, canonical_hash
from extrap.study import RunsByStage, batches, driver, report
from extrap.study.allocations import SPLIT, AllocationKind
from extrap.study.batches import BatchKind
from extrap.study.comparisons import COMPARISON, ComparisonKind

from .workplace import FOLDER, runs

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
PLAIN = StudySpec(
    name="plain",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4, 8, 16, 32)},
    tune={"lr": TunedRange(low=2**-6, high=2**-4, n=3)},
    seeds=(0, 1),
    target_seeds=(5, 6, 7),
)
LOWER = replace(PLAIN, name="lower", workload=Workload(name="teacher", options={"noise": 0.25}))
RECIPES = ComparisonStudy(
    name="toy-recipes",
    question="Which?",
    groups=(
        RecipeGroup(
            name="treatments",
            question="Which moves the law?",
            arms={"plain": PLAIN, "lower": LOWER},
            target={"width": 256},
            check_target=True,
        ),
    ),
    price=2.0,
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
    outcome = report(AllocationKind(ALLOCATION), table=SAVED / "toy.runs.csv", reports=tmp_path)
    assert read("toy.allocation.json")["sealed"] in outcome.report_path.read_text("utf-8")
    saved, kept = (folder / "toy.allocation.json" for folder in (SAVED, tmp_path))
    assert kept.read_bytes() == saved.read_bytes()


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


@pytest.mark.parametrize("key", ["created", "content_hash", "name"])
def test_a_changed_comparison_is_broken(key, tmp_path):
    path = tmp_path / "c.json"
    document = read("toy-recipes.comparison.json")
    path.write_text(json.dumps(document))
    found = read_sealed(COMPARISON, path)
    assert found.content_hash == document["content_hash"] == canonical_hash(found.content)
    sealed = found.document(COMPARISON)
    path.write_text(json.dumps(sealed))
    assert read_sealed(COMPARISON, path) == found
    path.write_text(json.dumps({**sealed, key: sealed[key] + "0"}))
    with pytest.raises(DataError, match=r"the seal of .* is broken"):
        read_sealed(COMPARISON, path)


def test_a_comparison_is_kept_with_its_time_until_it_says_something_else(tmp_path):
    """Its numbers are those of this version; the prose that 0.1 sealed besides does not count."""
    where = {"table": SAVED / "toy-recipes.runs.csv", "reports": tmp_path}
    path = tmp_path / "toy-recipes.comparison.json"
    report(ComparisonKind(RECIPES), **where)
    sealed = read_sealed(COMPARISON, path)
    groups = [{**group, "words": "As 0.1 put it."} for group in sealed.content["groups"]]
    content = {**sealed.content, "groups": groups}
    old = {**content, "created": "2020", "content_hash": canonical_hash(content)}
    path.write_text(json.dumps({**old, **sealed.loose}))
    for _ in range(2):
        outcome = report(ComparisonKind(RECIPES), **where)
        assert outcome.result[0].sealed == "2020"
        again = read_sealed(COMPARISON, path)
        assert (again.content, again.created) == (content, "2020")
        assert again.loose["checks"][0]["treated"] == "lower"
        assert [*tmp_path.glob("*.json")] == [path]
    report(ComparisonKind(replace(RECIPES, question="Another?")), **where)
    aside = tmp_path / f"toy-recipes.comparison.{old['content_hash'][:8]}.json"
    assert read_sealed(COMPARISON, aside).created == "2020"
    assert read_sealed(COMPARISON, path).created > "2020"


def test_a_trade_off_is_kept_with_its_rates_until_the_runs_or_the_file_change(
    tmp_path, monkeypatch
):
    path = tmp_path / "tiny.front.json"
    shutil.copy(SAVED / "tiny.front.json", path)
    points = pd.DataFrame(read("tiny.front.json")["points"])
    rates = {8: 2.0**-6, 32: 2.0**-4}
    made = TradeOffForecast(
        size={"width": 512.0},
        steps={},
        rates={8: 1.0, 32: 1.0},
        recommended=(),
        table=points.assign(lr=1.0, as_largest=np.nan),
    )
    task = BatchTask(
        study=PLAIN, steps={8: 10, 16: 10, 32: 10}, targets=(0.4,), at={"width": 512.0}
    )
    kind = BatchKind(BatchStudy(name="tiny", question="?", tasks=(task,)))
    monkeypatch.setattr(BatchKind, "_result", lambda *_: None)

    def sealed(trade_off, name):
        """What is trained by when this is forecast of these runs, after it was sealed."""
        monkeypatch.setattr(batches, "forecast_trade_off", lambda _: trade_off)
        so_far = RunsByStage(lambda *_: runs(name), tmp_path)
        _, (stage,) = kind.stages(so_far)
        driver.write_seal(stage.seal, tmp_path, None, str)
        return kind._trade_off(task, so_far)

    kept = sealed(made, "clean")
    assert kept.rates == rates
    assert kept.table["predicted"].tolist() == points["predicted"].tolist()
    assert path.read_bytes() == (SAVED / "tiny.front.json").read_bytes()
    assert sealed(made, "curved").rates == made.rates  # other runs: written anew
    (aside,) = tmp_path.glob("tiny.front.*.json")
    assert json.loads(aside.read_text())["points"] == read("tiny.front.json")["points"]
    assert sealed(kept, "curved").rates == made.rates
    document = json.loads(path.read_text())
    document["points"][0]["lr"] = 2.0
    path.write_text(json.dumps(document))
    assert sealed(kept, "curved").rates == rates  # a changed one is none


def test_a_changed_split_says_so(tmp_path):
    sealed = read_sealed(SPLIT, SAVED / "toy.allocation.json")
    document = as_sealed(sealed.content, sealed.created).document(SPLIT)
    path = tmp_path / "toy.allocation.json"
    for flops, said in ((document["flops"], sealed.created), (1e9, "changed after it was")):
        path.write_text(json.dumps({**document, "flops": flops}))
        outcome = report(
            AllocationKind(ALLOCATION), table=SAVED / "toy.runs.csv", reports=tmp_path
        )
        assert said in outcome.report_path.read_text("utf-8")
