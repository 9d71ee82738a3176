"""Study files with a function or command of their own, through every command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
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
    time.sleep(float(os.environ.get("PAUSE", 0)))
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
time.sleep(float(os.environ.get("PAUSE", 0)))
for step in (1, 2):
    print(f"step {step} loss={1 + width ** -0.5 + (lr - 0.05) ** 2 + 0.001 * seed + 2 - step}")
"""
N_CELLS = 24
ACCEPT = "--accept-training"


@pytest.fixture(params=["function", "command"])
def study(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FUNCTION if request.param == "function" else COMMAND)
    Path("fit.py").write_text(SCRIPT)
    return "mine.py"


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["study", "status", "mine.py", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status_export_import_and_repair_know_it(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--set", "sizes.width=8,16", "--set", "seeds=0"]
    assert main(["study", "work", study, "--quiet", *few]) == 0
    assert status(capsys)["complete"] == 8
    assert main(["study", "export", study, "--out", "runs.parquet"]) == 0
    other = ["--storage", "sqlite:///other.db"]
    assert main(["study", "import", study, "runs.parquet", *other]) == 0
    assert "8 runs copied" in capsys.readouterr().out
    assert main(["study", "repair", study, *other]) == 0
    assert "nothing to mend" in capsys.readouterr().out
    assert main(["study", "work", study, "--quiet", *few, *other]) == 0
    assert len(Path("trained.txt").read_text().splitlines()) == 8  # none of them again


def test_a_failed_run_is_told_with_its_place_and_stands_as_failed(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text(Path("mine.py").read_text().replace("size['width']", "size['x']"))
    Path("fit.py").write_text(SCRIPT.replace("int(", "x(").replace("open(", "nothing("))
    code = main(["study", "work", study, "--quiet"])
    said = capsys.readouterr().err
    assert code == (3 if "KeyError" in said else 2)
    assert "in the run width=8, lr=0.015625, seed=0" in said
    assert "KeyError" in said or "NameError: name 'nothing' is not defined" in said
    assert status(capsys)["failed"] == 1


def test_a_changed_training_is_refused_and_then_accepted(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ["--quiet", "--set", "sizes.width=8", "--set", "seeds=0"]
    assert main(["study", "work", study, *one]) == 0
    for path in map(Path, ("mine.py", "fit.py")):
        path.write_text(path.read_text().replace("0.05", "0.06"))
    assert main(["study", "work", study, *one]) == 2
    assert "in the storage" in (said := capsys.readouterr().err)
    assert "--accept-training" in said
    assert main(["study", "work", study, *one, "--accept-training"]) == 0
    assert "data.source." in capsys.readouterr().out
    assert main(["study", "work", study, *one]) == 0
    assert len(Path("trained.txt").read_text().splitlines()) == 4


def test_runs_of_a_changed_training_are_merged_only_when_that_is_accepted(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = ["--quiet", "--set", "sizes.width=8,16", "--set", "seeds=0"]
    shards = [f".extrap/mine.shard-{i}-of-2.db" for i in (1, 2)]
    merge = ["study", "merge", study, *shards, *quiet[1:]]
    assert main(["study", "work", study, *quiet, "--shard", "1/2"]) == 0
    before = {path: path.read_text() for path in map(Path, ("mine.py", "fit.py"))}
    for path, text in before.items():
        path.write_text(text.replace("0.05", "0.06"))
    assert main(["study", "work", study, *quiet, "--shard", "2/2"]) == 0

    capsys.readouterr()
    assert main(merge) == 2  # the first was trained otherwise than the file says now
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "in sqlite:///.extrap/mine.shard-1-of-2.db" in said
    assert "--accept-training" in said
    assert not Path(".extrap/mine.db").exists()  # nothing was copied
    for path, text in before.items():
        path.write_text(text)
    assert main(merge) == 2  # now the second
    assert "in sqlite:///.extrap/mine.shard-2-of-2.db" in capsys.readouterr().err

    assert main([*merge, "--accept-training"]) == 0
    assert "8 runs copied" in capsys.readouterr().out
    assert main(merge) == 2  # the target is settled, its sources are as they were
    assert main([*merge, "--accept-training"]) == 0
    assert main(["study", "work", study, *quiet]) == 0  # nothing is trained again
    assert len(Path("trained.txt").read_text().splitlines()) == 8


FEW = ["--set", "sizes.width=8", "--set", "seeds=0"]
PARTS = [f".extrap/mine.shard-{i}-of-2.db" for i in (1, 2)]


def train_parts() -> None:
    for part in ("1/2", "2/2"):
        assert main(["study", "work", "mine.py", "--quiet", *FEW, "--shard", part]) == 0


@pytest.mark.parametrize("accepting", [[], ["--accept-training"]])
def test_parts_are_merged_where_their_program_is_not(
    accepting: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COMMAND.replace('"python", "fit.py"', '"cluster-train"'))
    program = Path("bin/cluster-train")
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{SCRIPT}")
    program.chmod(0o755)
    with monkeypatch.context() as cluster:
        cluster.setenv("PATH", str(program.parent.absolute()), prepend=os.pathsep)
        train_parts()
    for n_copied in (4, 0):
        capsys.readouterr()
        assert main(["study", "merge", "mine.py", *PARTS, *FEW, *accepting]) == 0
        assert f"{n_copied} runs copied" in capsys.readouterr().out
    assert main(["study", "work", "mine.py", *FEW]) == 2  # to train it must be there
    assert "there is no 'cluster-train'" in capsys.readouterr().err


@pytest.mark.parametrize("accepting", [[], ["--accept-training"]])
def test_parts_are_merged_where_their_script_is_not_and_go_on_where_it_is(
    accepting: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COMMAND)
    Path("fit.py").write_text(SCRIPT)
    train_parts()
    Path("fit.py").rename("elsewhere.py")
    for n_copied in (4, 0):
        capsys.readouterr()
        assert main(["study", "merge", "mine.py", *PARTS, *FEW, *accepting]) == 0
        said = capsys.readouterr().out
        assert f"{n_copied} runs copied" in said
        assert "not on this machine, the same in all parts: fit.py" in said
    Path("elsewhere.py").rename("fit.py")
    assert main(["study", "work", "mine.py", "--quiet", *FEW]) == 0  # as it was begun
    assert len(Path("trained.txt").read_text().splitlines()) == 4


def test_parts_of_two_scripts_are_not_merged_where_neither_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COMMAND)
    Path("fit.py").write_text(SCRIPT)
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
        assert "not on this machine must be the same in all parts of a merge, fit.py is" in said
        assert "in sqlite:///other.db" in said
        assert said.count("\n") == 1
    assert status(capsys)["complete"] == 2  # those of the second part


def test_a_script_that_nobody_here_knows_is_accepted_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(COMMAND)
    Path("fit.py").write_text(SCRIPT)
    train_parts()
    Path("mine.py").write_text(COMMAND.replace("fit.py", "newer.py"))
    assert main(["study", "merge", "mine.py", *PARTS, *FEW, ACCEPT]) == 2
    said = capsys.readouterr().err
    assert "this machine has none of 'python newer.py'; accept it on a machine that trains" in said
    assert not Path(".extrap/mine.db").exists()
    Path("newer.py").write_text(SCRIPT)
    assert main(["study", "merge", "mine.py", *PARTS, *FEW, ACCEPT]) == 0


def test_a_device_is_of_our_own_training(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "work", study, "--device", "cpu"]) == 2
    assert "CUDA_VISIBLE_DEVICES" in capsys.readouterr().err


def test_accepting_is_for_a_training_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(ROOT / "studies" / "metz.py")
    assert main(["study", "run", path, "--accept-training"]) == 2
    assert "has none; leave it out" in capsys.readouterr().err


def test_knobs_of_a_training_of_ones_own_are_none(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["knobs", study]) == 2
    assert "knobs are fields of the recipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("study", "trained by the function train"),
        ("command", "--width '{width}' --lr '{lr}' --seed '{seed}'"),
        ("one_dial", "depth 4, width 256, n_params 3.14573e+06"),
    ],
)
def test_a_dry_run_of_the_examples_says_who_trains_what(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(ROOT / "examples" / "own" / f"{name}.py")
    assert main(["study", "run", path, "--dry-run"]) == 0
    assert words in capsys.readouterr().out


@pytest.mark.slow
def test_of_two_workers_one_is_killed_and_every_cell_is_trained_once(study: str) -> None:
    first, second = worker(pause=0.15), worker(pause=0.15)
    wait_for(lambda: n_trained() >= 6)
    os.kill(first.pid, signal.SIGKILL)
    assert second.wait(300) == 0
    assert first.wait() == -signal.SIGKILL

    storage = open_storage("sqlite:///.extrap/mine.db")
    counts = Counter(
        (name, *sorted(trial.params.items()), trial.user_attrs["seed"])
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name))
        if trial.state == TrialState.COMPLETE
    )
    assert set(counts.values()) == {1}
    assert len(counts) == N_CELLS
    # the run that was in the killed worker's hands was begun again, and no other
    assert N_CELLS <= n_trained() <= N_CELLS + 1
    wait_for(lambda: not orphans())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["study", "command", "one_dial"])
def test_examples_run_to_their_reports(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(ROOT / "examples" / "own" / f"{name}.py")
    assert main(["study", "run", path, "--quiet"]) == 0
    (page,) = (p for p in Path("reports").glob("*.html") if p.name != "index.html")
    capsys.readouterr()
    main(["check", *map(str, [*Path("reports").glob("*.json"), *Path("reports").glob("*.csv")])])
    said = capsys.readouterr().out
    assert said.count("on the law ") == 2  # at the forecast rate, for two seeds
    assert said.count("OFF the law") == said.count("mistuned: lr") == 2 * (name != "one_dial")
    if name == "one_dial":
        assert "width = 64 * depth" in page.read_text()


def worker(*, pause: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "extrap", "study", "work", "mine.py", "--quiet"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PAUSE": str(pause)},
        stdout=subprocess.DEVNULL,
    )


def n_trained() -> int:
    path = Path("trained.txt")
    return len(path.read_text().splitlines()) if path.exists() else 0


def orphans() -> list[int]:
    """Scripts that are still running."""
    told = [line.split() for line in Path("trained.txt").read_text().splitlines()]
    return [int(words[3]) for words in told if len(words) > 3 and psutil.pid_exists(int(words[3]))]


def wait_for(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)
