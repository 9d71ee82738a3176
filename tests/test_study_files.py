from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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

FLAT = StudySpec(
    name="flat",
    question="?",
    workload=Workload(name="bytes-mlp"),
    sizes={"width": (4, 8, 16)},
    tune={"lr": TunedRange(low=0.1, high=1, n=4)},
)
FALLING = replace(FLAT, name="flat-falling")


def test_missing_study_file_names_its_neighbours() -> None:
    with pytest.raises(ValueError, match=r"no study file studies/mets.py.*metz\.py"):
        load_study("studies/mets.py")


BASELINE_FILE = """
from dataclasses import replace
from extrap import StudySpec, TunedRange, Workload
STUDY = StudySpec(name="one", question="?", workload=Workload(name="bytes-mlp"),
    sizes={"width": (4, 8, 16)}, tune={"lr": TunedRange(low=0.1, high=1, n=3)})
BASELINE = """


def test_file_may_define_a_baseline_of_its_study(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(BASELINE_FILE + "replace(STUDY, name='two', seeds=(5,))")
    assert load_study(path).name == "one"
    baseline = load_baseline(path)
    assert baseline is not None
    assert (baseline.name, baseline.seeds) == ("two", (5,))
    path.write_text(BASELINE_FILE + "None")
    assert load_baseline(path) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "is a StudySpec, got int"),
        ("STUDY", "a name of its own"),
        ("replace(STUDY, name='two', tune={'x': STUDY.tune['lr']})", r"tuned columns .*'lr'"),
    ],
)
def test_impossible_baseline_of_a_file_says_what_is_wrong(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "one.py"
    path.write_text(BASELINE_FILE + text)
    with pytest.raises(ValueError, match=message):
        load_baseline(path)


def test_overrides_reach_the_baseline_but_for_what_is_the_studys_own() -> None:
    assignments = ["recipe.steps=7", "name=new", "targets=", "tune.lr.n=3", "seeds=4"]
    both = override_both(FLAT, FALLING, assignments)
    assert [spec.name for spec in both] == ["new", "flat-falling"]
    for spec in both:
        assert (spec.recipe.steps, spec.tune["lr"].n, spec.seeds) == (7, 3, (4,))
    assert override_both(FLAT, None, assignments)[1] is None


def test_file_may_define_dataclasses(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from extrap.records import StudySpec, TunedRange, Workload\n"
        "@dataclass(frozen=True)\n"
        "class Choice:\n"
        "    width: int = 8\n"
        "STUDY = StudySpec(name='mine', question='?', workload=Workload(name='bytes-mlp'),\n"
        "    sizes={'width': (Choice().width, 16)},\n"
        "    tune={'lr': TunedRange(low=0.001, high=0.1, n=3)})\n"
    )
    assert load_study(path).sizes == {"width": (8, 16)}


KNOB_FILE = """
from extrap.records import KnobStudy, StudySpec, TunedRange, Workload
STUDY = StudySpec(name="k", question="?", workload=Workload(name="bytes-mlp"),
    sizes={"width": (8, 16)}, tune={"lr": TunedRange(low=0.1, high=0.2, n=2)})
"""


def test_knobs_of_a_file_are_its_own_or_all_of_its_study(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(KNOB_FILE)
    assert load_knobs(path) is None
    assert knobs_of(path) == KnobStudy(name="k-knobs", study=load_study(path))
    path.write_text(KNOB_FILE + "KNOBS = KnobStudy(name='k', study=STUDY, knobs=('warmup',))\n")
    found = knobs_of(path, assignments=["recipe.warmup=0.2", "seeds=5,6"])
    assert (found.name, found.knobs, found.study.seeds) == ("k", ("warmup",), (5, 6))
    assert found.moves()[0].base == 0.2


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("KNOBS = ('warmup',)", "is a KnobStudy, got tuple"),
        (
            "from dataclasses import replace\n"
            "KNOBS = KnobStudy(name='k', study=replace(STUDY, name='other'))",
            "got another study, 'other'",
        ),
    ],
)
def test_knobs_that_are_none_of_the_study_are_refused(
    tmp_path: Path, ending: str, message: str
) -> None:
    path = tmp_path / "k.py"
    path.write_text(f"{KNOB_FILE}{ending}\n")
    with pytest.raises(ValueError, match=message):
        load_knobs(path)


LEVERS_FILE = """
from dataclasses import replace
from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import Lever, LeverStudy
ARM = StudySpec(name="plain", question="?", workload=Workload(name="teacher"),
    recipe=Recipe(steps=100, batch_size=8), sizes={"width": (4,)},
    tune={"lr": TunedRange(low=0.1, high=1, n=3)})
MORE = replace(ARM, name="more", recipe=Recipe(steps=50, batch_size=16))
LEVERS = """
ONE_LEVER = """LeverStudy(name="l", question="?", levers=(
    Lever(name="double", group="g", question="?", plain=ARM, treated=MORE, reference=replace(
        ARM, name="third")),))"""


