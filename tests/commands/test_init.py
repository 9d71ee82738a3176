"""`extrap init`: what it writes runs as it is."""

from pathlib import Path

import pandas as pd
import pytest

from extrap.cli import main
from extrap.study import open_study

SMALL = [
    *("--set", "sizes.width=16,64,256", "--set", "tune.lr.n=4", "--set", "seeds=0"),
    *("--set", "growth=0", "--set", "targets="),
]
WORDS = "python fit.py --lr {lr} --width={width} 'a b; touch pwned'"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_study_file_of_a_function_is_written_and_trains(capsys):
    assert main(["init", "toy"]) == 0
    assert "extrap study run toy.py\n" in capsys.readouterr().out
    assert main(["study", "run", "toy.py", "--quiet", *SMALL]) == 0
    assert len(pd.read_csv("reports/toy.runs.csv")) == 12
    assert main(["study", "run", "toy.py", "--dry-run"]) == 0
    assert "function train" in capsys.readouterr().out


def test_a_command_is_written_as_words_with_a_toy_script_if_wanted():
    assert main(["init", "mine.py", "--command", WORDS, "--toy"]) == 0
    own = open_study("mine.py")
    study, command = own.study, own.training_of(own.study)
    assert command.args == (
        *("python", "fit.py", "--lr", "{lr}", "--width={width}", "a b; touch pwned"),
    )
    assert (study.name, study.seeds, study.target_seeds) == ("mine", (0,), (0,))
    assert Path("fit.py").is_file()
    assert main(["study", "run", "mine.py", "--quiet", *SMALL]) == 0
    assert len(list(Path(".extrap/mine/runs").glob("*.log"))) == 12
    assert not Path("pwned").exists()
    Path("fit.py").write_text("print('loss=1')\n")  # a script that is there stays
    assert main(["init", "other", "--command", WORDS]) == 0
    assert Path("fit.py").read_text() == "print('loss=1')\n"
    assert main(["init", "fit", "--force"]) == 2  # it is no study file
    assert Path("fit.py").read_text() == "print('loss=1')\n"


def test_nothing_is_written_over_unless_asked(capsys):
    Path("toy.py").write_text("STUDY = mine")
    assert main(["init", "toy"]) == 2
    assert "toy.py exists" in capsys.readouterr().err
    assert Path("toy.py").read_text() == "STUDY = mine"
    assert main(["init", "toy", "--force"]) == 0
    assert open_study("toy.py").study.name == "toy"


@pytest.mark.parametrize("more", [[], ["--force"]])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_study_is_never_the_script_that_it_runs(more, is_there, capsys):
    if is_there:
        Path("fit.py").write_text("print('loss=1')\n")
    assert main(["init", "fit", "--command", WORDS, *more]) == 2
    if more or not is_there:
        assert "got fit.py for both" in capsys.readouterr().err
    assert [path.read_text() for path in Path().iterdir()] == ["print('loss=1')\n"] * is_there


@pytest.mark.parametrize("program", ["python", "python -u", "torchrun --nproc-per-node 1", ""])
def test_a_script_that_does_not_exist_is_refused_with_the_nearest_name(
    program, capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("train.py", "torchrun"):
        (tmp_path / name).touch(mode=0o755)
    line = f"{program} ./trian.py --lr {{lr}} --width {{width}} --seed {{seed}}"
    assert main(["init", "mine", "--command", line]) == 2
    assert "trian.py; write train.py" in capsys.readouterr().err
    assert not Path("mine.py").exists()
    assert main(["init", "mine", "--command", line.replace("trian", "train")]) == 0
    study = open_study("mine.py").study
    assert (study.seeds, study.target_seeds) == ((0, 1, 2), (0, 1))
    assert sum(map(bool, Path("mine.py").read_text().splitlines())) <= 14


@pytest.mark.parametrize("folder", ['a"""b', "c\\N", "{x}"])
@pytest.mark.parametrize("more", [[], ["--command", WORDS, "--toy"]])
def test_a_folder_of_any_name_may_hold_a_study(folder, more):
    Path(folder).mkdir()
    assert main(["init", f"{folder}/toy", *more]) == 0
    assert open_study(f"{folder}/toy.py").study.name == "toy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "name may hold letters"),
        (["t", "--command", "fit --lr {lr}"], "a size and a tuned value"),
        (["t", "--command", "fit --w {width}"], "add {lr}"),
        (["t", "--command", "fit 'x"], "quoted in pairs"),
        (["t", "--command", ""], "a list of words"),
        (["t", "--command", "python -m fit --lr {lr} --w {w} --seed {sed}"], "write {seed}"),
        (["t", "--command", "python -m fit --lr {lr} --w {w} {rundir}"], "write {run_dir}"),
        (["t", "--command", "pyhton fit.py --lr {lr} --w {w}", "--toy"], "write python."),
        (["t", "--command", "./fit.py --lr {lr} --w {w}", "--toy"], "write python ./fit.py, or"),
        (["t", "--command", "no-such-thing --lr {lr} --w {w}"], "or install it"),
    ],
)
def test_what_makes_no_study_is_refused(arguments, message, capsys):
    assert main(["init", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_script_that_is_called_directly_is_executable(capsys):
    Path("fit.py").write_text("print('loss=1')\n")
    line = ["init", "mine", "--command", "./fit.py --lr {lr} --w {w}"]
    assert main(line) == 2
    assert "write python ./fit.py, or" in capsys.readouterr().err
    Path("fit.py").chmod(0o755)
    assert main(line) == 0


def test_what_the_placeholders_were_taken_for_is_printed(capsys):
    words = "python -m fit --lr {lr} --wd={weight_decay} --w {width} --d {depth} --speed {speed}"
    assert main(["init", "mine", "--command", f"{words} --seed {{seed}}"]) == 0
    said = capsys.readouterr().out
    assert "sizes: width, depth, speed; tuned: lr, weight_decay\n" in said
    assert "one seed" not in said
    assert main(["init", "other", "--command", words.replace(" --speed {speed}", "")]) == 0
    assert 'add "--seed={seed}"' in capsys.readouterr().out
