import json
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.registry import kinds
from extrap.study import open_study
from tests.analyses.batch_size.test_study import FILE as BATCHES

HEAD = """
from dataclasses import replace
from extrap import StudySpec, TunedRange, Workload
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup, ablations
NONE = StudySpec(name="none", question="?", sizes={"width": (8,)}, seeds=(0, 1), growth=0,
    workload=Workload(name="mine"), tune={"lr": TunedRange(low=0.01, high=0.1, n=3)})
NORM = replace(NONE, name="norm", workload=Workload(name="mine", options={"noise": 0.1}))
SGD = replace(NONE.recipe, optimizer="sgd")
"""
ONE_SIZE = f"""{HEAD}
COMPARISON = ComparisonStudy(name="tiny", question="What?", groups=(
    replace(ablations(NONE, {{"batch grows": SGD, "norms": NORM}}), reference="batch grows"),))
"""
COMPARISON = f"""{HEAD}
COMPARISON = ComparisonStudy(name="tiny", question="What?", groups=(
    RecipeGroup(name="norms", question="Better?", arms={{"none": NONE, "norm": NORM}},
        target={{"width": 32}}),))
"""


def test_missing_study_file_names_its_neighbours():
    with pytest.raises(ValueError, match=r"mets\.py.*metz\.py"):
        open_study(Path(__file__).parents[2] / "studies" / "mets.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "one.py"


STUDY_FILE = """
from extrap.records import StudySpec, TunedRange, Workload
STUDY = StudySpec(name="k", question="?", workload=Workload(name="bytes-mlp"),
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=0.1, high=0.2, n=2)})
"""


def test_file_may_define_dataclasses(path):
    start = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    choice = "@dataclass(frozen=True)\nclass Choice:\n    width: int = 8\n"
    path.write_text(start + choice + STUDY_FILE.replace("(8, 16)", "(Choice().width, 16)"))
    assert open_study(path).study.sizes == {"width": (8, 16)}


def test_file_may_define_batches_or_a_comparison(path):
    path.write_text(BATCHES)
    assert open_study(path).study.tasks[0].batches == (4, 16, 64)
    own = open_study(path, assignments=["tasks.0.steps.16=60", "tasks.0.study.seeds=7"]).study
    assert (own.tasks[0].steps[16], own.tasks[0].study.seeds) == (60, (7,))
    own = open_study(path, assignments=["seeds=7", "level=0.9"]).study
    assert (own.tasks[0].study.seeds, own.level) == ((7,), 0.9)
    path.write_text(COMPARISON)
    assert [spec.name for spec in open_study(path).specs()] == ["none", "norm"]
    assignments = ["sizes.width=4,8,16", "price=2", "groups.0.target.width=48", "name=d"]
    own = open_study(path, assignments=assignments).study
    assert [spec.sizes["width"] for spec in own.arms()] == [(4, 8, 16)] * 2
    assert (own.name, own.price, own.groups[0].target) == ("d", 2, {"width": 48})
    path.write_text(ONE_SIZE)
    names = ["none", "none-batch-grows", "norm"]
    assert [spec.name for spec in open_study(path).specs()] == names
    own = open_study(path, assignments=["sizes.width=9", "seeds=7,8", "level=0.9"]).study
    assert {tuple(spec.sizes["width"]) for spec in own.arms()} == {(9,)}
    assert own.groups[0].target_size == {"width": 9}  # it was left out, and follows the size


@pytest.mark.parametrize(
    ("text", "symbol"), [(STUDY_FILE, "STUDY"), (BATCHES, "BATCHES"), (COMPARISON, "COMPARISON")]
)
def test_kind_is_the_first_that_a_file_defines(text, symbol, path):
    path.write_text(text)
    assert open_study(path).symbol == symbol


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("BATCHES = 3", {}, "BatchStudy, got int"),
        ("ALLOCATION = 3", {}, "AllocationStudy, got int"),
        ("COMPARISON = 3", {"symbol": "STUDY"}, "STUDY .*there is none"),
        ("COMPARISON = None", {"symbol": "COMPARISON"}, "COMPARISON .*there is none"),
        *((text, {}, r"one\.py") for text in ("", "ABLATIONS = 3", "STUDY = None")),
    ],
)
def test_a_file_without_a_study_is_refused(text, options, message, path):
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        open_study(path, **options)
    if message == r"one\.py":  # it names the kinds there are
        assert [kind for kind in kinds() if kind not in str(refused.value)] == []


OWN_KIND = (Path(__file__).parents[2] / "examples" / "own" / "kind.py").read_text()


def test_a_kind_of_its_own_is_planned_run_followed_and_reported(home, capsys):
    Path("twice.py").write_text(OWN_KIND)
    assert main(["study", "run", "twice.py", "--dry-run"]) == 0
    assert "best rate: 2 runs" in capsys.readouterr().out
    assert main(["study", "run", "twice.py", "--quiet"]) == 0
    assert "reports/doubling.json" in capsys.readouterr().out
    assert main(["study", "status", "twice.py", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["complete"], status["done"]) == (5, True)
    for source in ([], ["reports/twice.runs.csv"]):
        assert main(["report", "twice.py", *source, "-o", "again.html"]) == 0
        assert "which 2 runs bear out" in Path("again.html").read_text(encoding="utf-8")


def test_a_variable_with_the_name_of_an_earlier_kind_is_no_study(path):
    path.write_text(OWN_KIND)
    open_study(path)
    (path.parent / "plain.py").write_text(f"DOUBLING = True\n{STUDY_FILE}")
    assert open_study(path.parent / "plain.py").symbol == "STUDY"
