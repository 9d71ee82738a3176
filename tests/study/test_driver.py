import json
import math
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import optuna
import pandas as pd
import pytest

from extrap import StudySpec, Target, TunedRange, Workload
from extrap.analyses.sweep.study import ForecastKind, ForecastResult, contrasts, target_cells
from extrap.records import RunResult
from extrap.reporting.tables import Table
from extrap.study import Outcome, dry_run, report, run, trials
from extrap.study.database import ConnectionLost, open_storage
from extrap.study.progress import TuneEvent
from extrap.study.protocol import as_handed_out
from tests.checking.byhand import by_hand, lr_at, of_rate

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


def toy(size, tuned, seed):
    """A law and a parabola: the optimum falls as width^-.5, two octaves off cost 12 %."""
    octaves = math.log2(tuned["lr"]) + 6 + 0.5 * math.log2(size["width"] / 32)
    noise = np.random.default_rng([seed, int(size["width"])]).normal(0, 0.002)
    return (1.5 + 2 * size["width"] ** -0.5) * math.exp(0.03 * octaves**2 + noise)


class Finished(NamedTuple):
    """A study that was run once, and where it lies."""

    home: Path
    outcome: Outcome
    lines: list[str]
    events: list[TuneEvent]

    @property
    def result(self) -> ForecastResult:
        return self.outcome.result


def finish(home, study):
    lines: list[str] = []
    events: list[TuneEvent] = []
    places = {"storage": f"sqlite:///{home}/study.db", "reports": home / "reports"}
    outcome = run(study, say=lines.append, notify=events.append, **places)
    return Finished(home, outcome, lines, events)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("toy"), ForecastKind(SPEC, toy))


def test_study_seals_its_forecast_and_then_judges_the_larger_runs(finished):
    outcome, result = finished.outcome, finished.result
    sealed = json.loads(outcome.sealed["forecast"].read_text())
    assert sealed["content_hash"] == result.seal
    assert any(result.seal in line for line in finished.lines)
    # at the forecast rate, 4 times that, and the rate of the smallest size: 0, 2, 2.5 octaves off
    assert [v.cause for v in result.verdicts] == [None] * 2 + ["mistuned"] * 4
    assert [v.on_law for v in result.verdicts] == [True] * 2 + [False] * 4
    assert {v.seal for v in result.verdicts} == {"sealed-first"}
    off = [math.expm1(0.03 * octaves**2) for octaves in (0, 0, 2, 2, 2.5, 2.5)]
    assert [v.deviation for v in result.verdicts] == pytest.approx(off, abs=0.02)
    predicted = [v.predicted for v in result.verdicts]
    assert predicted == pytest.approx([1.5 + 2 * 512**-0.5] * 6, rel=0.02)
    # a factor of 4 beyond sizes that tell the exponent weakly: se of 1.6 %
    assert all(1.5 + 2 * 512**-0.5 in v.predicted_pi for v in result.verdicts)
    assert (outcome.page.status, outcome.page.ok) == ("on law", True)  # but for what is meant off
    verdicts = [row[0] for b in outcome.page.blocks if isinstance(b, Table) for row in b.rows]
    assert sum(verdict.startswith("◇") for verdict in verdicts) == len(
        {v.configuration for v in result.verdicts[2:]}
    )
    assert outcome.index_path.is_file()
    storage = f"sqlite:///{finished.home}/study.db"
    large = optuna.load_study(study_name="toy/check/width=512", storage=storage)
    began = min(trial.datetime_start for trial in large.get_trials() if trial.datetime_start)
    assert datetime.fromisoformat(sealed["created"]).timestamp() <= began.timestamp() + 1


def large_of(finished):
    """Verdicts and runs of the larger size, what is planned there, which rows are contrasts."""
    result, runs = finished.result, finished.outcome.runs.of(SPEC, "check")
    return result.verdicts, runs, target_cells(SPEC, result.forecast), [False] * 2 + [True] * 4


def test_the_role_of_a_larger_run_is_stored_with_it(finished):
    _, runs, planned, is_contrast = large_of(finished)
    roles = ["contrast" if mistuned else "recommended" for mistuned in is_contrast]
    assert list(planned.values()) == list(runs.to_frame()["role"]) == roles
    table = pd.read_csv(finished.home / "reports" / "toy.runs.csv")
    assert list(table.dropna(subset="role")["role"]) == roles
    assert set(table.loc[table["role"].notna(), "stage"]) == {"check"}
    assert set(finished.outcome.runs.of(SPEC).to_frame()).isdisjoint({"role"})


