"""`extrap init`: what it writes runs as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.study_files import load_study, load_training

SMALL = [
    *("--set", "sizes.width=16,64,256", "--set", "tune.lr.n=4", "--set", "seeds=0"),
    *("--set", "growth=0", "--set", "targets="),
]
WORDS = "python fit.py --lr {lr} --width={width} 'a b; touch pwned'"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_study_file_of_a_function_is_written_and_trains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["init", "toy"]) == 0
    assert capsys.readouterr().out == "wrote toy.py\nnext: extrap study run toy.py\n"
    assert main(["study", "work", "toy.py", "--quiet", *SMALL]) == 0
    assert "the sweep has its 12 runs" in capsys.readouterr().out
    assert main(["study", "run", "toy.py", "--dry-run"]) == 0
    assert "trained by the function train" in capsys.readouterr().out


def test_code_of_a_study_file_fits_on_a_screen() -> None:
    main(["init", "toy"])
    code = Path("toy.py").read_text().partition('"""\n\n')[2]
    statements = [line for line in code.splitlines() if line.strip() and '"""' not in line]
    assert len(statements) <= 20


def test_a_command_is_written_as_words_with_a_script_where_there_is_none() -> None:
    assert main(["init", "mine.py", "--command", WORDS]) == 0
    command = load_training("mine.py").train
    assert command.args == (
        *("python", "fit.py", "--lr", "{lr}", "--width={width}", "a b; touch pwned"),
    )
    assert load_study("mine.py").name == "mine"
    assert Path("fit.py").is_file()
    assert main(["study", "work", "mine.py", "--quiet", *SMALL]) == 0
    assert len(list(Path(".extrap/mine/runs").glob("*.log"))) == 12
    assert not Path("pwned").exists()


def test_a_script_that_is_there_stays() -> None:
    Path("fit.py").write_text("print('loss=1')\n")
    assert main(["init", "mine", "--command", WORDS]) == 0
    assert Path("fit.py").read_text() == "print('loss=1')\n"


def test_nothing_is_written_over_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("toy.py").write_text("STUDY = mine")
    assert main(["init", "toy"]) == 2
    assert "toy.py is there already; name another" in capsys.readouterr().err
    assert Path("toy.py").read_text() == "STUDY = mine"
    assert main(["init", "toy", "--force"]) == 0
    assert load_study("toy.py").name == "toy"


@pytest.mark.parametrize("more", [[], ["--force"]])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_study_is_never_the_script_that_it_runs(
    more: list[str], is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_there:
        Path("train.py").write_text("print('loss=1')\n")
    words = "python train.py --lr {lr} --width {width}"
    assert main(["init", "train", "--command", words, *more]) == 2
    if more or not is_there:
        assert "two files, got train.py for both" in capsys.readouterr().err
    assert [path.read_text() for path in Path().iterdir()] == ["print('loss=1')\n"] * is_there


def test_force_writes_over_study_files_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text("print('loss=1')\n")
    assert main(["init", "train", "--force"]) == 2
    assert "writes over study files, train.py is none" in capsys.readouterr().err
    assert Path("train.py").read_text() == "print('loss=1')\n"


@pytest.mark.parametrize("folder", ['a"""b', "c\\N", "{x}"])
@pytest.mark.parametrize("more", [[], ["--command", WORDS]])
def test_a_folder_of_any_name_may_hold_a_study(folder: str, more: list[str]) -> None:
    Path(folder).mkdir()
    assert main(["init", f"{folder}/toy", *more]) == 0
    assert load_study(f"{folder}/toy.py").name == "toy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "a study's name holds letters"),
        (["t", "--command", "python fit.py --lr {lr}"], "a size and a tuned value"),
        (["t", "--command", "python fit.py --width {width}"], "add {lr}"),
        (["t", "--command", "python fit.py 'x"], "quoted in pairs"),
        (["t", "--command", ""], "a list of words"),
    ],
)
def test_what_makes_no_study_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--command", WORDS]])
def test_the_study_runs_to_its_report(more: list[str]) -> None:
    def extrap(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "extrap", *words],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=False,
        )

    assert extrap("init", "toy", *more).returncode == 0
    done = extrap("study", "run", "toy.py", "--quiet")
    assert done.returncode == 0, done.stderr
    page = Path("reports/toy.html").read_text()
    assert ("the function train" if not more else "python fit.py") in page
    assert "on the law" in page.lower()
    again = extrap("study", "run", "toy.py", "--quiet")
    assert again.returncode == 0, again.stderr
    assert extrap("report", "toy.py", "-o", "page.html").returncode == 0
    assert Path("page.html").is_file()
