"""Study files with a function or command of their own, through every command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from optuna.trial import TrialState

from extrap.cli import main
from extrap.reading.optuna import study_names
from extrap.reading.storages import open_storage

ROOT = Path(__file__).parents[2]
HEAD = """
import os, time
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
    while "WAITS" in os.environ and not Path("gate").exists():
        time.sleep(0.02)
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
import os, sys, time
width, lr, seed = map(float, sys.argv[1:])
with open("trained.txt", "a") as file:
    file.write(f"{width} {lr} {seed} {os.getpid()}\\n")
while "WAITS" in os.environ and not os.path.exists("gate"):
    time.sleep(0.02)
for step in (1, 2):
    print(f"step {step} loss={1 + width ** -0.5 + (lr - 0.05) ** 2 + 0.001 * seed + 2 - step}")
"""
N_CELLS = 24
ACCEPT = "--accept-training"
FEW = ["--set", "sizes.width=8", "--set", "seeds=0"]
PARTS = [f".extrap/mine.shard-{i}-of-2.db" for i in (1, 2)]


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


def test_status_export_import_and_repair_know_it(study, capsys):
    few = ["--set", "sizes.width=8,16", "--set", "seeds=0"]
    assert main(["study", "work", study, "--quiet", *few]) == 0
    assert status(capsys)["complete"] == 8
    assert main(["study", "export", study, "--out", "runs.parquet"]) == 0
    other = ["--storage", "sqlite:///other.db"]
    assert main(["study", "import", study, "runs.parquet", *other]) == 0
    assert "8 runs copied" in capsys.readouterr().out
    assert main(["study", "repair", study, *other]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    assert main(["study", "import", study, "mine.py"]) == 2
    assert main(["study", "export", study, "--out", "t.csv"]) == 2
    assert main(["study", "repair", study, "--storage", "sqlite:///none.db"]) == 2
    assert not Path("none.db").exists()
    assert main(["study", "work", study, "--quiet", *few, *other]) == 0
    assert len(Path("trained.txt").read_text().splitlines()) == 8  # none of them again


def test_a_failed_run_is_told_with_its_place_and_stands_as_failed(study, capsys):
    Path("mine.py").write_text(Path("mine.py").read_text().replace("size['width']", "size['x']"))
    Path("fit.py").write_text(SCRIPT.replace("int(", "x(").replace("open(", "nothing("))
    code = main(["study", "work", study, "--quiet"])
    said = capsys.readouterr().err
    assert code == (3 if "KeyError" in said else 2)
    assert "lr=0.015625, seed=0" in said
    assert "KeyError" in said or "name 'nothing'" in said
    assert status(capsys)["failed"] == 1


def test_runs_of_a_changed_training_are_merged_only_when_that_is_accepted(study, capsys):
    quiet = ["--quiet", "--set", "sizes.width=8,16", "--set", "seeds=0"]
    merge = ["study", "merge", study, *PARTS, *quiet[1:]]
    assert main(["study", "work", study, *quiet, "--shard", "1/2"]) == 0
    before = {path: path.read_text() for path in map(Path, ("mine.py", "fit.py"))}
    for path, text in before.items():
        path.write_text(text.replace("0.05", "0.06"))
    assert main(["study", "work", study, *quiet, "--shard", "2/2"]) == 0

    capsys.readouterr()
    assert main(merge) == 2  # the first was trained otherwise than the file says now
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert PARTS[0] in said
    assert ACCEPT in said
    assert not Path(".extrap/mine.db").exists()  # nothing was copied
    for path, text in before.items():
        path.write_text(text)
    assert main(merge) == 2  # now the second
    assert PARTS[1] in capsys.readouterr().err

    assert main([*merge, ACCEPT]) == 0
    assert "8 runs copied" in capsys.readouterr().out
    assert main(merge) == 2  # the target is settled, its sources are as they were
    assert main([*merge, ACCEPT]) == 0
    assert main(["study", "work", study, *quiet]) == 0  # nothing is trained again
    assert len(Path("trained.txt").read_text().splitlines()) == 8


def train_parts():
    for part in ("1/2", "2/2"):
        assert main(["study", "work", "mine.py", "--quiet", *FEW, "--shard", part]) == 0


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a study of a command and its script, the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COMMAND)
    Path("fit.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize("accepting", [[], [ACCEPT]])
def test_parts_are_merged_where_their_script_is_not_and_go_on_where_it_is(accepting, home, capsys):
    train_parts()
    Path("fit.py").rename("elsewhere.py")
    for n_copied in (4, 0):
        capsys.readouterr()
        assert main(["study", "merge", "mine.py", *PARTS, *FEW, *accepting]) == 0
        said = capsys.readouterr().out
        assert f"{n_copied} runs copied" in said
        assert "fit.py" in said
    Path("elsewhere.py").rename("fit.py")
    assert main(["study", "work", "mine.py", "--quiet", *FEW]) == 0  # as it was begun
    assert len(Path("trained.txt").read_text().splitlines()) == 4


@pytest.mark.usefixtures("home")
def test_parts_are_merged_where_their_program_is_not_on_the_path(monkeypatch, capsys):
    Path("mine.py").write_text(COMMAND.replace('"python", "fit.py"', '"cluster-train"'))
    (program := Path("bin/cluster-train")).parent.mkdir()
    program.write_text("#!/bin/sh\necho loss=1.5\n")
    program.chmod(0o755)
    with monkeypatch.context() as cluster:
        cluster.setenv("PATH", str(program.parent.absolute()), prepend=os.pathsep)
        train_parts()
    for accepting in ([], [ACCEPT]):
        assert main(["study", "merge", "mine.py", *PARTS, *FEW, *accepting]) == 0
        assert status(capsys)["complete"] == 4
    assert main(["study", "work", "mine.py", *FEW]) == 2  # to train, it must be there
    assert "'cluster-train'" in capsys.readouterr().err


def test_parts_of_two_scripts_are_not_merged_where_neither_is(home, capsys):
    train_parts()
    Path("fit.py").write_text(SCRIPT.replace("0.05", "0.06"))
    other = ["--storage", "sqlite:///other.db"]
    assert main(["study", "work", "mine.py", "--quiet", *FEW, "--shard", "1/2", *other]) == 0
    Path("fit.py").unlink()
    assert main(["study", "merge", "mine.py", PARTS[1], *FEW]) == 0
    for sources, accepting in (([PARTS[0], "other.db"], []), (["other.db"], [ACCEPT])):
        capsys.readouterr()
        assert main(["study", "merge", "mine.py", *sources, *FEW, *accepting]) == 2
        said = capsys.readouterr().err
        assert "fit.py" in said
        assert "in sqlite:///other.db" in said
        assert said.count("\n") == 1
    assert status(capsys)["complete"] == 2  # those of the second part


def test_a_script_that_nobody_here_knows_is_accepted_where_it_is(home, capsys):
    train_parts()
    Path("mine.py").write_text(COMMAND.replace("fit.py", "newer.py"))
    assert main(["study", "merge", "mine.py", *PARTS, *FEW, ACCEPT]) == 2
    said = capsys.readouterr().err
    assert "'python newer.py'" in said
    assert not Path(".extrap/mine.db").exists()
    Path("newer.py").write_text(SCRIPT)
    assert main(["study", "merge", "mine.py", *PARTS, *FEW, ACCEPT]) == 0


def test_options_that_do_not_go_with_a_training_are_refused(study, capsys):
    for words, named in (
        (["study", "work", study, "--device", "cpu"], "CUDA_VISIBLE_DEVICES"),
        (["knobs", study], "recipe"),
        (["study", "run", str(ROOT / "studies" / "metz.py"), ACCEPT], "leave it out"),
    ):
        assert main(words) == 2
        assert named in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("study", ["command"], indirect=True)
def test_of_two_workers_one_is_killed_and_every_cell_is_trained_once(study):
    first = worker()
    wait_for(lambda: n_trained() == 1)
    second = worker()
    wait_for(lambda: n_trained() == 2)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    Path("gate").touch()
    assert second.wait(600) == 0

    storage = open_storage("sqlite:///.extrap/mine.db")
    counts = Counter(
        (name, *sorted(trial.params.items()), trial.user_attrs["seed"])
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name))
        if trial.state == TrialState.COMPLETE
    )
    assert set(counts.values()) == {1}
    assert len(counts) == N_CELLS
    assert n_trained() == N_CELLS + 1  # the killed worker's run was begun again, and no other
    wait_for(lambda: not orphans())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trained_by"),
    [("study", "function train"), ("command", "'{width}'"), ("one_dial", "n_params 3.14573e+06")],
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
    assert said.count("◆ off law, mistuned") == (name != "one_dial")
    if name == "one_dial":
        assert "width = 64 * depth" in page.read_text()


def worker():
    """A worker whose runs wait for the file `gate`."""
    return subprocess.Popen(
        [sys.executable, "-m", "extrap", "study", "work", "mine.py", "--quiet"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "WAITS": "1"},
        stdout=subprocess.DEVNULL,
    )


def n_trained():
    path = Path("trained.txt")
    return len(path.read_text().splitlines()) if path.exists() else 0


def orphans():
    """Scripts that are still running."""
    told = [line.split() for line in Path("trained.txt").read_text().splitlines()]
    return [int(words[3]) for words in told if len(words) > 3 and psutil.pid_exists(int(words[3]))]


def wait_for(claim):
    deadline = time.monotonic() + 600
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)
