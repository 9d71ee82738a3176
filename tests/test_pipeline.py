from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import optuna
import pytest

from extrap import StudySpec, Target, TunedRange, Workload
from extrap.fitting import place_runs
from extrap.pipeline import (
    as_handed_out,
    plan_study,
    report_study,
    run_study,
    target_cells,
)
from extrap.records import override
from extrap.tuning import TuneEvent, tune

SPEC = StudySpec(
    name="toy",
    question="Does a <b>toy</b> law hold?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (16, 24, 32, 64, 96, 128)},
    tune={"lr": TunedRange(low=2**-9, high=2**-4, n=6)},
    seeds=(0, 1),
    targets=(Target(size={"width": 512}, factors=(1.0, 4.0)),),
    target_seeds=(0, 1),
)


def toy(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """A law with a valley: the optimum falls as width^-.5, two octaves off cost 12 %."""
    octaves = math.log2(tuned["lr"]) + 6 + 0.5 * math.log2(size["width"] / 32)
    noise = np.random.default_rng([seed, int(size["width"])]).normal(0, 0.002)
    return (1.5 + 2 * size["width"] ** -0.5) * math.exp(0.03 * octaves**2 + noise)


def test_study_seals_its_forecast_and_then_judges_the_larger_runs(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'toy.db'}"
    lines: list[str] = []
    outcome = run_study(
        SPEC, storage=storage, reports=tmp_path / "reports", train=toy, say=lines.append
    )
    sealed = json.loads(outcome.forecast_path.read_text())
    assert sealed["content_hash"] == outcome.seal
    assert any(outcome.seal in line for line in lines)
    causes = {(v.tuned["lr"], v.cause) for v in outcome.verdicts}
    assert len(outcome.verdicts) == 6
    assert len({cause for _, cause in causes}) == 2
    assert {cause for _, cause in causes} == {None, "mistuned"}
    assert outcome.report_path.is_file()
    assert outcome.index_path.is_file()
    large = optuna.load_study(study_name="toy/check/width=512", storage=storage)
    began = min(trial.datetime_start for trial in large.get_trials() if trial.datetime_start)
    assert datetime.fromisoformat(sealed["created"]).timestamp() <= began.timestamp() + 1


def test_laws_sampler_brings_a_study_to_its_forecast_with_fewer_runs(tmp_path: Path) -> None:
    spec = replace(SPEC, sampler="law", targets=())
    storage = f"sqlite:///{tmp_path / 'toy.db'}"
    made = run_study(spec, storage=storage, reports=tmp_path / "reports", train=toy).forecast
    assert len(made.runs) < len(spec.grid_cells())
    assert made.at(width=512).tuned["lr"].value == pytest.approx(2**-8, rel=0.35)
    trained: list[TuneEvent] = []
    places = partial(place_runs, spec)
    tune(spec, storage, train=toy, extend=places, notify=trained.append)
    assert trained == []


def test_plan_of_the_laws_sampler_says_the_most_it_may_spend() -> None:
    text = plan_study(replace(SPEC, sampler="law"))
    assert "sweep: at most 72 runs" in text
    assert "12 runs" not in text
    assert "sweep: 72 runs" in plan_study(SPEC)


def test_second_start_trains_nothing_and_keeps_the_seal(tmp_path: Path) -> None:
    places = {"storage": f"sqlite:///{tmp_path / 'toy.db'}", "reports": tmp_path / "reports"}
    first = run_study(SPEC, train=toy, **places)
    trained: list[TuneEvent] = []
    second = run_study(SPEC, train=toy, notify=trained.append, **places)
    assert trained == []
    assert (second.seal, second.forecast.created) == (first.seal, first.forecast.created)


def test_report_of_a_finished_study_says_what_the_run_said(tmp_path: Path) -> None:
    places = {"storage": f"sqlite:///{tmp_path / 'toy.db'}", "reports": tmp_path / "reports"}
    ran = run_study(SPEC, train=toy, **places)
    told = report_study(SPEC, **places)
    assert told.seal == ran.seal
    assert [v.cause for v in told.verdicts] == [v.cause for v in ran.verdicts]


def test_report_can_be_made_again_from_the_run_table(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    ran = run_study(SPEC, storage=f"sqlite:///{tmp_path / 'toy.db'}", reports=reports, train=toy)
    table = tmp_path / "kept.csv"
    (reports / "toy.runs.csv").rename(table)
    told = report_study(SPEC, table=table, reports=tmp_path / "elsewhere")
    assert [v.cause for v in told.verdicts] == [v.cause for v in ran.verdicts]
    size = {"width": 512}
    assert told.forecast.at(**size).loss == pytest.approx(ran.forecast.at(**size).loss, rel=1e-9)
    assert "kept.csv" in told.report_path.read_text(encoding="utf-8")
    assert not list(tmp_path.glob("**/*kept.csv.db"))


def test_a_batch_handed_to_a_large_run_has_whole_examples() -> None:
    made = {name: as_handed_out(name, 5.4321987) for name in ("batch_size", "lr")}
    assert made == {"batch_size": 5.0, "lr": 5.432}
    assert as_handed_out("batch_size", 0.3) == 1.0


def test_grid_grows_until_the_optimum_of_every_size_is_bracketed(tmp_path: Path) -> None:
    narrow = replace(SPEC, tune={"lr": TunedRange(low=2**-6, high=2**-4, n=3)}, targets=())
    outcome = run_study(
        narrow, storage=f"sqlite:///{tmp_path / 'toy.db'}", reports=tmp_path, train=toy
    )
    assert all(optimum.bracketed for optimum in outcome.forecast.optima)
    rates = outcome.forecast.runs.to_frame()["lr"]
    assert rates.min() == 2**-9
    assert outcome.verdicts == ()


def test_no_larger_run_is_asked_for_without_a_point_estimate(tmp_path: Path) -> None:
    edge = replace(SPEC, tune={"lr": TunedRange(low=2**-4, high=2**-2, n=3)}, growth=0)
    lines: list[str] = []
    outcome = run_study(
        edge,
        storage=f"sqlite:///{tmp_path / 'toy.db'}",
        reports=tmp_path,
        train=toy,
        say=lines.append,
    )
    assert target_cells(edge, outcome.forecast) == ()
    assert any("no larger run" in line for line in lines)


def test_plan_counts_runs_without_opening_a_storage(tmp_path: Path) -> None:
    text = plan_study(SPEC, storage=f"sqlite:///{tmp_path / 'never.db'}")
    assert "72 runs" in text
    assert "width 512: 6 runs" in text
    assert not (tmp_path / "never.db").exists()


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("recipe.step=5", "did you mean 'steps'"),
        ("recipe.steps=soon", "is a number"),
        ("recipe.steps", "reads key=value"),
        ("recipe.steps=1.5", "whole number"),
        ("sizes.x=3", "there are width"),
        ("targets=3", "override one of their fields"),
    ],
)
def test_wrong_override_says_what_is_wrong(assignment: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        override(SPEC, [assignment])


def test_overrides_reach_every_kind_of_field() -> None:
    assignments = [
        "recipe.steps=7",
        "seeds=3,4",
        "sizes.width=8,16",
        "tune.lr.n=5",
        "workload.corpus=texts",
        "targets.0.factors=1,.5",
        "sampler=tpe",
        "level=.9",
    ]
    spec = override(SPEC, assignments)
    assert spec.recipe.steps == 7
    assert spec.seeds == (3, 4)
    assert spec.sizes == {"width": (8, 16)}
    assert spec.tune["lr"].n == 5
    assert spec.workload.options == {"corpus": "texts"}
    assert spec.targets[0].factors == (1.0, 0.5)
    assert (spec.sampler, spec.level) == ("tpe", 0.9)
    assert override(SPEC, ["targets="]).targets == ()


FLAT = replace(SPEC, name="flat", sizes={"width": (16, 32, 64, 128)}, targets=())
FALLING = replace(FLAT, name="flat-falling")


def flat(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    """The toy law, its optimum at one rate whatever the width."""
    return toy(size, {"lr": tuned["lr"] * (size["width"] / 32) ** -0.5}, seed)


def test_baseline_is_tuned_beside_the_study_and_compared_with_it(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'flat.db'}"
    lines: list[str] = []
    events: list[TuneEvent] = []
    outcome = run_study(
        replace(FLAT, targets=(Target(size={"width": 256}),), target_seeds=(0,)),
        FALLING,
        storage=storage,
        reports=tmp_path,
        train=flat,
        train_baseline=toy,
        notify=events.append,
        say=lines.append,
    )
    assert outcome.baseline is not None
    slopes = [
        made.tuned_laws["lr"].parameters["b"] for made in (outcome.forecast, outcome.baseline)
    ]
    assert slopes == pytest.approx([0.0, -0.5], abs=0.03)
    assert list(dict.fromkeys(e.stage for e in events)) == ["tune", "check", "flat-falling"]
    names = optuna.get_all_study_names(storage=storage)
    assert "flat/check/width=256" in names
    assert "flat-falling/width=16" in names
    assert not any(name.startswith("flat-falling/check") for name in names)
    assert "one lr, tuned at any width, serves all from width 16 to 256" in lines[-1]
    assert "under flat-falling it has to be tuned again" in lines[-1]
    html = outcome.report_path.read_text(encoding="utf-8")
    assert "<h2>Against flat-falling</h2>" in html
    assert outcome.baseline.runs.data_hash() in html


def test_second_start_and_report_have_the_comparison_and_train_nothing(tmp_path: Path) -> None:
    places = {"storage": f"sqlite:///{tmp_path / 'flat.db'}", "reports": tmp_path}
    trainers = {"train": flat, "train_baseline": toy}
    first = run_study(FLAT, FALLING, **trainers, **places)
    trained: list[TuneEvent] = []
    second = run_study(FLAT, FALLING, **trainers, notify=trained.append, **places)
    told = report_study(FLAT, FALLING, **places)
    assert trained == []
    assert first.baseline.optima == second.baseline.optima == told.baseline.optima
    assert "Against flat-falling" in told.report_path.read_text(encoding="utf-8")


def test_study_without_its_baseline_is_reported_and_says_so(tmp_path: Path) -> None:
    places = {"storage": f"sqlite:///{tmp_path / 'flat.db'}", "reports": tmp_path}
    run_study(FLAT, train=flat, **places)
    told = report_study(FLAT, FALLING, **places)
    assert told.baseline is None
    html = told.report_path.read_text(encoding="utf-8")
    assert "Against flat-falling" not in html
    assert "not with flat-falling: " in html


def test_baseline_that_supports_no_forecast_leaves_the_study_its_report(tmp_path: Path) -> None:
    lines: list[str] = []
    outcome = run_study(
        FLAT,
        replace(FALLING, growth=0),
        storage=f"sqlite:///{tmp_path / 'flat.db'}",
        reports=tmp_path,
        train=flat,
        train_baseline=lambda size, tuned, seed: math.nan,
        say=lines.append,
    )
    assert outcome.baseline is None
    assert lines[-1].startswith("no comparison with flat-falling: ")
    assert "not with flat-falling: " in outcome.report_path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "flat"}, "a name of its own in the storage, got 'flat' for both"),
        ({"sizes": {"depth": (1, 2, 3)}}, r"size columns of its study, \['width'\]; got"),
        ({"tune": {"beta1": TunedRange(low=0.1, high=0.9, n=3)}}, r"tuned columns of its study"),
        ({"level": 0.9}, r"level of its study, 0\.95; got 0\.9"),
    ],
)
def test_baseline_that_does_not_go_with_the_study_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    baseline = replace(FALLING, **change)
    with pytest.raises(ValueError, match=message):
        run_study(FLAT, baseline, train=flat, train_baseline=toy, reports=tmp_path)
    with pytest.raises(ValueError, match=message):
        report_study(FLAT, baseline, reports=tmp_path)
    with pytest.raises(ValueError, match=message):
        plan_study(FLAT, baseline)


