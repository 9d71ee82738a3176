"""A training function of one's own: what it may answer, and whose study it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extrap.errors import StudyError
from extrap.reading.optuna import read_storage
from extrap.records import OWN, Cell, RunResult, StudySpec, TunedRange, Workload
from extrap.study_files import load_study, load_training
from extrap.tuning import adopt_training, tune
from extrap.tuning.answers import MOST_POINTS, read_answer, read_curve

SPEC = StudySpec(
    name="mine",
    question="?",
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=2)},
    seeds=(0,),
)
CELL = SPEC.grid_cells()[0]

FILE = """
from extrap import StudySpec, TunedRange
STUDY = StudySpec(name="mine", question="?", sizes={"width": (8, 16)},
                  tune={"lr": TunedRange(low=0.01, high=0.04, n=2)}, seeds=(0,))
FLOOR = 1.5

def depth(size):
    return size["width"] ** 0.5

def train(size, tuned, seed):
    return FLOOR + tuned["lr"] / depth(size)

TRAIN = train
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def answered(answer: object, known: Mapping[str, float] | None = None) -> RunResult:
    return read_answer(answer, CELL, wall_s=2.0, known=known or {})


def test_a_study_of_ones_own_has_no_recipe_and_no_workload() -> None:
    assert SPEC.workload == Workload(name=OWN)
    assert SPEC.conditions() == {"workload": OWN}


def test_a_number_is_the_loss_and_one_that_is_not_finite_a_diverged_run() -> None:
    assert answered(2).loss == 2.0
    assert answered(2).wall_s == 2.0
    for loss in (math.nan, math.inf):
        assert (answered(loss).status, answered(loss).loss) == ("diverged", None)


def test_a_mapping_brings_costs_and_a_curve_that_ends_in_the_loss() -> None:
    answer = {"loss": 1.5, "n_params": 1e6, "flops": 6e9, "curve": [[10, 3.0], [20, 1.6]]}
    result = answered(answer)
    assert (result.n_params, result.flops) == (1_000_000, 6e9)
    assert isinstance(result.n_params, int)
    assert result.curve == ((10, 3.0), (20, 1.5))


def test_what_the_size_tells_of_its_cost_fills_in_what_the_answer_leaves_out() -> None:
    known = {"width": 8.0, "n_params": 100.0, "n_tokens": 2000.0}
    result = answered({"loss": 1.0, "n_params": 7}, known)
    assert (result.n_params, result.n_tokens) == (7, 2000)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"los": 1.0}, "got 'los': did you mean 'loss'"),
        ({"flops": 1.0}, "got only 'flops'; add 'loss'"),
        ({"loss": "low"}, "as a number, nan for a diverged run, a mapping"),
        ({"loss": 1.0, "curve": 3}, "a curve is a list of pairs of step and loss, got 3"),
        ({"loss": 1.0, "curve": [1, 2]}, "pairs of step and loss"),
        (None, "as a number"),
        (True, "as a number"),
        ({"loss": True}, "as a number"),
    ],
)
def test_an_answer_of_another_kind_says_what_is_expected(answer: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        answered(answer)


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        ({"n_params": math.nan}, "n_params is a finite number above 0, .* 'nan'; leave it out"),
        ({"n_tokens": math.inf}, "n_tokens is a finite number above 0, .* 'inf'"),
        ({"n_params": -5}, "n_params is a finite number above 0, .* '-5'"),
        ({"epochs": True}, "epochs is a finite number above 0, .* 'True'"),
        ({"flops": "many"}, "flops is a finite number above 0, .* 'many'"),
        ({"diverged_step": "x"}, "diverged_step is a whole number of steps .* 'x'; leave it out"),
        ({"diverged_step": math.nan}, "diverged_step is a whole number"),
        ({"diverged_step": -1}, "diverged_step is a whole number"),
    ],
)
def test_an_odd_part_of_an_answer_is_named(part: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        answered({"loss": 1.0, **part})


def test_what_is_none_is_not_known() -> None:
    result = answered({"loss": 1.0, "n_params": None, "diverged_step": None})
    assert (result.n_params, result.diverged_step) == (0, None)  # as where they are left out


def test_an_answer_for_another_cell_is_refused() -> None:
    other = RunResult(cell=Cell.of({"width": 9}, {"lr": 1}, 0), status="complete", loss=1.0)
    with pytest.raises(ValueError, match="must answer for the cell it was given"):
        answered(other)


def test_a_curve_that_goes_back_begins_anew_there() -> None:
    points = [(1, 5.0), (2, 4.0), (3, 3.5), (2, 4.1), (3, 3.0)]
    assert read_curve(points, last=2.9) == ((1, 5.0), (2, 4.1), (3, 2.9))


def test_a_curve_of_a_diverged_run_keeps_what_was_finite() -> None:
    assert read_curve([(1, 5.0), (2, math.nan)], last=math.nan) == ((1, 5.0),)


def test_a_long_curve_is_thinned_and_keeps_its_last_point() -> None:
    curve = read_curve([(i, 1 + 1 / i) for i in range(1, 10_001)], last=1.0)
    assert MOST_POINTS / 2 < len(curve) <= MOST_POINTS
    assert curve[-1] == (10_000, 1.0)
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})