def test_stored_roles_hold_whatever_is_planned_later(finished):
    verdicts, runs, planned, is_contrast = large_of(finished)
    mistuned = {v.configuration for v in compress(verdicts, is_contrast)}
    assert contrasts(verdicts, runs, {}) == mistuned
    assert contrasts(verdicts, runs, dict.fromkeys(planned, "contrast")) == mistuned
    frame = runs.to_frame()
    frame.loc[frame.index[2], "role"] = "recommended"  # by another forecast, with one seed more
    mixed = replace(runs, _frame=frame)
    assert contrasts(verdicts, mixed, {}) == {v.configuration for v in verdicts[4:]}


@pytest.mark.parametrize("source", ["storage", "table"])
def test_runs_stored_without_a_role_have_that_of_the_plan(finished, tmp_path, source):
    url, table = f"sqlite:///{tmp_path}/study.db", None
    shutil.copy(finished.home / "study.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        removed = connection.execute("DELETE FROM trial_user_attributes WHERE key = 'role'")
        assert removed.rowcount == 6
        connection.commit()
    if source == "table":
        table = tmp_path / "old.csv"
        new = pd.read_csv(finished.home / "reports" / "toy.runs.csv")
        new.drop(columns="role").to_csv(table, index=False)
    old = report(ForecastKind(SPEC, toy), storage=url, table=table, reports=tmp_path / "reports")
    verdicts, runs, planned, is_contrast = large_of(Finished(tmp_path, old, [], []))
    assert "role" not in runs.to_frame()
    mistuned = {v.configuration for v in compress(verdicts, is_contrast)}
    assert contrasts(verdicts, runs, planned) == mistuned
    assert contrasts(verdicts, runs, {}) == set()
    assert (old.page.status, old.page.ok) == ("on law", True)


def test_table_may_be_parquet_and_has_the_conditions(finished, tmp_path):
    table = pd.read_csv(finished.home / "reports" / "toy.runs.csv")
    table.to_parquet(tmp_path / "kept.parquet")
    told = report(
        ForecastKind(SPEC, toy), table=tmp_path / "kept.parquet", reports=tmp_path
    ).result
    assert told.forecast.runs.data_hash() == finished.result.forecast.runs.data_hash()
    sweep_only = table[table["stage"] == "tune"].drop(columns=["arm", "stage", "workload"])
    sweep_only.to_csv(tmp_path / "less.csv", index=False)
    told = report(ForecastKind(SPEC, toy), table=tmp_path / "less.csv", reports=tmp_path).result
    assert told.forecast.at(width=512) == finished.result.forecast.at(width=512)
    assert told.verdicts == ()


def noisy(size, tuned, seed):
    """The toy with a noise of 20 %."""
    rng = np.random.default_rng([seed, int(size["width"]), round(1e6 * tuned["lr"])])
    return toy(size, tuned, seed) * math.exp(rng.normal(0, 0.2))


def test_a_target_is_trained_where_its_rate_is_known_and_the_answer_is_about_it(tmp_path):
    """Five sizes and a noise of 20 %: the loss is refused, the rate is given and used."""
    spec = replace(SPEC, growth=0)
    found = finish(tmp_path, ForecastKind(spec, noisy))
    made = found.result.forecast
    point = made.at(width=512)
    assert "loss" in point.refusals
    rates = {v.tuned["lr"] for v in found.result.verdicts if v.size == {"width": 512}}
    assert as_handed_out("lr", made.at(width=512).recommended["lr"]) in rates
    answer = found.outcome.text().splitlines()[0]
    assert "at width 512" in answer


def test_nothing_larger_is_trained_where_the_rate_is_refused(tmp_path):
    """Three sizes within a factor of two: how the rate moves on to width 512 is unknown."""
    target = Target(size={"width": 512})
    spec = replace(SPEC, sizes={"width": (32, 45, 64)}, targets=(target,), growth=0)
    found = finish(tmp_path, ForecastKind(spec, noisy))
    made = found.result.forecast
    assert made.at(width=512).tuned["lr"].value is None
    assert target_cells(spec, made) == {}
    assert {event.stage for event in found.events} == {"tune"}
    assert found.result.verdicts == ()
    assert any("trained at width 512" in line for line in found.lines)
    text = found.outcome.text()
    assert "at width 512" in text.splitlines()[0]
    assert "FILE --set sizes.width=32,45,64,128" in text
    assert found.outcome.report_path.is_file()


def test_larger_runs_are_trained_at_the_recommended_values():
    """Below the optimum, where runs half an octave above it diverge."""
    made = by_hand(surface=of_rate(cliff=0.5))
    point = made.at(width=1024)
    advised = point.recommended["lr"]
    assert advised < 0.97 * point.tuned["lr"].value
    target = Target(size={"width": 1024}, factors=(1.00001, 1.0, 2.0), fixed=False)
    cells = target_cells(replace(SPEC, targets=(target,)), made)
    rates = {dict(cell.tuned)["lr"] for cell in cells}
    assert rates == {as_handed_out("lr", advised), as_handed_out("lr", 2 * advised)}
    roles = {dict(cell.tuned)["lr"]: role for cell, role in cells.items()}
    assert roles[as_handed_out("lr", advised)] == "recommended"
    assert roles[as_handed_out("lr", 2 * advised)] == "contrast"
    assert [as_handed_out("batch_size", b) for b in (5.4321987, 0.3)] == [5.0, 1.0]
    (plain, *_) = target_cells(replace(SPEC, targets=(target,)), by_hand())
    assert dict(plain.tuned)["lr"] == pytest.approx(0.0025, rel=0.01)


def test_fixed_values_are_those_of_the_smallest_size_where_no_optimum_is_bracketed():
    made = by_hand()
    edges = [replace(o, bracketed=False, edge={"lr": "low"}) for o in made.optima]
    target = Target(size={"width": 1024})
    for optima, width in ((edges, 16), ([*edges[:2], *made.optima[2:]], 64)):
        spec, made = replace(SPEC, targets=(target,)), by_hand(optima=tuple(optima))
        rates = [dict(cell.tuned)["lr"] for cell in target_cells(spec, made)]
        assert rates[-1] == as_handed_out("lr", lr_at(width))


def test_plan_counts_runs_without_opening_a_storage(tmp_path):
    text = dry_run(ForecastKind(SPEC), storage=f"sqlite:///{tmp_path / 'never.db'}")
    assert "72 runs" in text
    assert "width 512: 6 runs" in text
    assert not (tmp_path / "never.db").exists()


def test_a_driver_reads_the_trials_of_a_size_once(tmp_path, monkeypatch):
    """Of 124 runs: what it wrote itself it knows, and makes its tables of that."""
    url, n_reads = f"sqlite:///{tmp_path}/study.db", Counter()
    kind = type(open_storage(url))
    get_all_trials = kind.get_all_trials

    def counted(self, study_id, **options):
        n_reads["trials"] += 1
        return get_all_trials(self, study_id, **options)

    monkeypatch.setattr(kind, "get_all_trials", counted)
    widths, targets = (16, 32, 64, 128), (Target(size={"width": 512}),)
    spec = replace(SPEC, sizes={"width": widths}, seeds=tuple(range(5)), growth=0, targets=targets)
    outcome = run(ForecastKind(spec, train=toy), storage=url, reports=tmp_path / "reports")
    assert len(outcome.runs.of(spec)) + len(outcome.result.verdicts) == 124
    assert n_reads["trials"] <= 10
    again = report(ForecastKind(spec, train=toy), storage=url, reports=tmp_path / "again")
    assert again.result.seal == outcome.result.seal  # the storage says what the driver knew
    tables = (runs.of(spec).to_frame().astype(str) for runs in (again.runs, outcome.runs))
    read, written = (table[["lr", "loss", "seed", "started_at"]] for table in tables)
    pd.testing.assert_frame_equal(read, written)


def test_a_lost_write_and_a_lost_read_forget_and_double_nothing(tmp_path, monkeypatch):
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    spec = replace(SPEC, sizes={"width": (16,)})
    stage = trials.Trials(storage, spec, stage="tune", fingerprint={})
    results = [
        RunResult(cell=cell, status="complete", loss=2.0, wall_s=1.0) for cell in spec.grid_cells()
    ][:3]
    stage.add(results[:1], datetime.now())
    add_trial, get_all_trials = optuna.Study.add_trial, type(storage).get_all_trials

    def lost_after_commit(self, trial):
        add_trial(self, trial)
        raise ConnectionLost

    def lost(*args, **options):
        raise ConnectionLost

    with monkeypatch.context() as cut:
        cut.setattr(optuna.Study, "add_trial", lost_after_commit)
        with pytest.raises(ConnectionLost):
            stage.add(results, datetime.now())
        cut.setattr(type(storage), "get_all_trials", lost)
        with pytest.raises(ConnectionLost):
            stage.add(results, datetime.now())
        (of_size,) = stage.results.values()
        assert (of_size.complete, len(stage.runs())) == (1, 1)
    assert type(storage).get_all_trials is get_all_trials
    assert stage.add(results, datetime.now()) == 2
    reopened = trials.Trials(storage, spec, stage="tune", fingerprint={})
    for opened in (stage, reopened):  # as the driver has it, and as the storage has it
        (of_size,) = opened.results.values()
        assert (of_size.complete, of_size.duplicates, of_size.wall_s) == (3, 0, 3.0)
        assert len(opened.trials_of({"width": 16.0})) == len(opened.runs()) == 3
