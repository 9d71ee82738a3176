"""Files that commands write: no input and no file of the user is lost."""

import shutil

import pytest

from extrap.cli import main

SWEEP = "width,lr,loss\n" + "".join(
    f"{w},{lr},{3 / w**0.5 + 0.1 * (lr - 2) ** 2}\n" for w in (16, 32, 64) for lr in (1, 2, 3, 4)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    (path / "sweep.csv").write_text(SWEEP)
    assert main(["forecast", str(path / "sweep.csv"), "--save", str(path / "f.json")]) == 0
    return path


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.csv").symlink_to("sweep.csv")
    (tmp_path / "mine.txt").write_text("mine\n")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "report sweep.csv -o sweep.csv",
        "report sweep.csv -o link.csv",
        "report f.json sweep.csv -o f.json",
        "report sweep.csv -o new --markdown ./new",
        "report f.json -o sweep.csv",
        "report f.json -o new.html --markdown mine.txt",
        "report f.json -o ",
        "forecast sweep.csv --save sweep.csv",
        "forecast f.json --save mine.txt",
        "plan f.json --at 4096 --runs 2 --out sweep.csv",
        "select sweep.csv --keep 0.5 --label lr -o mine.txt",
        "knobs sweep.csv -o sweep.csv",
        "study export study.py --out mine.txt",
    ],
)
def test_what_is_read_or_not_ours_is_never_replaced(line, folder, capsys):
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(line.split(" ")) == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "report f.json -o page.html --markdown page.md",
        "forecast sweep.csv --save again.json",
        "plan f.json --at 4096 --runs 2 --cost width --out plan.csv",
        "select sweep.csv --keep 0.5 --which hard --label lr -o kept.csv",
    ],
)
def test_what_extrap_wrote_and_an_empty_file_are_replaced(line, folder):
    (folder / line.rpartition(" ")[2]).touch()
    assert main(line.split()) == 0
    assert main(line.split()) == 0
