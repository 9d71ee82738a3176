"""Tiny studies of other kinds, from the command line: planned, worked on, run, reported again."""

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from extrap.cli import main
from extrap.errors import DataError
from extrap.study import default_storage, open_study, runs_of_table, train
from extrap.study.allocations import AllocationKind
from tests.digits import DIGITS

from .test_allocations import STUDY as ALLOCATION

ONE_SIZE = """
from dataclasses import replace
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, ablations
RECIPE = Recipe(steps=64, batch_size=8, optimizer="sgd", schedule="steps", drops=(0.5,),
    drop_factor=4, n_evals=2)
FALLS = StudySpec(name="falls", question="?", recipe=RECIPE, sizes={"width": (8,)}, seeds=(0, 1),
    workload=Workload(name="DIGITS", options={"ghost": 0}), growth=0,
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)})
GHOST = replace(FALLS, name="ghost", workload=Workload(name="DIGITS", options={"ghost": 8}))
COMPARISON = ComparisonStudy(name="tiny", question="What?", groups=(
    replace(ablations(FALLS, {"batch grows": replace(RECIPE, decay_by="batch"), "ghosts": GHOST}),
        reference="batch grows"),))
""".replace("DIGITS", DIGITS)
COMPARISON = """
from dataclasses import replace
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup
NONE = StudySpec(name="none", question="?", sizes={"width": (4, 8, 16)}, seeds=(0, 1), growth=0,
    workload=Workload(name="DIGITS"), recipe=Recipe(steps=32, batch_size=16, n_evals=2),
    tune={"lr": TunedRange(low=0.01, high=0.04, n=3)})
NORM = replace(NONE, name="norm", workload=Workload(name="DIGITS", options={"ghost": 0}))
COMPARISON = ComparisonStudy(name="tiny", question="What?", groups=(
    RecipeGroup(name="norms", question="Better?", arms={"none": NONE, "norm": NORM},
        target={"width": 32}),))
""".replace("DIGITS", DIGITS)

slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("text", "change", "planned", "n_cells", "said"),
    [
        slow(
            ONE_SIZE,
            "seeds=1,2,3",
            "falls: 9 runs|falls-batch-grows: 9 runs|27 runs",
            18,
            ("falls-batch-grows: 6 runs", "measured"),
        ),
        slow(COMPARISON, "seeds=1,2,3", "54 runs", 36, ("norm: 18 runs", "norm ")),
    ],
    ids=["one-size", "comparison"],
)
def test_study_runs_and_reports(
    text, change, planned, n_cells, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text(text)
    assert main(["study", "run", "tiny.py", "--dry-run", "--set", change]) == 0
    plan = capsys.readouterr().out
    assert [words for words in planned.split("|") if words not in plan] == []
    assert not Path(".extrap").exists()
    study = open_study("tiny.py")
    train(study, default_storage(study))
    assert not list(Path().glob("reports/*.html"))
    capsys.readouterr()
    assert main(["study", "status", "tiny.py", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["done"]
    assert status["cells"] == status["complete"] == n_cells
    assert main(["study", "run", "tiny.py", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert [words for words in said if words not in out] == []
    (kept,) = Path("reports").glob("*.runs.csv")
    table = pd.read_csv(kept)
    if text is ONE_SIZE:
        assert (set(table["updates"]), set(table["n_tokens"])) == ({40, 64}, {512})
    else:
        costs = {"initial_loss", "n_params", "flops", "wall_s"}
        assert {"width", "lr", "seed", "ghost", *costs} <= set(table)
    assert main(["report", "tiny.py", "-o", "again.html"]) == 0
    assert main(["report", "tiny.py", str(kept), "-o", "read.html"]) == 0
    (first,) = Path("reports").glob("[!i]*.html")
    pages = [path.read_text() for path in (first, Path("again.html"), Path("read.html"))]
    answers = {page.partition('answer" content="')[2].partition('"')[0] for page in pages}
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("study", "lacks"),
    [
        (COMPARISON, "stage, lr"),
        (ALLOCATION, "lr"),
    ],
    ids=["comparison", "allocation"],
)
def test_what_is_no_table_of_runs_is_refused(study, lacks, tmp_path):
    if isinstance(study, str):
        (tmp_path / "tiny.py").write_text(study)
        kind = open_study(tmp_path / "tiny.py")
    else:
        kind = AllocationKind(study)
    with pytest.raises(DataError, match=r"none\.csv"):
        runs_of_table(kind, tmp_path / "none.csv")
    columns = {"arm": ["a"], "width": [1], "loss": [1.0]}
    pd.DataFrame(columns).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(DataError, match=f"lacks .*{lacks}"):
        runs_of_table(kind, tmp_path / "odd.csv")
