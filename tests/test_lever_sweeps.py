"""Lever studies end to end: with a training function whose truth is known, and a tiny real one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.cli import main
from extrap.errors import DataError
from extrap.lever_sweeps import (
    plan_levers,
    read_lever_table,
    report_levers,
    run_levers,
    sweeps_of_levers,
)
from extrap.records import Lever, LeverStudy
from extrap.reporting import levers_document
from extrap.tuning import TrainFunction, TuneEvent

SMALL = StudySpec(
    name="small",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=2**-4, high=2**-2, n=3)},
    seeds=(0, 1),
)
LARGE = replace(SMALL, name="large", recipe=Recipe(steps=80, batch_size=32))
KINDS = {"group": "rates", "question": "Which rate?", "plain": SMALL, "treated": LARGE}
STUDY = LeverStudy(
    name="toy-levers",
    question="?",
    levers=(
        Lever(name="kept", rate=1.0, **KINDS),
        Lever(name="times 8", rate=8.0, **KINDS),
        Lever(name="re-tuned", **KINDS),
    ),
    judge_seeds=(10, 11, 12, 13, 14),
)
Places = dict[str, Path | str]


def toy(spec: StudySpec) -> TrainFunction:
    """The best rate is 2^-5 at the small batch and 2^-3 at the large one, which costs 10 %."""
    best, loss = (-5, 1.0) if spec.name == "small" else (-3, 1.1)

    def train(size: object, tuned: dict[str, float], seed: int) -> float:
        noise = 0.02 * np.random.default_rng(seed).normal()
        own = 0.003 * np.random.default_rng([seed, round(1e4 * tuned["lr"])]).normal()
        return loss + 0.1 * (math.log2(tuned["lr"]) - best) ** 2 + noise + own

    return train


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A storage and a folder in which the lever study has been run once."""
    home = tmp_path_factory.mktemp("levers")
    where: Places = {"storage": f"sqlite:///{home / 'toy.db'}", "reports": home / "reports"}
    run_levers(STUDY, train=toy, **where)
    return where


def test_arms_are_tuned_beyond_their_grid_and_judged_on_other_seeds(places: Places) -> None:
    lines: list[str] = []
    outcome = run_levers(STUDY, train=toy, say=lines.append, **places)
    kept, times, tuned = outcome.report.findings
    assert lines == ["small: best rate 0.03125", "large: best rate 0.125"]
    assert [f.treated.lr for f in (kept, times, tuned)] == [2**-5, 2**-2, 2**-3]
    for finding, truth in ((kept, 0.5), (times, 0.2), (tuned, 0.1)):
        lower, upper = finding.difference.ci
        assert lower < truth < upper
        assert finding.n_seeds == 5
    table = outcome.table
    assert set(table.loc[table["stage"] == "tune", "seed"]) == {0, 1}
    assert set(table.loc[table["stage"] == "check", "seed"]) == {10, 11, 12, 13, 14}


def test_second_start_trains_nothing_and_storage_and_table_report_the_same(
    places: Places, tmp_path: Path
) -> None:
    trained: list[TuneEvent] = []
    again = run_levers(STUDY, train=toy, notify=trained.append, **places)
    told = report_levers(STUDY, **places)
    table = Path(places["reports"]) / "toy-levers.runs.csv"
    read = report_levers(STUDY, table=table, reports=tmp_path)
    assert trained == []
    assert levers_document(told.report) == levers_document(again.report)
    assert levers_document(read.report) == levers_document(again.report)
    html = told.report_path.read_text(encoding="utf-8")
    assert "3 raise the final loss" in html
    assert "toy-levers" in told.index_path.read_text(encoding="utf-8")


def test_what_is_no_run_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a CSV file, got .*none\.csv"):
        read_lever_table(tmp_path / "none.csv")
    pd.DataFrame({"arm": ["a"], "loss": [1.0]}).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(DataError, match="lacks stage, lr, seed, status"):
        read_lever_table(tmp_path / "odd.csv")


def test_plan_lists_arms_and_levers_without_opening_a_storage(tmp_path: Path) -> None:
    text = plan_levers(STUDY, storage=f"sqlite:///{tmp_path / 'never.db'}")
    assert "arm small: 6 runs to tune, 5 to judge, 640 updates of 4 examples" in text
    assert "arm large: 6 runs to tune, 15 to judge, 80 updates of 32 examples" in text
    assert "rates: times 8 (rate × 8) against small" in text
    assert not (tmp_path / "never.db").exists()


TINY_FILE = """
from dataclasses import replace
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import Lever, LeverStudy
RECIPE = Recipe(steps=64, batch_size=8, optimizer="sgd", schedule="steps", drops=(0.5,),
    drop_factor=4, n_evals=2)
FALLS = StudySpec(name="falls", question="?", recipe=RECIPE, sizes={"width": (8,)}, seeds=(0,),
    workload=Workload(name="digits", options={"norm": "batch"}), growth=0,
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)})
GROWS = replace(FALLS, name="grows", recipe=replace(RECIPE, decay_by="batch"))
GHOST = replace(GROWS, name="ghost",
    workload=Workload(name="digits", options={"norm": "batch", "ghost": 8}))
LEVERS = LeverStudy(name="tiny", question="What?", judge_seeds=(5, 6, 7), levers=(
    Lever(name="batch grown", group="growth", question="Alike?", plain=FALLS, treated=GROWS,
        rate=1.0),
    Lever(name="ghosts", group="ghosts", question="Better?", plain=GROWS, treated=GHOST,
        reference=FALLS)))
"""


def test_tiny_study_runs_and_reports_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text(TINY_FILE)
    assert main(["study", "run", "tiny.py", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "falls: best rate" in out
    assert "40 updates instead of 64, 1.6 times fewer" in out
    table = pd.read_csv("reports/tiny.runs.csv")
    assert set(table["updates"]) == {40, 64}
    assert set(table["n_tokens"]) == {512}
    assert main(["report", "tiny.py", "-o", "again.html"]) == 0
    assert main(["report", "tiny.py", "reports/tiny.runs.csv", "-o", "read.html"]) == 0
    pages = [Path(name).read_text() for name in ("reports/tiny.html", "again.html", "read.html")]
    answers = {page.partition('"extrap:answer" content="')[2].partition('"')[0] for page in pages}
    assert len(answers) == 1
    assert main(["study", "run", "tiny.py", "--dry-run", "--set", "judge_seeds=1,2"]) == 0
    assert "arm ghost: 3 runs to tune, 2 to judge" in capsys.readouterr().out


def test_status_finds_every_cell_done(places: Places) -> None:
    from extrap.standing import study_status
    from extrap.sweeps import StudyFile

    url = str(places["storage"])
    sweeps = sweeps_of_levers(STUDY)
    study = StudyFile(name=STUDY.name, kind="LEVERS", storage=url, sweeps=sweeps)
    status = study_status(study)
    assert status.done
    assert (
        status.count("cells")
        == status.count("complete")
        == len(report_levers(STUDY, **places).table)
    )
    assert status.count("duplicates") == 0
