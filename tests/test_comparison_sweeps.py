"""Comparison studies end to end: with a training function whose truth is known, and a tiny one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.cli import main
from extrap.comparison_sweeps import (
    ComparisonOutcome,
    plan_comparison,
    read_comparison_table,
    report_comparison,
    run_comparison,
    sweeps_of_comparison,
    train_comparison,
)
from extrap.errors import DataError
from extrap.records import ComparisonStudy, RecipeGroup
from extrap.reporting import Section, comparison_study_document
from extrap.tuning import TrainFunction, TuneEvent

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
ALIKE = replace(PLAIN, name="alike", recipe=Recipe(steps=640, batch_size=8))
STUDY = ComparisonStudy(
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
        RecipeGroup(
            name="again",
            question="?",
            arms={"plain": PLAIN, "alike": ALIKE},
            target={"width": 128},
        ),
    ),
    price=2.0,
)
FACTOR = 0.9
Places = dict[str, Path | str]


def toy(spec: StudySpec) -> TrainFunction:
    """A power law of width, best at the rate 2^-5, `alike` at 2^-4; `lower` is a tenth lower."""
    factor = FACTOR if spec.name == "lower" else 1.0
    best = -4 if spec.name == "alike" else -5

    def train(size: dict[str, float], tuned: dict[str, float], seed: int) -> float:
        shared = 0.01 * np.random.default_rng(seed).normal()
        own = (
            0.003 * np.random.default_rng([seed, *spec.name.encode(), int(size["width"])]).normal()
        )
        valley = 0.1 * (math.log2(tuned["lr"]) - best) ** 2
        return factor * 3.0 * size["width"] ** -0.4 * math.exp(shared + own + valley)

    return train


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A storage and a folder for the study."""
    home = tmp_path_factory.mktemp("recipes")
    return {"storage": f"sqlite:///{home / 'toy.db'}", "reports": home / "reports"}


@pytest.fixture(scope="module")
def first_run(places: Places) -> tuple[ComparisonOutcome, list[str]]:
    """The study run once, and what was said."""
    lines: list[str] = []
    return run_comparison(STUDY, train=toy, say=lines.append, **places), lines


@pytest.fixture(scope="module")
def table(places: Places, first_run: object) -> Path:
    """Its run table."""
    return Path(places["reports"]) / "toy-recipes.runs.csv"


def test_recipes_are_tuned_beyond_their_grid_and_compared(
    first_run: tuple[ComparisonOutcome, list[str]],
) -> None:
    outcome, lines = first_run
    assert [line.partition(":")[0] for line in lines[:3]] == ["plain", "lower", "alike"]
    assert lines[3].startswith("comparison written ")
    first, second = outcome.findings
    assert first.comparison is not None
    assert second.comparison is not None
    (lower,), (alike,) = first.comparison.contrasts, second.comparison.contrasts
    assert (lower.verdict, alike.verdict) == ("shift", "same")
    assert lower.at_target is not None
    assert FACTOR - 1 in lower.at_target.difference.ci
    sweep = outcome.table[outcome.table["stage"] == "tune"]
    highest = sweep.groupby("arm")["lr"].max()
    assert highest["alike"] > highest["plain"]  # its best is at the end of the first grid
    assert list(outcome.table.columns[:1]) == ["arm"]


def test_target_is_trained_at_forecast_values_after_the_comparison_is_written(
    first_run: tuple[ComparisonOutcome, list[str]],
) -> None:
    outcome, _ = first_run
    first, second = outcome.findings
    assert second.checks == ()
    (check,) = first.checks
    assert (check.treated, check.n_pairs, check.agrees) == ("lower", 3, True)
    assert FACTOR - 1 in check.difference.ci
    large = outcome.table[outcome.table["stage"] == "check"]
    assert set(large["arm"]) == {"plain", "lower"}
    assert set(large["width"]) == {256}
    assert set(large["seed"]) == {5, 6, 7}
    assert list(large["lr"]) == pytest.approx([2**-5] * 6, rel=0.05)
    document = json.loads(outcome.document_path.read_text())
    assert document["created"] == first.sealed
    assert document["checks"][0]["agrees"] is True
    assert first.sealed <= first.began == min(large["started_at"])
    assert "before any run there" in outcome.report_path.read_text(encoding="utf-8")