def test_curves_and_costs_of_ones_own_come_back_from_the_storage(url: str) -> None:
    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> dict[str, Any]:
        return {"loss": 1 + tuned["lr"], "n_params": size["width"] ** 2, "curve": [(5, 2), (9, 1)]}

    runs = tune(SPEC, url, train=train)
    assert list(runs.to_frame()["n_params"]) == [64, 64, 256, 256]
    curves = runs.curves()
    assert curves is not None
    assert list(curves[curves["run"] == 0]["loss"]) == [2.0, 1.01]


def test_an_error_names_the_run_and_its_cell_is_trained_at_the_next_start(url: str) -> None:
    def broken(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        if size["width"] == 16:
            raise ZeroDivisionError("mine")
        return 1.0

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        tune(SPEC, url, train=broken)
    assert caught.value.__notes__ == ["in the run width=16, lr=0.01, seed=0"]
    mended = broken

    def broken(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        return 2.0

    assert mended is not broken
    frame = tune(SPEC, url, train=broken).to_frame()  # in Python a function is known by its name
    assert list(frame["loss"]) == [1.0, 1.0, 2.0, 2.0]


def test_without_a_workload_our_own_training_says_what_is_missing(url: str) -> None:
    with pytest.raises(ValueError, match="'mine' names no workload and no training of its own"):
        tune(SPEC, url)


def test_the_path_of_the_size_is_told_to_the_function(url: str) -> None:
    spec = replace(SPEC, sizes={"depth": (2, 3)}, path={"width": "8 * depth", "flops": "width**2"})
    seen = []

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        seen.append(dict(size))
        return 1.0

    frame = tune(spec, url, train=train).to_frame()
    assert seen[0] == {"depth": 2, "width": 16, "flops": 256}
    assert list(frame["depth"]) == [2, 2, 3, 3]
    assert list(frame["flops"]) == [256, 256, 576, 576]
    with pytest.raises(StudyError, match=r"path.width: 8 \* depth in the storage, 9 \* depth now"):
        tune(replace(spec, path={**spec.path, "width": "9 * depth"}), url, train=train)


def study_of(tmp_path: Path, text: str = FILE) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def test_a_study_file_brings_its_function_and_what_it_rests_on(tmp_path: Path, url: str) -> None:
    own = load_training(study_of(tmp_path))
    assert own.train is own.baseline
    runs = tune(SPEC, url, train=own.train)
    assert runs.to_frame()["loss"].min() == pytest.approx(1.5 + 0.01 / 4)
    source = own.train.source
    assert set(source) == {"train", "depth", "FLOOR"}
    assert source["FLOOR"] == "FLOOR = 1.5"


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("FLOOR = 1.5", "FLOOR = 1.4", "FLOOR: FLOOR = 1.5 in the storage, FLOOR = 1.4 now"),
        ("** 0.5", "** 0.6", "data.source.depth: "),
        ('tuned["lr"] /', 'tuned["lr"] *', "data.source.train: "),
    ],
)
def test_a_changed_function_is_refused_until_it_is_accepted(
    tmp_path: Path, url: str, before: str, after: str, named: str
) -> None:
    tune(SPEC, url, train=load_training(study_of(tmp_path)).train)
    changed = load_training(study_of(tmp_path, FILE.replace(before, after))).train
    with pytest.raises(StudyError, match=named) as caught:
        tune(SPEC, url, train=changed)
    assert "--accept-training" in str(caught.value)
    assert len(adopt_training(SPEC, url, changed)) == 1
    assert adopt_training(SPEC, url, changed) == ()
    assert len(tune(SPEC, url, train=changed)) == 4