def test_training_function_of_the_study_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only one of train= and train_baseline="):
        run_study(FLAT, FALLING, train=flat, reports=tmp_path)


def test_plan_refuses_what_would_not_be_trained_as_the_path_says() -> None:
    path = {"batch_size": "sqrt(width)"}
    with pytest.raises(ValueError, match=r"batch_size of a path .* at width="):
        plan_study(replace(SPEC, path=path))
    with pytest.raises(ValueError, match=r"batch_size of a path .* at width="):
        plan_study(SPEC, replace(SPEC, name="other", path=path))


def test_plan_lists_the_baseline() -> None:
    lines = plan_study(FLAT, FALLING).splitlines()
    at = lines.index("then the baseline flat-falling")
    assert lines[at + 1].startswith("sweep: 48 runs")
    assert len(lines[at + 2 :]) == 4


STUDY_FILE = """
from extrap import Recipe, StudySpec, Target, TunedRange, Workload
STUDY = StudySpec(
    name="tiny", question="Does it resume?",
    workload=Workload(name="bytes-mlp", options={"corpus": "CORPUS", "corpus_bytes": 60000,
        "validation_bytes": 4000, "n_validation": 512, "context": 4, "embedding": 4}),
    sizes={"width": (4, 8, 16, 32)}, tune={"lr": TunedRange(low=2**-9, high=2**-1, n=5)},
    recipe=Recipe(steps=300, batch_size=16, n_evals=4), seeds=(0, 1),
    targets=(Target(size={"width": 48}),))
"""


