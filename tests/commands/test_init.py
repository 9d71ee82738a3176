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
WORDS = "python fit.py --lr {lr} --width={width} {depth} --wd={weight_decay} 'a b; touch pwned'"
SCRIPT = "print('loss=1')\n"


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


def test_a_command_is_written_as_words(capsys):
    Path("fit.py").write_text(SCRIPT)
    assert main(["init", "mine.py", "--command", WORDS]) == 0
    said = capsys.readouterr().out
    assert "sizes: width, depth; tuned: lr, weight_decay\n" in said
    assert 'add "--seed={seed}"' in said
    own = open_study("mine.py")
    study, command = own.study, own.training_of(own.study)
    assert command.args[-2:] == ("--wd={weight_decay}", "a b; touch pwned")
    assert (study.name, study.seeds, study.target_seeds) == ("mine", (0,), (0,))
    small = [*SMALL, "--set", "sizes.depth=16", "--set", "tune.weight_decay.n=2"]
    assert main(["study", "run", "mine.py", "--dry-run", *small]) == 0
    assert "24 runs" in capsys.readouterr().out
    assert not Path("pwned").exists()
    assert main(["init", "other", "--command", f"{WORDS} {{seed}}"]) == 0
    assert open_study("other.py").study.seeds == (0, 1, 2)
    assert "one seed" not in capsys.readouterr().out


def test_a_size_of_any_name_is_one_once_it_is_named(capsys):
    assert main(["init", "t", "--command", "fit {lr} {heads}", "--size", "heads"]) == 0
    assert "sizes: heads; tuned: lr\n" in capsys.readouterr().out
    assert list(open_study("t.py").study.sizes) == ["heads"]


@pytest.mark.parametrize("more", [["--dry-run"], ["--quiet"]])
def test_a_placeholder_that_the_study_does_not_have_is_refused_before_anything_is_made(
    more, capsys
):
    assert main(["init", "t", "--command", "fit {lr} {width} {seed}"]) == 0
    Path("t.py").write_text(Path("t.py").read_text().replace("{width}", "{widht}"))
    before = sorted(Path().rglob("*"))
    capsys.readouterr()
    assert main(["study", "run", "t.py", *more]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "among width, lr, seed, run_dir, got widht; did you mean 'width'?" in said
    assert sorted(Path().rglob("*")) == before


def test_nothing_is_written_over_unless_asked(capsys):
    Path("toy.py").write_text("STUDY = mine")
    assert main(["init", "toy"]) == 2
    assert "toy.py exists" in capsys.readouterr().err
    assert Path("toy.py").read_text() == "STUDY = mine"
    assert main(["init", "toy", "--force"]) == 0
    assert open_study("toy.py").study.name == "toy"


@pytest.mark.parametrize("folder", ['a"""b', "c\\N", "{x}"])
@pytest.mark.parametrize("more", [[], ["--command", WORDS]])
def test_a_folder_of_any_name_may_hold_a_study(folder, more):
    Path(folder).mkdir()
    assert main(["init", f"{folder}/toy", *more]) == 0
    assert open_study(f"{folder}/toy.py").study.name == "toy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "'a b'"),
        (["t", "--command", "fit --lr {lr}"], "a size and a tuned value"),
        (["t", "--command", "fit --w {width}"], "a size and a tuned value"),
        (["t", "--command", "fit 'x"], "No closing quotation"),
        (["t", "--command", ""], "{lr}"),
        (["t", "--command", "fit {lr} {witdh}"], "got {witdh}; did you mean 'width'?"),
        (
            ["t", "--command", "fit {lr} {width} {run_dri}"],
            "got {run_dri}; did you mean 'run_dir'",
        ),
        (["t", "--command", "fit {lr} {width}", "--size", "heads"], "got heads; write {heads}"),
    ],
)
def test_what_makes_no_study_is_refused(arguments, message, capsys):
    assert main(["init", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().iterdir())