def test_forecast_that_fails_at_the_target_is_said(table: Path, tmp_path: Path) -> None:
    runs = read_comparison_table(table)
    bent = (runs["arm"] == "lower") & (runs["stage"] == "check")
    runs["loss"] = runs["loss"].where(~bent, 1.3 * runs["loss"])
    runs.to_csv(tmp_path / "bent.csv", index=False)
    study = replace(STUDY, groups=STUDY.groups[:1])
    outcome = report_comparison(study, table=tmp_path / "bent.csv", reports=tmp_path)
    (check,) = outcome.findings[0].checks
    assert check.agrees is False
    assert "the forecast was off" in outcome.report_path.read_text(encoding="utf-8")


def test_second_start_trains_nothing_and_storage_and_table_report_the_same(
    places: Places, table: Path, tmp_path: Path
) -> None:
    trained: list[TuneEvent] = []
    again = run_comparison(STUDY, train=toy, notify=trained.append, **places)
    told = report_comparison(STUDY, **places)
    read = report_comparison(STUDY, table=table, reports=tmp_path)
    assert trained == []
    hashes = set()
    for outcome in (again, told, read):
        document = json.loads(outcome.document_path.read_text())
        hashes.add(document["content_hash"])
        assert document["checks"][0]["n_pairs"] == 3
    assert len(hashes) == 1
    kept = {json.loads(o.document_path.read_text())["created"] for o in (again, told)}
    assert len(kept) == 1
    assert comparison_study_document(STUDY, told.findings) == comparison_study_document(
        STUDY, again.findings
    )
    columns = ["arm", "stage", "width", "lr", "seed", "status", "loss"]
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "toy-recipes.runs.csv")[columns], pd.read_csv(table)[columns]
    )
    assert "toy-recipes" in told.index_path.read_text(encoding="utf-8")


def test_another_machine_reports_with_the_time_of_the_first_seal(
    places: Places, first_run: tuple[ComparisonOutcome, list[str]], tmp_path: Path
) -> None:
    first = json.loads(first_run[0].document_path.read_text())
    document = {**first, "created": "2020-01-01T00:00:00+00:00"}
    (tmp_path / first_run[0].document_path.name).write_text(json.dumps(document))
    told = report_comparison(STUDY, storage=str(places["storage"]), reports=tmp_path)
    assert json.loads(told.document_path.read_text())["created"] == first["created"]
    findings, _ = train_comparison(
        STUDY, str(places["storage"]), reports=tmp_path / "worker", train=toy
    )
    assert {found.sealed for found in findings} == {first["created"]}


def test_comparison_that_says_something_else_is_kept_beside(table: Path, tmp_path: Path) -> None:
    first = report_comparison(STUDY, table=table, reports=tmp_path)
    before = json.loads(first.document_path.read_text())
    farther = replace(STUDY.groups[0], target={"width": 512})
    report_comparison(replace(STUDY, groups=(farther,)), table=table, reports=tmp_path)
    assert json.loads(first.document_path.read_text())["content_hash"] != before["content_hash"]
    aside = tmp_path / f"toy-recipes.comparison.{before['content_hash'][:8]}.json"
    assert json.loads(aside.read_text())["created"] == before["created"]


def test_others_bring_sections_made_from_the_run_table(table: Path, tmp_path: Path) -> None:
    def noises(runs: pd.DataFrame) -> list[Section]:
        found = runs.groupby("arm")["noise"].first()
        return [Section(key="noises", title="Noise of a label", words=(f"{found['lower']:g}",))]

    outcome = report_comparison(
        STUDY,
        table=table,
        reports=tmp_path,
        sections=noises,
    )
    html = outcome.report_path.read_text(encoding="utf-8")
    assert '<section id="noises">' in html
    assert "<p>0.25</p>" in html