@pytest.mark.slow
def test_killed_and_resumed_study_has_the_forecast_and_tables_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    letters = np.random.default_rng(0).choice(list(b"abcdef \n"), size=(8, 10_000))
    for i, text in enumerate(letters):
        (corpus / f"{i}.txt").write_bytes(bytes(text.tolist()))
    (tmp_path / "tiny.py").write_text(STUDY_FILE.replace("CORPUS", str(corpus)))
    seals, tables = [], []
    for folder, kills in (("undisturbed", 0), ("killed", 3)):
        home = tmp_path / folder
        home.mkdir()
        command = [sys.executable, "-m", "extrap", "study", "run", "../tiny.py"]
        database = home / ".extrap" / "tiny.db"
        for i in range(kills):
            process = subprocess.Popen(command, cwd=home)
            _wait_for_pack(database, n_studies=1 + 2 * i)  # first, third, fifth: the larger runs
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert _n_trials(database, "RUNNING") > 0 or not kills
        done = subprocess.run(command, cwd=home, check=True, capture_output=True, text=True)
        assert "report" in done.stdout
        document = json.loads((home / "reports" / "tiny.forecast.json").read_text())
        seals.append(document["content_hash"])
        tables.append(_finished(database))
        assert (_n_trials(database, "FAIL") > 0) == bool(kills)
    assert seals[0] == seals[1]
    assert tables[0] == tables[1]


def _wait_for_pack(database: Path, *, n_studies: int) -> None:
    """Wait until that many sizes were begun and a pack is in training."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if _n_trials(database, "RUNNING") > 0 and _count(database, "studies") >= n_studies:
            return
        time.sleep(0.02)
    raise AssertionError("no pack was begun in two minutes")


def _n_trials(database: Path, state: str) -> int:
    return _count(database, f"trials WHERE state = '{state}'")


def _count(database: Path, what: str) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        try:
            return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])
        except sqlite3.OperationalError:  # the tables are being made
            return 0


def _finished(path: Path) -> list[tuple[str, dict[str, float], object]]:
    """Every complete trial of a storage; a cell that was trained twice would be there twice."""
    storage = f"sqlite:///{path}"
    rows = []
    for name in optuna.get_all_study_names(storage=storage):
        for trial in optuna.load_study(study_name=name, storage=storage).get_trials():
            if trial.state == optuna.trial.TrialState.COMPLETE:
                rows.append((name, trial.params, trial.user_attrs["seed"], trial.value))
    return sorted(rows, key=str)
