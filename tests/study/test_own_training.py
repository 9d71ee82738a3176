"""A training function of one's own: what it may answer, and whose study it is."""

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from extrap.analyses.sweep.study import ForecastKind
from extrap.cli import main
from extrap.errors import StudyError
from extrap.reading.optuna import find_study
from extrap.records import OWN, Cell, TunedRange, Workload
from extrap.records.study import RunResult
from extrap.study import open_study, run, tune
from extrap.study.lock import lock_of
from extrap.study.status import read_status
from extrap.study.trials import adopt_training
from extrap.study_folders import enter
from extrap.training.own.answers import MOST_POINTS, read_answer, read_curve

from .trials import rates, spec, trials_of

SPEC = spec("mine")
CELL = SPEC.grid_cells()[0]

BEGINNING = """
from extrap import StudySpec, TunedRange
STUDY = StudySpec(name="mine", question="?", sizes={"width": (8, 16)},
                  tune={"lr": TunedRange(low=0.01, high=0.04, n=2)}, seeds=(0,), growth=0)
"""
FILE = f"""{BEGINNING}
FLOOR = 1.5

def depth(size):
    return size["width"] ** 0.5

def train(size, tuned, seed):
    return FLOOR + tuned["lr"] / depth(size)

TRAIN = train
"""
SAMPLER = """
from dataclasses import replace
from optuna.samplers import RandomSampler

class Broken(RandomSampler):
    resumes = True

    def sample_independent(self, study, trial, name, distribution):
        raise KeyError("lost")

STUDY = replace(STUDY, sampler=Broken(seed=0))
"""
RATES = rates(2**-8, 2**-4, 5)
COMMAND = "COMMAND = ['a', '{lr}', '{width}']"


def excess_curve(size, tuned, seed):
    """Best at 2^-6."""
    noise = np.random.default_rng([seed, size["width"]]).normal(0, 0.002)
    return (1 + size["width"] ** -0.5) * np.exp(0.03 * np.log2(64 * tuned["lr"]) ** 2 + noise)


def answered(answer, size_values=None):
    return read_answer(answer, CELL, wall_s=2.0, size_values=size_values or {})


def test_stored_runs_that_the_study_does_not_name_any_more_are_announced(tmp_path):
    lines, places = [], {"storage": f"sqlite:///{tmp_path / 'mine.db'}", "reports": tmp_path}
    spec = replace(SPEC, sizes={"width": (8, 16, 32, 64)}, tune=RATES, seeds=(0, 1))
    run(ForecastKind(spec, excess_curve), **places)
    fewer = replace(spec, sizes={"width": (8, 16, 32)}, seeds=(0,))
    run(ForecastKind(fewer, excess_curve), say=lines.append, **places)
    n = 40 - 15
    assert any(f"uses {n} stored runs" in line for line in lines)
    run(ForecastKind(spec, excess_curve), say=(again := []).append, **places)
    assert not any("stored runs" in line for line in again)


def test_an_error_of_a_sampler_is_told_as_its_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(f"{FILE}{SAMPLER}")
    assert main(["study", "run", "mine.py", "--quiet"]) == 3
    said = capsys.readouterr().err
    assert "KeyError: 'lost'; " in said
    assert "sampler, Broken" in said
    assert "unexpected" not in said


def test_an_answer_is_a_loss_or_a_mapping_with_costs_and_a_curve():
    assert (answered(2).loss, answered(2).wall_s) == (2.0, 2.0)
    for loss in (math.nan, math.inf, 10**400):
        assert (answered(loss).status, answered(loss).loss) == ("diverged", None)
    answer = {"loss": 1.5, "n_params": 1e6, "flops": None, "curve": [[10, 3.0], [20, 1.6]]}
    result = answered(answer, {"width": 8.0, "n_params": 100.0, "n_tokens": 2000.0})
    assert (result.n_params, result.n_tokens, result.flops) == (1_000_000, 2000, 0)
    assert isinstance(result.n_params, int)
    assert result.curve == ((10, 3.0), (20, 1.5))  # it ends in the loss


