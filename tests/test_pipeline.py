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
from pathlib import Path

import numpy as np
import optuna
import pytest

from extrap import StudySpec, Target, TunedRange, Workload
from extrap.pipeline import load_study, plan_study, report_study, run_study, target_cells
from extrap.records import override
from extrap.tuning import TuneEvent

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


def test_missing_study_file_names_its_neighbours() -> None:
    with pytest.raises(ValueError, match=r"no study file studies/mets.py.*metz\.py"):
        load_study("studies/mets.py")


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
