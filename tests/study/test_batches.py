"""Batch studies end to end, on a linear teacher that trains in seconds."""

from pathlib import Path

import pandas as pd
import pytest

from extrap.cli import main
from extrap.errors import DataError
from extrap.records import BatchStudy, BatchTask, Recipe, StudySpec, TunedRange, Workload
from extrap.reporting.batches_page import batches_document
from extrap.study import report, run
from extrap.study.batches import BatchKind
from extrap.study.driver import runs_in
from extrap.study.progress import TuneEvent
from extrap.study.status import study_status

CONSTANT = {"schedule": "constant", "warmup": 0.0}
TASK = BatchTask(
    study=StudySpec(
        name="tiny",
        question="?",
        workload=Workload(
            name="teacher", options={"noise": 0.5, "alpha": 0.5, "spectrum": 1.5, "n_features": 16}
        ),
        recipe=Recipe(optimizer="sgd", momentum=0.0, noise_every=1, n_evals=40, **CONSTANT),
        sizes={"width": (4, 5, 6, 8)},
        tune={"lr": TunedRange(low=0.25, high=1.0, n=3)},
        seeds=(0,),
        target_seeds=(0,),
        growth=2,
    ),
    steps={2: 500, 8: 200, 32: 100, 128: 60},
    targets=(0.44, 0.41),
    reference_batch=32,
    rate_exponent=0.5,
    noise_batch=32,
)
STUDY = BatchStudy(name="tiny_batches", question="How large a batch is useful?", tasks=(TASK,))
KIND = BatchKind(STUDY)
N_FIRST = 4 * 4 * 3
"""Sizes, batches, rates and seeds before any growth."""


@pytest.fixture(scope="module")
def outcome(places):
    return run(KIND, **places)


def runs_of(places, stage):
    return runs_in(KIND, places["storage"]).of(TASK.spec(), stage).to_frame()


@pytest.mark.slow
def test_study_counts_steps_and_writes_page_tables_and_index(outcome, places):
    (found,) = outcome.result
    assert {(g.by["width"], g.by["target"]) for g in found.critical.groups} == {
        (width, target) for width in (4, 5, 6, 8) for target in (0.44, 0.41)
    }
    assert not found.noise.empty
    assert outcome.report_path.name == "tiny_batches.html"
    assert "sweep tiny" in outcome.report_path.read_text(encoding="utf-8")
    assert "tiny_batches" in outcome.index_path.read_text(encoding="utf-8")
    for name in ("tuned", "noise", "courses"):
        assert (places["reports"] / f"tiny_batches.{name}.csv").is_file(), name


@pytest.mark.slow
def test_grid_grows_only_where_the_best_rate_is_at_its_edge(outcome, places):
    runs = runs_of(places, "tune")
    n_rates = runs.groupby(["width", "batch_size"])["lr"].nunique()
    assert n_rates.min() >= 3
    assert 3 < n_rates.max() <= 3 + 2 * TASK.study.growth
    for (_, batch), rates in runs.groupby(["width", "batch_size"])["lr"]:
        indices = range(-TASK.study.growth, 3 + TASK.study.growth)
        known = {TASK.rate(int(batch), i): i for i in indices}
        own = sorted(known[rate] for rate in rates.unique())
        assert own == list(range(own[0], own[-1] + 1)), "a grid has a hole"
        assert {0, 1, 2} <= set(own)
    assert len(runs) > N_FIRST
    assert not runs.duplicated(["width", "batch_size", "lr", "seed"]).any()


@pytest.mark.slow
def test_second_start_trains_nothing(outcome, places, tmp_path):
    trained: list[TuneEvent] = []
    again = run(KIND, notify=trained.append, **places)
    assert trained == []
    told = report(KIND, path=tmp_path / "own.html", **places)
    assert told.report_path == tmp_path / "own.html"
    first, second, third = (batches_document(STUDY, o.result) for o in (outcome, again, told))
    assert first == second == third
    status = study_status(KIND, places["storage"])
    assert status.done
    assert status.count("cells") == status.count("complete") == len(runs_of(places, "tune"))
    assert status.count("duplicates") == 0


FILE = """
from extrap.records import BatchStudy, BatchTask, Recipe, StudySpec, TunedRange, Workload
BATCHES = BatchStudy(name="file", question="How large?", tasks=(BatchTask(
    study=StudySpec(name="tiny", question="?", recipe=Recipe(schedule="constant", warmup=0.0),
        workload=Workload(name="teacher", options={"n_features": 8}), sizes={"width": (2, 4)},
        tune={"lr": TunedRange(low=0.125, high=0.5, n=3)}),
    steps={4: 300, 16: 150, 64: 80}, targets=(0.95,)),))
"""


def test_command_line_runs_and_reports_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.py"
    path.write_text(FILE)
    small = ["tasks.0.study.sizes.width=4", "tasks.0.study.seeds=0", "tasks.0.targets=0.5"]
    command = ["study", "run", str(path), *(part for text in small for part in ("--set", text))]
    assert main([*command, "--dry-run"]) == 0
    assert "9 runs" in capsys.readouterr().out
    assert not Path(".extrap").exists()
    assert main([*command, "--quiet"]) == 0
    assert "reports/file.html" in capsys.readouterr().out
    path.write_text(path.read_text().replace("(2, 4)", "(4,)").replace("(0.95,)", "(0.5,)"))
    assert main(["report", str(path), "-o", "again.html"]) == 0
    assert "again.html" in capsys.readouterr().out
    pd.DataFrame({"width": 4, "lr": [0.1], "batch_size": 4, "steps": 9, "loss": 1.0}).to_csv(
        "t.csv"
    )
    assert main(["report", str(path), "t.csv"]) == 2  # it has no curves
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(DataError):
        report(KIND, storage="sqlite:///none.db", reports=tmp_path)