OTHERS = RunResult(cell=Cell.of({"width": 8}, {"lr": 9}, 0), status="complete", loss=1.0)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (-1.0, "got -1"),
        (OTHERS, "the cell it was given"),
        ({"los": 1.0}, "got 'los'"),
        ({"flops": 1.0}, "only 'flops'; add 'loss'"),
        *((answer, "as a number") for answer in ("low", {"loss": "low"}, None, True)),
        *(({"loss": 1.0, "curve": curve}, "pairs") for curve in (3, [1, 2])),
        ({"loss": 1.0, "n_params": math.nan}, "n_params .* 'nan'"),
        ({"loss": 1.0, "n_tokens": math.inf}, "n_tokens .* 'inf'"),
        ({"loss": 1.0, "n_params": -5}, "n_params .* '-5'"),
        ({"loss": 1.0, "epochs": True}, "epochs .* 'True'"),
        ({"loss": 1.0, "flops": "many"}, "flops .* 'many'"),
        *(({"loss": 1.0, "diverged_step": n}, "diverged_step") for n in ("x", math.nan, -1)),
    ],
)
def test_an_answer_that_is_none_names_what_is_odd(answer, named):
    with pytest.raises((TypeError, ValueError), match=named):
        answered(answer)


def test_what_is_recorded_is_what_is_known_of_a_run(url):
    given = []

    def train(size, tuned, seed):
        given.append((type(size["width"]), type(tuned["batch"]), type(tuned["lr"])))
        answer = {"loss": 1 + tuned["lr"], "curve": [(5, 2), (9, 1)]}
        return {**answer, "n_params": size["width"] ** 2, **({"cost": 3} if seed else {})}

    tuned = {**SPEC.tune, "batch": TunedRange(low=4, high=16, n=2)}
    named = replace(SPEC, workload=Workload(name="bytes-mlp"), seeds=(0, 1), tune=tuned)
    runs = tune(named, url, train=train)
    frame, curves = runs.to_frame(), runs.curves()
    assert set(given) == {(int, int, float)}
    assert list(frame)[:6] == ["width", "lr", "batch", "seed", "loss", "status"]
    assert set(frame) - set(list(frame)[:6]) == {
        *("stage", "started_at", "initial_loss", "wall_s", "diverged_step", "cost", "workload"),
        "n_params",
    }
    assert (frame["wall_s"] > 0).all()
    assert set(frame["workload"]) == {OWN}
    assert list(frame["cost"].dropna()) == [3] * 8
    assert list(frame["n_params"].unique()) == [64, 256]
    assert list(curves[curves["run"] == 0]["loss"]) == [2.0, 1.01]


def test_a_cell_that_failed_is_trained_at_the_next_start(url):
    def broken(size, tuned, seed):
        return 1.0 if size["width"] == 8 else 1 / 0

    def mended(size, tuned, seed):
        return 2.0

    mended.__qualname__ = broken.__qualname__  # in Python a function is known by its name
    with pytest.raises(ValueError, match="'mine' names neither"):
        tune(SPEC, url)  # our own training needs one
    with pytest.raises(StudyError, match=r"seed=0 failed 3 times") as caught:
        tune(SPEC, url, train=broken)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert list(tune(SPEC, url, train=mended).to_frame()["loss"]) == [1.0, 1.0, 2.0, 2.0]


def test_a_curve_goes_forward_and_is_finite_and_short():
    points = [(1, 5.0), (2, 4.0), (3, 3.5), (2, 4.1), (3, 3.0)]
    assert read_curve(points, last=2.9) == ((1, 5.0), (2, 4.1), (3, 2.9))  # begun anew
    assert read_curve([(1, 5.0), (2, math.nan)], last=math.nan) == ((1, 5.0),)
    curve = read_curve([(i, 1 + 1 / i) for i in range(1, 10_001)], last=1.0)
    assert MOST_POINTS / 2 < len(curve) <= MOST_POINTS
    assert curve[-1] == (10_000, 1.0)
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})


def test_a_run_that_ends_in_a_huge_number_diverged(url):
    def train(size, tuned, seed):
        loss = 4.89e298 if size["width"] == 16 and tuned["lr"] > 0.03 else 1 + tuned["lr"]
        return {"loss": np.float64(loss), "curve": [(1, 2.0), (2, loss)]}

    runs = tune(SPEC, url, train=train)
    assert list(runs.to_frame()["status"]) == ["complete"] * 3 + ["diverged"]
    assert "seed=0 (4.89e+298)" in runs.notes[-1]
    assert [size.diverged for size in read_status(url).sizes] == [0, 1]
    largest = trials_of(url)[-1]  # squares of what samplers see are floats
    assert (largest.value, largest.user_attrs["result"]["loss"]) == (math.inf, 4.89e298)