def test_file_may_define_levers_and_no_study(tmp_path: Path) -> None:
    path = tmp_path / "levers.py"
    path.write_text(LEVERS_FILE + ONE_LEVER)
    levers = load_levers(path)
    assert levers is not None
    assert [spec.name for spec in levers.arms()] == ["plain", "more", "third"]
    own = levers_of(path, assignments=["sizes.width=9", "judge_seeds=7, 8", "level=0.9"])
    assert {tuple(spec.sizes["width"]) for spec in own.arms()} == {(9,)}
    assert (own.judge_seeds, own.level) == ((7, 8), 0.9)
    with pytest.raises(ValueError, match="defines no STUDY"):
        load_study(path)
    path.write_text(LEVERS_FILE + "3")
    with pytest.raises(ValueError, match="is a LeverStudy, got int"):
        load_levers(path)
    path.write_text(LEVERS_FILE + "None")
    with pytest.raises(ValueError, match="defines no LEVERS"):
        levers_of(path)


BATCHES_FILE = """
from extrap.records import BatchStudy, BatchTask, Recipe, StudySpec, TunedRange, Workload
BATCHES = """
ONE_TASK = """BatchStudy(name="b", question="?", tasks=(BatchTask(
    study=StudySpec(name="t", question="?", workload=Workload(name="teacher"),
        recipe=Recipe(schedule="constant", warmup=0.0), sizes={"width": (4,)},
        tune={"lr": TunedRange(low=0.1, high=1, n=3)}),
    steps={2: 100, 8: 50, 32: 20}, targets=(0.5,)),))"""


def test_file_may_define_batches_and_no_study(tmp_path: Path) -> None:
    path = tmp_path / "batches.py"
    path.write_text(BATCHES_FILE + ONE_TASK)
    batches = load_batches(path)
    assert batches is not None
    assert batches.tasks[0].batches == (2, 8, 32)
    own = batches_of(path, assignments=["tasks.0.steps.8=60", "tasks.0.study.seeds=7"])
    assert (own.tasks[0].steps[8], own.tasks[0].study.seeds) == (60, (7,))
    with pytest.raises(ValueError, match="defines no STUDY"):
        load_study(path)
    path.write_text(BATCHES_FILE + "3")
    with pytest.raises(ValueError, match="is a BatchStudy, got int"):
        load_batches(path)
    path.write_text(BATCHES_FILE + "None")
    with pytest.raises(ValueError, match="defines no BATCHES"):
        batches_of(path)


COMPARISON_FILE = """
from dataclasses import replace
from extrap import StudySpec, TunedRange, Workload
from extrap.records import ComparisonStudy, RecipeGroup
NONE = StudySpec(name="none", question="?", workload=Workload(name="digits"),
    sizes={"width": (8, 16, 32)}, tune={"lr": TunedRange(low=0.1, high=0.2, n=2)})
NORM = replace(NONE, name="norm", workload=Workload(name="digits", options={"norm": "batch"}))
COMPARISON = """
ONE_GROUP = """ComparisonStudy(name="c", question="?", groups=(RecipeGroup(name="g",
    question="?", arms={"none": NONE, "norm": NORM}, target={"width": 64}),))
"""


def test_file_may_define_a_comparison_and_no_study(tmp_path: Path) -> None:
    path = tmp_path / "comparison.py"
    path.write_text(COMPARISON_FILE + ONE_GROUP)
    comparison = load_comparison(path)
    assert comparison is not None
    assert [spec.name for spec in comparison.arms()] == ["none", "norm"]
    assignments = ["sizes.width=4,8,16", "price=2", "groups.0.target.width=48", "name=d"]
    own = comparison_of(path, assignments=assignments)
    assert [spec.sizes["width"] for spec in own.arms()] == [(4, 8, 16)] * 2
    assert (own.name, own.price, own.groups[0].target) == ("d", 2, {"width": 48})
    path.write_text(COMPARISON_FILE + "3")
    with pytest.raises(ValueError, match="is a ComparisonStudy, got int"):
        load_comparison(path)
    path.write_text(COMPARISON_FILE + "None")
    with pytest.raises(ValueError, match="defines no COMPARISON"):
        comparison_of(path)


def test_kind_is_the_first_that_a_file_defines(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    for text, kind in (
        (KNOB_FILE, "STUDY"),
        (KNOB_FILE + "KNOBS = KnobStudy(name='k', study=STUDY)\n", "KNOBS"),
        (KNOB_FILE + "KNOBS = None\n", "STUDY"),
        (LEVERS_FILE + ONE_LEVER, "LEVERS"),
        (BATCHES_FILE + ONE_TASK, "BATCHES"),
        (COMPARISON_FILE + ONE_GROUP, "COMPARISON"),
        ("", "STUDY"),
    ):
        path.write_text(text)
        assert kind_of(path) == kind
