"""Study files with a function or command of their own, through every command."""

import json
import shutil
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.study import default_storage, open_study, train

ROOT = Path(__file__).parents[2]
HEAD = """
from pathlib import Path
from extrap import Command, StudySpec, TunedRange
STUDY = StudySpec(name="mine", question="?", sizes={"width": (8, 16, 32)}, growth=0,
                  tune={"lr": TunedRange(low=2**-6, high=2**-3, n=4)}, seeds=(0, 1))
"""
FUNCTION = (
    HEAD
    + """
def train(size, tuned, seed):
    with Path("trained.txt").open("a") as file:
        file.write(f"{size['width']} {tuned['lr']} {seed}\\n")
    return 1 + size["width"] ** -0.5 + (tuned["lr"] - 0.05) ** 2 + 0.001 * seed
TRAIN = train
"""
)
COMMAND = (
    HEAD
    + """
COMMAND = ["python", "fit.py", "{width}", "{lr}", "{seed}"]
"""
)
SCRIPT = """
import os, sys
width, lr, seed = map(float, sys.argv[1:])
with open("trained.txt", "a") as file:
    file.write(f"{width} {lr} {seed} {os.getpid()}\\n")
for step in (1, 2):
    print(f"step {step} loss={1 + width ** -0.5 + (lr - 0.05) ** 2 + 0.001 * seed + 2 - step}")
"""
ACCEPT = "--accept-training"


@pytest.fixture(params=["function", "command"])
def study(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FUNCTION if request.param == "function" else COMMAND)
    Path("fit.py").write_text(SCRIPT)
    return "mine.py"


def status(capsys):
    capsys.readouterr()
    assert main(["study", "status", "mine.py", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def trained(path, *fields, storage=None):
    """Train a study of a file without a report, as fields of it are set."""
    study = open_study(path, assignments=fields)
    return train(study, storage or default_storage(study))


def test_status_and_a_copied_storage_know_it(study, capsys):
    few = ["sizes.width=8,16", "seeds=0"]
    trained(study, *few)
    assert status(capsys)["complete"] == 8
    shutil.copy(".extrap/mine.db", "other.db")
    trained(study, *few, storage="sqlite:///other.db")
    assert len(Path("trained.txt").read_text().splitlines()) == 8  # none of them again


def test_runs_of_a_plan_are_trained_once_beside_the_grid(study, capsys):
    table = "width,lr,seed,cost,reason\n24,0.05,0,1,new size\n16,0.03125,7,1,replicate\n"
    Path("next.csv").write_text(table + "8,0.015625,0,1,replicate\n")  # the grid has it
    command = ["study", "run", study, "--quiet", "--cells", "next.csv"]
    assert main([*command, "--dry-run"]) == 0
    assert "3 runs of the table" in capsys.readouterr().out
    assert main(command) == 0
    assert "the grid of lr" not in capsys.readouterr().out  # a plan's runs are no growth
    rows = [row.split()[:3] for row in Path("trained.txt").read_text().splitlines()]
    assert len(rows) == 24 + 2
    assert {(24, 0.05, 0), (16, 0.03125, 7)} < {tuple(map(float, row)) for row in rows}
    Path("next.csv").write_text(table + "8,0.0156,.5,1,replicate\n")
    assert main(command) == 2
    assert "whole seed" in capsys.readouterr().err


def test_of_the_next_runs_of_recipes_those_of_the_study_are_trained(study, capsys):
    Path("next.csv").write_text("recipe,width,lr,seed\nmine,24,0.05,3\nother,24,0.05,3\n")
    command = ["study", "run", study, "--quiet", "--cells", "next.csv", "--dry-run"]
    assert main(command) == 0
    assert "1 runs of the table" in capsys.readouterr().out
    Path("next.csv").write_text("recipe,width,lr,seed\nother,24,0.05,3\n")
    assert main(command) == 2
    assert "no row names the study 'mine', but other" in capsys.readouterr().err


def test_a_failed_run_is_told_with_its_place_and_stands_as_failed(study, capsys):
    Path("mine.py").write_text(Path("mine.py").read_text().replace("size['width']", "size['x']"))
    Path("fit.py").write_text(SCRIPT.replace("int(", "x(").replace("open(", "nothing("))
    code = main(["study", "run", study, "--quiet"])
    said = capsys.readouterr().err
    assert code == (3 if "KeyError" in said else 2)
    assert "lr=0.015625, seed=0" in said
    assert "KeyError" in said or "name 'nothing'" in said
    assert status(capsys)["failed"] == 1


def test_a_changed_training_goes_on_only_when_that_is_accepted(study, capsys):
    few = ["sizes.width=8,16", "seeds=0"]
    trained(study, *few)
    for path in map(Path, ("mine.py", "fit.py")):
        path.write_text(path.read_text().replace("0.05", "0.06"))
    words = ["study", "run", study, "--quiet", "--set", few[0], "--set", few[1]]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ACCEPT in said
    main([*words, ACCEPT])  # two sizes make no report
    assert "mine: data.source" in capsys.readouterr().out
    assert len(Path("trained.txt").read_text().splitlines()) == 8  # none of them again


def test_options_that_do_not_go_with_a_training_are_refused(study, capsys):
    for words, named in (
        (["study", "run", study, "--device", "cpu"], "CUDA_VISIBLE_DEVICES"),
        (["study", "run", str(ROOT / "studies" / "metz.py"), ACCEPT], "leave it out"),
    ):
        assert main(words) == 2
        assert named in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trained_by"),
    [("study", "function train"), ("command", "'{width}'"), ("size_path", "n_params 3.15M")],
)
def test_examples_run_to_their_reports(name, trained_by, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = str(ROOT / "examples" / "own" / f"{name}.py")
    assert main(["study", "run", path, "--dry-run"]) == 0
    assert trained_by in capsys.readouterr().out
    assert main(["study", "run", path, "--quiet"]) == 0
    (page,) = (p for p in Path("reports").glob("*.html") if p.name != "index.html")
    capsys.readouterr()
    main(["check", *map(str, [*Path("reports").glob("*.json"), *Path("reports").glob("*.csv")])])
    said = capsys.readouterr().out
    assert said.count("● on law") == 1  # at the recommended rate, two seeds together
    assert said.count("◆ off law, mistuned") == (name != "size_path")
    if name == "size_path":
        assert "width = 64 * depth" in page.read_text()