def test_the_path_of_the_size_is_told_to_the_function(url):
    spec = replace(SPEC, sizes={"depth": (2, 3)}, path={"width": "8 * depth", "flops": "width**2"})
    seen = []

    def train(size, tuned, seed):
        seen.append(dict(size))
        return 1.0

    frame = tune(spec, url, train=train).to_frame()
    assert seen[0] == {"depth": 2, "width": 16, "flops": 256}
    assert list(frame["depth"]) == [2, 2, 3, 3]
    assert list(frame["flops"]) == [256, 256, 576, 576]
    with pytest.raises(StudyError, match=r"path.width: 8 \* depth"):
        tune(replace(spec, path={**spec.path, "width": "9 * depth"}), url, train=train)


def study_of(tmp_path, text=FILE):
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def training_of(tmp_path, text=FILE):
    """How the study of a file is trained."""
    own = open_study(study_of(tmp_path, text))
    return own.training_of(own.study)


@pytest.mark.parametrize(
    "ending", ["functools.partial(elsewhere.fit, k=1)", "elsewhere.fit", "elsewhere.T()", "float"]
)
def test_the_file_that_defines_the_function_counts_wherever_it_is(tmp_path, monkeypatch, ending):
    place = tmp_path / "elsewhere.py"
    place.write_text(text := "class T:\n    __call__ = max\ndef fit(*a, k=0): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    start = f"{BEGINNING}import functools, elsewhere, optuna\nTRAIN = {ending}"
    (home := tmp_path / "home").mkdir()
    begun = training_of(home, start).source
    assert training_of(home, start).source == begun
    place.write_text(f"{text}# more\n")
    now = training_of(home, start).source
    changed = [] if ending == "float" else ["elsewhere"]
    assert list(now) == list(begun) == ["mine.py", *changed]
    assert [name for name in begun if begun[name] != now[name]] == changed


BESIDE = {
    "mine.py": f"{BEGINNING}from fit import train\nTRAIN = train\n",
    "fit.py": "from parts import floor\nfrom unused import X\nfrom extrap import Runs\n"
    "def train(size, tuned, seed):\n    import late\n    return floor.FLOOR + late.K\n",
    "late.py": "# -*- coding: latin-1 -*-\nK = 1.0\n",
    "parts/__init__.py": "",
    "parts/floor.py": "from .deep import FLOOR\n",
    "parts/deep.py": "FLOOR = 2.0\n",
    "unused.py": "X = 1\n",
    "other.py": "X = 1\n",
}


def folder_of(place, **texts):
    """A study file with modules beside it."""
    for name, text in (BESIDE | texts).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    own = open_study(place / "mine.py")
    return own.training_of(own.study)


def losses(train):
    return train({"width": 8}, {"lr": 0.01}, 0)


def test_studies_import_the_modules_beside_them_though_they_have_one_name(tmp_path, url):
    sys.modules["late"] = foreign = ModuleType("late")
    foreign.__file__ = "/elsewhere/late.py"
    one = folder_of(tmp_path / "one")
    two = folder_of(tmp_path / "two", **{"late.py": "K = 10.0\n", "parts/deep.py": "FLOOR = 3.0"})
    assert [losses(train) for train in (one, two, one, two)] == [3.0, 13.0, 3.0, 13.0]
    assert sys.path.count(str(tmp_path / "two")) == 1
    assert str(tmp_path / "one") not in sys.path
    again = folder_of(tmp_path / "two", **{"late.py": "K = 20.0\n"})  # at once: no stale bytecode
    assert losses(again) == 22.0
    assert not list(tmp_path.rglob("*.pyc"))
    assert len(tune(SPEC, url, train=again)) == 4
    enter(tmp_path)
    assert sys.modules.pop("late") is foreign


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, [name]) for name in ("late.py", "parts/deep.py", "fit.py")] + [("other.py", [])],
)
def test_modules_that_the_function_imports_are_part_of_it(tmp_path, name, changes):
    before = folder_of(tmp_path)
    after = folder_of(tmp_path, **{name: f"{BESIDE[name]}# one"})
    assert set(before.beside) == set(BESIDE) - {"mine.py", "other.py"}
    assert set(before.source) == {"mine.py", *before.beside}
    assert [key for key in before.source if before.source[key] != after.source[key]] == changes


