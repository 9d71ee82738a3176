from dataclasses import replace

import pytest

from extrap import StudySpec, TunedRange, Workload
from extrap.records import KnobStudy
from extrap.study_files import (
    batches_of,
    comparison_of,
    kind_of,
    knobs_of,
    levers_of,
    load_baseline,
    load_batches,
    load_comparison,
    load_knobs,
    load_levers,
    load_study,
    override_both,
)
from tests.test_batch_sweeps import FILE as BATCHES
from tests.test_study_kinds import COMPARISON, LEVERS

FLAT = StudySpec(
    name="flat",
    question="?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (4, 8, 16)},
    tune={"lr": TunedRange(low=0.1, high=1, n=4)},
)
FALLING = replace(FLAT, name="flat-falling")


def test_missing_study_file_names_its_neighbours():
    with pytest.raises(ValueError, match=r"mets\.py.*metz\.py"):
        load_study("studies/mets.py")


BASELINE_FILE = """
from dataclasses import replace
from extrap import StudySpec, TunedRange, Workload
STUDY = StudySpec(name="one", question="?", workload=Workload(name="bytes-mlp"),
    sizes={"width": (4, 8, 16)}, tune={"lr": TunedRange(low=0.1, high=1, n=3)})
TWO = replace(STUDY, name="two", tune={"x": STUDY.tune["lr"]})
BASELINE = """


def test_file_may_define_a_baseline_of_its_study(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(BASELINE_FILE + "replace(STUDY, name='two', seeds=(5,))")
    assert load_study(path).name == "one"
    baseline = load_baseline(path)
    assert baseline is not None
    assert (baseline.name, baseline.seeds) == ("two", (5,))
    path.write_text(BASELINE_FILE + "None")
    assert load_baseline(path) is None


def test_overrides_reach_the_baseline_but_for_what_is_the_studys_own():
    assignments = ["recipe.steps=7", "name=new", "targets=", "tune.lr.n=3", "seeds=4"]
    both = override_both(FLAT, FALLING, assignments)
    assert [spec.name for spec in both] == ["new", "flat-falling"]
    for spec in both:
        assert (spec.recipe.steps, spec.tune["lr"].n, spec.seeds) == (7, 3, (4,))
    assert override_both(FLAT, None, assignments)[1] is None


KNOB_FILE = """
from extrap.records import KnobStudy, StudySpec, TunedRange, Workload
STUDY = StudySpec(name="k", question="?", workload=Workload(name="bytes-mlp"),
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=0.1, high=0.2, n=2)})
"""
OTHER_KNOBS = """
from dataclasses import replace
OTHER = KnobStudy(name="k", study=replace(STUDY, name="other"))
"""


def test_file_may_define_dataclasses(tmp_path):
    path = tmp_path / "mine.py"
    start = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    choice = "@dataclass(frozen=True)\nclass Choice:\n    width: int = 8\n"
    path.write_text(start + choice + KNOB_FILE.replace("(8, 16)", "(Choice().width, 16)"))
    assert load_study(path).sizes == {"width": (8, 16)}


def test_knobs_of_a_file_are_its_own_or_all_of_its_study(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(KNOB_FILE)
    assert load_knobs(path) is None
    assert knobs_of(path) == KnobStudy(name="k-knobs", study=load_study(path))
    path.write_text(KNOB_FILE + "KNOBS = KnobStudy(name='k', study=STUDY, knobs=('warmup',))\n")
    found = knobs_of(path, assignments=["recipe.warmup=0.2", "seeds=5,6"])
    assert (found.name, found.knobs, found.study.seeds) == ("k", ("warmup",), (5, 6))
    assert found.moves()[0].base == 0.2


@pytest.mark.parametrize(
    ("load", "text", "message"),
    [
        (load_baseline, f"{BASELINE_FILE}3", "StudySpec, got int"),
        (load_baseline, f"{BASELINE_FILE}STUDY", "a name other"),
        (load_baseline, f"{BASELINE_FILE}TWO", r"tuned columns .*'lr'"),
        (load_knobs, f"{KNOB_FILE}KNOBS = ('warmup',)", "KnobStudy, got tuple"),
        (load_knobs, f"{KNOB_FILE}{OTHER_KNOBS}KNOBS = OTHER", "another study, 'other'"),
    ],
)
def test_what_does_not_go_with_the_study_of_a_file_is_refused(load, text, message, tmp_path):
    path = tmp_path / "one.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_file_may_define_levers_batches_or_a_comparison(tmp_path):
    path = tmp_path / "other.py"
    path.write_text(LEVERS)
    assert [spec.name for spec in load_levers(path).arms()] == ["falls", "grows", "ghost"]
    own = levers_of(path, assignments=["sizes.width=9", "judge_seeds=7, 8", "level=0.9"])
    assert {tuple(spec.sizes["width"]) for spec in own.arms()} == {(9,)}
    assert (own.judge_seeds, own.level) == ((7, 8), 0.9)
    path.write_text(BATCHES)
    assert load_batches(path).tasks[0].batches == (4, 16, 64)
    own = batches_of(path, assignments=["tasks.0.steps.16=60", "tasks.0.study.seeds=7"])
    assert (own.tasks[0].steps[16], own.tasks[0].study.seeds) == (60, (7,))
    path.write_text(COMPARISON)
    assert [spec.name for spec in load_comparison(path).arms()] == ["none", "norm"]
    assignments = ["sizes.width=4,8,16", "price=2", "groups.0.target.width=48", "name=d"]
    own = comparison_of(path, assignments=assignments)
    assert [spec.sizes["width"] for spec in own.arms()] == [(4, 8, 16)] * 2
    assert (own.name, own.price, own.groups[0].target) == ("d", 2, {"width": 48})


@pytest.mark.parametrize(
    ("kind", "load", "of", "record"),
    [
        ("LEVERS", load_levers, levers_of, "LeverStudy"),
        ("BATCHES", load_batches, batches_of, "BatchStudy"),
        ("COMPARISON", load_comparison, comparison_of, "ComparisonStudy"),
    ],
)
def test_file_with_another_kind_of_study_is_refused(kind, load, of, record, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(f"{kind} = 3")
    with pytest.raises(ValueError, match=f"{record}, got int"):
        load(path)
    with pytest.raises(ValueError, match="no STUDY"):
        load_study(path)
    path.write_text(f"{kind} = None")
    with pytest.raises(ValueError, match=f"no {kind}"):
        of(path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (KNOB_FILE, "STUDY"),
        (KNOB_FILE + "KNOBS = KnobStudy(name='k', study=STUDY)", "KNOBS"),
        (KNOB_FILE + "KNOBS = None", "STUDY"),
        (LEVERS, "LEVERS"),
        (BATCHES, "BATCHES"),
        (COMPARISON, "COMPARISON"),
        ("", "STUDY"),
    ],
)
def test_kind_is_the_first_that_a_file_defines(text, kind, tmp_path):
    path = tmp_path / "k.py"
    path.write_text(text)
    assert kind_of(path) == kind
