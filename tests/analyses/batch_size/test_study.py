"""Batch studies: the critical batch of made-up curves, and the command line."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.batch_size import BatchStudy, BatchTask, critical_batch
from extrap.analyses.batch_size.study import BatchKind, wanted_cells
from extrap.cli import main
from extrap.errors import DataError
from extrap.records import Runs, StudySpec, TunedRange, Workload
from extrap.study import report, run
from tests.study_workloads import TEACHER

pytestmark = pytest.mark.usefixtures("home")

TASK = BatchTask(
    study=StudySpec(
        name="steps",
        question="?",
        workload=Workload(name="mine"),
        sizes={"width": (4, 8, 16)},
        tune={"lr": TunedRange(low=0.25, high=1.0, n=3)},
        seeds=(0,),
        growth=2,
    ),
    steps={2: 2000, 8: 600, 32: 300, 128: 200},
    targets=(0.5, 0.4),
    reference_batch=32,
)
STUDY = BatchStudy(name="batches", question="How large a batch is useful?", tasks=(TASK,))
CRITICAL = 16


def curve(size, tuned, seed):
    """The best rate, half a step below the grid, has a loss of .4 after 50 (1 + 16 / B) steps."""
    octaves = math.log2(tuned["lr"] / (0.18 * (tuned["batch_size"] / 32) ** 0.5))
    reach = 50 * (1 + CRITICAL / tuned["batch_size"]) * (1 + 0.1 * octaves**2)
    points = sorted({max(1, round(tuned["steps"] * i / 200)) for i in range(1, 201)})
    losses = [0.2 + 0.2 * (step / reach) ** -0.5 for step in points]
    return {"loss": losses[-1], "curve": list(zip(points, losses, strict=True))}


def test_the_critical_batch_is_that_of_the_curves_and_grids_grow_to_their_best_rate(places):
    outcome = run(BatchKind(STUDY, curve), **places)
    (found,) = outcome.result
    assert [g.by["target"] for g in found.critical.groups] == 3 * [0.4, 0.5]
    for group in found.critical.groups:
        assert group.b_crit.value == pytest.approx(CRITICAL, rel=0.1)
    frame = outcome.runs.of(TASK.spec()).to_frame()
    for (_, batch), rates in frame.groupby(["width", "batch_size"])["lr"]:
        assert sorted(rates) == [TASK.rate(int(batch), i) for i in range(-2, 3)]
    assert {*outcome.tables} == {"tuned", "seeds", "rates"}
    again = critical_batch(outcome.tables["seeds"], by=["width", "target"], ignore="task")
    assert again.groups == found.critical.groups
    assert all(path.is_file() for path in outcome.table_paths.values())


def test_rates_by_which_a_grid_grew_are_wanted_whole_after_a_driver_died(places):
    runs = run(BatchKind(STUDY, curve), **places).runs.of(TASK.spec())
    frame, curves = runs.to_frame(), runs.curves()
    second = [TASK.rate(int(batch), -2) for batch in frame["batch_size"]]
    there = np.flatnonzero(frame["lr"] != second)  # its pack was not finished
    place = dict(zip(there, range(len(there)), strict=True))
    found = Runs.from_frame(
        frame.iloc[there].reset_index(drop=True),
        sizes=runs.sizes,
        tuned=runs.tuned,
        curves=curves[curves["run"].isin(there)].assign(run=lambda f: f["run"].map(place)),
    )
    assert set(wanted_cells(TASK, found)) == set(wanted_cells(TASK, runs))


FILE = f"""
from extrap.analyses.batch_size import BatchStudy, BatchTask, critical_batch
from extrap.records import Recipe, StudySpec, TunedRange, Workload
TEACHER = {TEACHER!r}
BATCHES = BatchStudy(name="file", question="How large?", tasks=(BatchTask(
    study=StudySpec(name="tiny", question="?", recipe=Recipe(schedule="constant", warmup=0.0),
        workload=Workload(name=TEACHER, options={{"n_features": 8}}), sizes={{"width": (2, 4)}},
        tune={{"lr": TunedRange(low=0.125, high=0.5, n=3)}}),
    steps={{4: 300, 16: 150, 64: 80}}, targets=(0.95,)),))
"""


def test_command_line_runs_and_reports_a_file(tmp_path, capsys):
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
    columns = {"width": 4, "lr": [0.1], "batch_size": 4, "steps": 9, "loss": 1.0}
    pd.DataFrame(columns).to_csv("t.csv")
    assert main(["report", str(path), "t.csv"]) == 2  # it has no curves
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(DataError):
        report(BatchKind(STUDY), storage="sqlite:///none.db", reports=tmp_path)