@pytest.mark.parametrize("text", [FILE, f"{BEGINNING}{COMMAND}", None])
def test_a_dry_run_imports_the_study_once_and_no_torch(text, tmp_path):
    text = text or f"{BEGINNING.rstrip()[:-1]}, workload=Workload(name='bytes-mlp'))"
    text = text.replace("import StudySpec", "import Workload, StudySpec")
    (tmp_path / "mine.py").write_text(f"open('imported', 'a').write('once')\n{text}")
    call = (
        "import sys; from extrap.cli import main; "
        "code = main(['study', 'run', 'mine.py', '--dry-run']); "
        "sys.exit(code or ('torch' in sys.modules and 'torch'))"
    )
    subprocess.run([sys.executable, "-c", call], check=True, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imported", "mine.py"]
    assert (tmp_path / "imported").read_text() == "once"


def test_a_function_of_ones_own_needs_no_torch(url, tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    code = "import sys\nfrom extrap.study import open_study, tune\nown = open_study('mine.py')\n"
    code += f"tune(own.study, {url!r}, train=own.training_of(own.study))\n"
    code += "print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_a_study_file_brings_its_function_and_what_it_rests_on(tmp_path, url):
    train = training_of(tmp_path)
    runs = tune(SPEC, url, train=train)
    assert set(find_study(url, study="mine").table["workload"]) == {OWN}
    assert runs.to_frame()["loss"].min() == pytest.approx(1.5 + 0.01 / 4)
    assert set(train.source) == {"mine.py"}
    longer = FILE.replace("seeds=(", "seeds=(11, 12, ")  # further seeds are no other training
    assert longer != FILE
    assert training_of(tmp_path, longer).source == train.source
    assert training_of(tmp_path, f"{longer}\n# more").source != train.source


def test_a_changed_function_is_refused_until_it_is_accepted(tmp_path, url):
    before = training_of(tmp_path)
    assert adopt_training(SPEC, url, before) == ()
    assert not list(tmp_path.glob("*.db"))  # a storage that is not there yet is not made
    tune(SPEC, url, train=before)
    other = replace(SPEC, path={"depth": "width / 8"})
    with pytest.raises(StudyError, match=r"path\.depth: nothing in ") as caught:
        tune(other, url, train=before)
    assert "--accept-training" not in str(caught.value)  # that is not the training
    changed = training_of(tmp_path, FILE.replace("FLOOR = 1.5", "FLOOR = 1.5  # here"))
    with pytest.raises(StudyError, match=r"mine\.py: .*--accept-"):
        tune(SPEC, url, train=changed)
    held = lock_of(url, [SPEC.name])
    held.acquire()
    with pytest.raises(StudyError, match="only one process at a time"):
        adopt_training(SPEC, url, changed)  # what the other process trains is not this
    held.release()
    assert len(adopt_training(SPEC, url, changed)) == 1
    assert adopt_training(SPEC, url, changed) == ()
    assert len(tune(SPEC, url, train=changed)) == 4


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"fit.py": "import nonesuch"}, "No module named 'nonesuch' (fit.py, line 1); correct it"),
        ({"fit.py": "1 / 0"}, "ZeroDivisionError: division by zero (fit.py, line 1); correct it"),
        ({"fit.py": "def"}, "SyntaxError: invalid syntax (fit.py, line 1); correct it"),
        ({"mine.py": BEGINNING}, "write TRAIN"),
        ({"mine.py": f"{BEGINNING}TRAIN = 3"}, "got int"),
        ({"mine.py": f"{FILE}{COMMAND}"}, "TRAIN and COMMAND"),
    ],
)
def test_a_study_file_that_does_not_say_how_it_is_trained_is_refused(tmp_path, texts, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        folder_of(tmp_path, **texts)
    assert "\n" not in str(caught.value)
    assert training_of(tmp_path, f"{BEGINNING}{COMMAND}").args == ("a", "{lr}", "{width}")


def test_a_missing_import_ends_the_study_at_its_first_run(tmp_path, url):
    train = folder_of(tmp_path, **{"late.py": "K = 1.0\nimport nonesuch\n"})
    n_calls = []

    def counted(*cell):
        n_calls.append(1)
        return train.function(*cell)

    with pytest.raises(StudyError, match=r"'nonesuch' \(late.py"):
        tune(SPEC, url, train=replace(train, function=counted))
    assert len(n_calls) == 1