def test_group_that_cannot_be_compared_leaves_the_others_standing(
    table: Path, tmp_path: Path
) -> None:
    runs = read_comparison_table(table)
    lost = runs["arm"] == "lower"
    runs.loc[lost, "status"] = "diverged"
    runs.loc[lost, "loss"] = math.nan
    runs.to_csv(tmp_path / "lost.csv", index=False)
    outcome = report_comparison(STUDY, table=tmp_path / "lost.csv", reports=tmp_path)
    first, second = outcome.findings
    assert first.comparison is None
    assert first.problem
    assert second.comparison is not None
    assert "No comparison: " in outcome.report_path.read_text(encoding="utf-8")


def test_what_is_no_run_table_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a CSV file, got .*none\.csv"):
        read_comparison_table(tmp_path / "none.csv")
    pd.DataFrame({"arm": ["a"], "loss": [1.0]}).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(DataError, match="lacks stage, seed, status"):
        read_comparison_table(tmp_path / "odd.csv")
    runs = read_comparison_table(table)
    runs[runs["arm"] != "alike"].to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(DataError, match="no runs of stage 'tune' of 'alike'; it has lower, plain"):
        report_comparison(STUDY, table=tmp_path / "short.csv", reports=tmp_path)


def test_plan_lists_sweeps_once_and_groups_without_opening_a_storage(tmp_path: Path) -> None:
    text = plan_comparison(STUDY, storage=f"sqlite:///{tmp_path / 'never.db'}")
    assert text.count("plain (teacher): 24 runs at 4 sizes, width 4 to width 32") == 1
    assert "72 runs before any grid grows" in text
    assert "treatments: lower against plain, at width 256, then trained there" in text
    assert text.endswith("again: alike against plain, at width 128")
    assert not (tmp_path / "never.db").exists()


TINY_FILE = """
from dataclasses import replace
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup
NONE = StudySpec(name="none", question="?", sizes={"width": (4, 8, 16)}, seeds=(0, 1), growth=0,
    workload=Workload(name="digits"), recipe=Recipe(steps=32, batch_size=16, n_evals=2),
    tune={"lr": TunedRange(low=0.01, high=0.04, n=3)})
NORM = replace(NONE, name="norm", workload=Workload(name="digits", options={"norm": "batch"}))
COMPARISON = ComparisonStudy(name="tiny", question="What?", groups=(
    RecipeGroup(name="norms", question="Better?", arms={"none": NONE, "norm": NORM},
        target={"width": 32}),))
"""


def test_tiny_study_runs_and_reports_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text(TINY_FILE)
    assert main(["study", "run", "tiny.py", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "norm: 18 runs" in out
    assert "norms\n- norm: " in out
    table = pd.read_csv("reports/tiny.runs.csv")
    assert {"width", "lr", "seed", "initial_loss", "n_params", "flops", "wall_s", "ghost"} <= set(
        table
    )
    assert main(["report", "tiny.py", "-o", "again.html"]) == 0
    assert main(["report", "tiny.py", "reports/tiny.runs.csv", "-o", "read.html"]) == 0
    pages = [Path(name).read_text() for name in ("reports/tiny.html", "again.html", "read.html")]
    answers = {page.partition('"extrap:answer" content="')[2].partition('"')[0] for page in pages}
    assert len(answers) == 1
    assert main(["study", "run", "tiny.py", "--dry-run", "--set", "seeds=1,2,3"]) == 0
    assert "54 runs before any grid grows" in capsys.readouterr().out


def test_status_finds_every_cell_done(places: Places, table: Path) -> None:
    from extrap.standing import study_status
    from extrap.sweeps import StudyFile

    url = str(places["storage"])
    study = StudyFile(
        name=STUDY.name, kind="COMPARISON", storage=url, sweeps=sweeps_of_comparison(STUDY)
    )
    status = study_status(study)
    assert status.done
    assert status.count("cells") == status.count("complete") == len(pd.read_csv(table))
    assert status.count("duplicates") == 0
