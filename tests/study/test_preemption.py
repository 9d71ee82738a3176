"""Training that is asked to stop: cells are freed at a checkpoint, and any worker goes on."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from optuna.trial import TrialState

from extrap.cli import main
from extrap.commands.stopping import stops_gracefully
from extrap.reading import read_runs
from extrap.study import dispatch, tune
from extrap.study.dispatch import LOOK_S
from extrap.training import parts
from extrap.training.preemption import Preemption, StopAsked
from extrap.training.stacks import Stack
from tests.study.trials import SPEC, excess_curve, hit_at_half, train_here, trials_of
from tests.study_workloads import TEACHER

N_STEPS = len(SPEC.grid_cells()) * SPEC.recipe.steps


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


@pytest.fixture
def run_steps(monkeypatch):
    """Updates of runs that were trained since, a number for each stretch."""
    seen: list[int] = []

    class Counted(Stack):
        def advance(self, start, stop):
            seen.append(len(self) * (stop - start))
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", Counted)
    return seen


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(dispatch, "LocalExecutor", dispatch.LocalExecutor)  # which this undoes
    train_here()


def table(runs):
    frame = runs.to_frame()
    return frame[[c for c in frame if c not in ("wall_s", "started_at")]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The runs of the study when nobody stops it."""
    return tune(SPEC, f"sqlite:///{tmp_path_factory.mktemp('whole')}/whole.db", device="cpu")


def require_same(runs, whole, **options):
    pd.testing.assert_frame_equal(table(runs), table(whole), **options)
    pd.testing.assert_frame_equal(runs.curves(), whole.curves(), **options)


@pytest.fixture
def asks_at(request):
    """Asks for a stop, once, when half of the updates of a width are done."""

    def at(preemption, width):
        def ask():
            undo()
            preemption.ask()
            return True

        undo = hit_at_half(width, ask)
        request.addfinalizer(undo)

    return at


def test_asked_to_stop_it_leaves_checkpoints_and_the_next_start_goes_on(
    url, folder, whole, run_steps, asks_at
):
    with pytest.raises(ValueError, match="s3://bucket"):
        Preemption("s3://bucket")
    preemption = Preemption(folder)
    asks_at(preemption, 16)
    with pytest.raises(KeyboardInterrupt):
        tune(SPEC, url, preemption=preemption, device="cpu")
    assert sum(run_steps) == 0.75 * N_STEPS
    assert [t.state for t in trials_of(url)] == [TrialState.COMPLETE] * 6
    assert len(list((folder / "small").iterdir())) == 6

    run_steps.clear()
    runs = tune(SPEC, url, preemption=Preemption(folder), device="cpu")
    assert sum(run_steps) == 0.25 * N_STEPS
    assert list((folder / "small").iterdir()) == []
    require_same(runs, whole, check_exact=True)


def test_cells_that_are_sampled_leave_no_checkpoint(url, folder, asks_at):
    preemption = Preemption(folder, every_s=0.0)
    spec = replace(SPEC, sampler="tpe", sizes={"width": (8,)})
    asks_at(preemption, 8)
    with pytest.raises(StopAsked):
        tune(spec, url, preemption=preemption, device="cpu")
    assert not list(folder.glob("*/*.pt"))
    assert len(tune(spec, url, device="cpu")) == 6


def test_a_function_of_ones_own_ends_its_run_first(url):
    preemption, trained = Preemption(None), []

    def train(size, tuned, seed):
        trained.append(tuned)
        if len(trained) == 3:
            assert preemption.ask()
            time.sleep(3 * LOOK_S)  # the driver hears of it, and takes back what waits
        return excess_curve(size, tuned, seed)

    with pytest.raises(StopAsked):
        tune(SPEC, url, train=train, preemption=preemption)
    assert [t.state for t in trials_of(url)] == [TrialState.COMPLETE] * len(trained)
    assert len(trained) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_waits_for_an_evaluation_and_the_second_one_does_not(number, capfd):
    said: list[str] = []

    def train(preemption):
        with preemption.heard():
            os.kill(os.getpid(), number)
            assert preemption.is_stop_requested
            said.append(capfd.readouterr().err)
            os.kill(os.getpid(), number)
            pytest.fail("the second one was not heard")

    with stops_gracefully(1000) as preemption:
        with pytest.raises(KeyboardInterrupt) as stopped:
            train(preemption)
        assert not isinstance(stopped.value, StopAsked)
        os.kill(os.getpid(), number)  # leaving takes a moment: that changes nothing
    (line,) = said
    assert "1000 s" in line
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_at_once_what_is_no_training(number):
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(KeyboardInterrupt), stops_gracefully(1000):
        os.kill(os.getpid(), number)
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_evaluation_that_does_not_come_is_not_waited_for():
    def train(preemption):
        with preemption.heard():
            os.kill(os.getpid(), signal.SIGTERM)
            while True:
                signal.pause()

    ends = pytest.raises(KeyboardInterrupt)
    with stops_gracefully(0.01) as preemption, ends as stopped:
        train(preemption)
    assert not isinstance(stopped.value, StopAsked)


STUDY = f"""
from extrap.records import *
STUDY = StudySpec(
    name="tiny", question="?",
    workload=Workload(name={TEACHER!r}, options={{"n_features": 16, "n_examples": 500}}),
    sizes={{"width": (2, 4)}}, tune={{"lr": TunedRange(low=2**-6, high=2**-1, n=6)}},
    recipe=Recipe(steps=40, batch_size=8, n_evals=4), seeds=(0, 1), growth=0,
)
"""
# Runs the command line and is hit by a signal in the second pack.
SCRIPT = """
import os, signal, sys
from extrap.cli import main
from extrap.training import preemption
from tests.study.trials import hit_at_half, train_here
number = int(sys.argv[1])

def hit():
    os.kill(os.getpid(), number)
    return True

train_here()
hit_at_half(4, hit)
if number == signal.SIGKILL:
    preemption.Preemption.__init__.__kwdefaults__["every_s"] = 0.0
sys.exit(main(sys.argv[2:]))
"""


def command(tmp_path, place):
    (tmp_path / "tiny.py").write_text(STUDY)
    words = ["study", "run", str(tmp_path / "tiny.py"), "--storage", place, "--quiet"]
    return [*words, "--checkpoints", str(tmp_path / "shared")]


@pytest.fixture(scope="module")
def whole_command(tmp_path_factory):
    """The runs of a command that nobody ends."""
    folder = tmp_path_factory.mktemp("whole-command")
    url = f"sqlite:///{folder}/whole.db"
    assert main(command(folder, url)) == 2  # two sizes make no report
    return read_runs(url, size="width", tune="lr")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL])
def test_a_command_that_is_ended_in_mid_pack_goes_on_from_there(
    number, url, tmp_path, whole_command, run_steps
):
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "script.py", str(int(number)), *command(tmp_path, url)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    if number == signal.SIGKILL:
        assert ended.returncode == -signal.SIGKILL
    else:
        assert ended.returncode == 130, ended.stderr
        assert "same command resumes" in ended.stderr
    n_done = len(trials_of(url))
    n_begun = len(list((tmp_path / "shared" / "tiny").glob("*.pt")))
    assert n_done >= 12
    assert n_begun > 1
    assert main(command(tmp_path, url)) == 2
    assert sum(run_steps) == 24 * 40 - n_done * 40 - n_begun * 20
    assert list((tmp_path / "shared" / "tiny").iterdir()) == []
    runs = read_runs(url, size="width", tune="lr")
    pd.testing.assert_frame_equal(table(runs), table(whole_command), rtol=1e-6)