def test_comments_and_layout_are_no_change(tmp_path: Path, url: str) -> None:
    tune(SPEC, url, train=load_training(study_of(tmp_path)).train)
    text = FILE.replace("    return FLOOR", '    """Trains."""\n\n    # so\n    return  FLOOR')
    text = text.replace("seeds=(0,)", "seeds=(0, 1)")
    path = study_of(tmp_path, "import math\n" + text)
    assert len(tune(load_study(path), url, train=load_training(path).train)) == 8


def test_what_differs_beside_the_training_is_not_accepted(tmp_path: Path, url: str) -> None:
    train = load_training(study_of(tmp_path)).train
    tune(SPEC, url, train=train)
    other = replace(SPEC, tune={"lr": TunedRange(low=0.01, high=0.04, n=3)})
    assert adopt_training(other, url, train) == ()
    with pytest.raises(StudyError, match=r"tune\.lr\.n: 2 in the storage, 3 now") as caught:
        tune(other, url, train=train)
    assert "--accept-training" not in str(caught.value)


def test_a_storage_that_is_not_there_yet_needs_no_accepting(tmp_path: Path, url: str) -> None:
    assert adopt_training(SPEC, url, load_training(study_of(tmp_path)).train) == ()
    assert not list(tmp_path.glob("*.db"))


def test_a_function_from_another_file_is_followed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere_of_mine.py").write_text(
        "K = 2\ndef fit(size, tuned, seed):\n    return K\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = "from elsewhere_of_mine import fit\n" + FILE.replace("TRAIN = train", "TRAIN = fit")
    assert set(load_training(study_of(tmp_path, text)).train.source) == {"fit", "K"}


USES_K = "\ndef fit(size, tuned, seed):\n    return K\nTRAIN = fit"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def b(a, t, s, k):\n    return k\nTRAIN = functools.partial(b, k=1)", "k=2"),
        ("def b(a, t, s, k):\n    return k\nfit = functools.partial(b, k=1)\nTRAIN = fit", "k=2"),
        ("TRAIN = functools.partial(elsewhere_too.fit, k=1)", "k=2"),
        ("class T:\n    def __init__(self, **k): pass\n    __call__ = max\nTRAIN = T(k=1)", "k=2"),
        ("def m(k):\n    def t(a, b, c): return k\n    return t\nTRAIN = m(k=1)", "k=2"),
        (f"if FLAG := True:\n    K = dict(k=1)\nelse:\n    K = 3{USES_K}", "k=2"),
        (f"K = 0\nfor i in range(3):\n    K += dict(k=1)['k']{USES_K}", "k=2"),
        (f"with contextlib.nullcontext(dict(k=1)) as K:\n    pass{USES_K}", "k=2"),
        (f"try:\n    K = dict(k=1)\nfinally:\n    pass{USES_K}", "k=2"),
        (f"K = {{}}\nK['x'] = dict(k=1){USES_K}", "k=2"),
    ],
)
def test_all_that_makes_the_function_what_it_is_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    (tmp_path / "elsewhere_too.py").write_text("def fit(size, tuned, seed, k):\n    return k\n")
    monkeypatch.syspath_prepend(tmp_path)
    start = "import contextlib, functools, elsewhere_too\nI = [fit for fit in ()]\n"

    def source(text: str) -> dict[str, str]:
        return dict(load_training(study_of(tmp_path, start + text)).train.source)

    begun = source(before)
    assert begun == source(f"# so\n{before}\nOTHER = 3")
    assert begun != source(before.replace("k=1", after))
    assert not {"I", "OTHER"} & set(begun)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.replace("TRAIN = train", ""), "its function train is not named so: write TRAIN"),
        (FILE.replace("TRAIN = train", "TRAIN = 3"), "TRAIN is a function .* got int"),
        (FILE + "COMMAND = ['a', '{lr}', '{width}']", "defines TRAIN and COMMAND; leave one out"),
    ],
)
def test_a_study_file_says_in_one_way_how_it_is_trained(
    tmp_path: Path, text: str, message: str
) -> None:
    load = load_study if "TRAIN" not in text else load_training
    with pytest.raises(ValueError, match=message):
        load(study_of(tmp_path, text))


def test_a_list_is_a_command(tmp_path: Path) -> None:
    text = FILE.replace("TRAIN = train", "COMMAND = ['a', '{lr}', '{width}']")
    assert load_training(study_of(tmp_path, text)).train.args == ("a", "{lr}", "{width}")


def test_runs_of_ones_own_are_read_like_any_others(tmp_path: Path, url: str) -> None:
    tune(SPEC, url, train=load_training(study_of(tmp_path)).train)
    assert set(read_storage(url, study="mine").runs["workload"]) == {OWN}
