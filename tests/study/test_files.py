from pathlib import Path

import pytest

from extrap.study import KINDS, open_study

from .test_batches import FILE as BATCHES
from .test_kinds import COMPARISON, ONE_SIZE


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
    names = ["falls", "falls-batch-grows", "ghost"]
    assert [spec.name for spec in open_study(path).specs()] == names
    own = open_study(path, assignments=["sizes.width=9", "seeds=7,8", "level=0.9"]).study
    assert {tuple(spec.sizes["width"]) for spec in own.arms()} == {(9,)}
    assert own.groups[0].target_size == {"width": 9}  # it was left out, and follows the size


@pytest.mark.parametrize(
    ("symbol", "record"),
    [
        ("BATCHES", "BatchStudy"),
        ("COMPARISON", "ComparisonStudy"),
        ("ALLOCATION", "AllocationStudy"),
    ],
)
def test_file_with_another_kind_of_study_is_refused(symbol, record, path):
    path.write_text(f"{symbol} = 3")
    with pytest.raises(ValueError, match=f"{record}, got int"):
        open_study(path)
    with pytest.raises(ValueError, match=r"STUDY .*there is none"):
        open_study(path, symbol="STUDY")
    path.write_text(f"{symbol} = None")
    with pytest.raises(ValueError, match=rf"{symbol} .*there is none"):
        open_study(path, symbol=symbol)


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        (STUDY_FILE, "STUDY"),
        (BATCHES, "BATCHES"),
        (COMPARISON, "COMPARISON"),
    ],
)
def test_kind_is_the_first_that_a_file_defines(text, symbol, path):
    path.write_text(text)
    assert open_study(path).symbol == symbol


@pytest.mark.parametrize("text", ["", "ABLATIONS = 3", "STUDY = None"])
def test_a_file_without_a_study_is_refused_with_the_kinds_there_are(text, path):
    path.write_text(text)
    with pytest.raises(ValueError, match=r"one\.py") as refused:
        open_study(path)
    assert [kind for kind in KINDS if kind not in str(refused.value)] == []
