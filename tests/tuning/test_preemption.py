"""Training that is asked to stop: cells are freed at a checkpoint, and any worker goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from optuna.trial import FrozenTrial, TrialState

from extrap.commands.workers import stops_gracefully
from extrap.reading import read_runs
from extrap.reading.optuna import FAILURE, study_names
from extrap.reading.storages import open_storage
from extrap.records import Recipe, Runs, StudySpec, TunedRange, Workload
from extrap.training import parts
from extrap.training.preemption import Preemption, StopAsked, current_preemption
from extrap.training.stacks import Stack
from extrap.tuning import TuneEvent, tune

SPEC = StudySpec(
    name="small",
    question="Does it go on?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256},
    ),
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)},
    recipe=Recipe(steps=8, batch_size=8, n_evals=4),
    seeds=(0, 1),
)
N_STEPS = len(SPEC.grid_cells()) * SPEC.recipe.steps


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def run_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Updates of runs that were trained since, a number for each stretch."""
    seen: list[int] = []

    class Counted(Stack):
        def advance(self, start: int, stop: int) -> list[int | None]:
            seen.append(len(self) * (stop - start))
            return super().advance(start, stop)

    monkeypatch.setattr(parts, "Stack", Counted)
    return seen


def trials_of(url: str) -> list[FrozenTrial]:
    storage = open_storage(url)
    return [
        trial
        for name in study_names(storage)
        for trial in storage.get_all_trials(storage.get_study_id_from_name(name))
    ]


def table(runs: Runs) -> pd.DataFrame:
    frame = runs.to_frame()
    return frame[[c for c in frame if c not in ("wall_s", "started_at")]]


def require_same(runs: Runs, tmp_path: Path, spec: StudySpec = SPEC) -> None:
    whole = tune(spec, f"sqlite:///{tmp_path}/whole.db", device="cpu")
    pd.testing.assert_frame_equal(table(runs), table(whole), check_exact=True)
    pd.testing.assert_frame_equal(runs.curves(), whole.curves(), check_exact=True)


def valley(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
    return 1 + 1 / size["width"] + (tuned["lr"] - 0.02) ** 2 + 0.001 * seed


def test_asked_to_stop_it_frees_its_cells_and_the_next_start_goes_on(
    url: str, folder: Path, tmp_path: Path, run_steps: list[int]
) -> None:
    preemption = Preemption(folder)

    def ask(event: TuneEvent) -> None:
        if event.size == {"width": 16} and event.fraction == 0.5:
            assert preemption.ask()

    with pytest.raises(KeyboardInterrupt):
        tune(SPEC, url, notify=ask, preemption=preemption, device="cpu")
    assert sum(run_steps) == 0.75 * N_STEPS
    trials = trials_of(url)
    assert [t.state for t in trials].count(TrialState.RUNNING) == 0
    freed = [t for t in trials if t.state == TrialState.FAIL]
    assert [t.user_attrs[FAILURE] for t in freed] == ["interrupted"] * 6
    assert len(list((folder / "small").iterdir())) == 6

    run_steps.clear()
    runs = tune(SPEC, url, preemption=Preemption(folder), device="cpu")
    assert sum(run_steps) == 0.25 * N_STEPS
    assert list((folder / "small").iterdir()) == []
    require_same(runs, tmp_path)


def test_a_worker_that_is_not_alone_takes_up_a_part_of_a_pack(
    url: str, folder: Path, tmp_path: Path, run_steps: list[int]
) -> None:
    """Beside others it takes fewer cells, so the packs are cut otherwise than before."""
    preemption = Preemption(folder)

    def ask(event: TuneEvent) -> None:
        if event.fraction == 0.5:
            preemption.ask()

    with pytest.raises(StopAsked):
        tune(SPEC, url, notify=ask, preemption=preemption, device="cpu")
    sizes: list[int] = []
    run_steps.clear()
    runs = tune(
        SPEC,
        url,
        notify=lambda event: sizes.append(event.n_runs),
        preemption=Preemption(folder),
        shares=True,
        device="cpu",
    )
    assert max(sizes) < 6
    assert sum(run_steps) == 0.75 * N_STEPS
    require_same(runs, tmp_path)


def test_leftovers_of_finished_cells_go_at_the_end_of_a_stage(url: str, folder: Path) -> None:
    preemption = Preemption(folder)
    with pytest.raises(StopAsked):
        tune(SPEC, url, notify=lambda e: preemption.ask(), preemption=preemption, device="cpu")
    preemption = Preemption(folder)
    asked = [e for e in range(3)]

    def ask(event: TuneEvent) -> None:
        if event.fraction == 0.5 and asked:
            asked.clear()
            preemption.ask()

    with pytest.raises(StopAsked):
        tune(SPEC, url, notify=ask, preemption=preemption, device="cpu")
    saved = {p.name: p.read_bytes() for p in (folder / "small").iterdir()}
    tune(SPEC, url, preemption=Preemption(folder), device="cpu")
    for name, content in saved.items():  # as a worker leaves them that was thought dead
        (folder / "small" / name).write_bytes(content)
    (folder / "small" / "another").write_bytes(b"not ours")
    tune(SPEC, url, preemption=Preemption(folder), device="cpu")
    assert [p.name for p in (folder / "small").iterdir()] == ["another"]


def test_cells_that_are_sampled_leave_none(url: str, folder: Path) -> None:
    preemption = Preemption(folder, every_s=0.0)
    spec = replace(SPEC, sampler="tpe")

    def ask(event: TuneEvent) -> None:
        if event.fraction == 0.5:
            preemption.ask()

    with pytest.raises(StopAsked):
        tune(spec, url, notify=ask, preemption=preemption, device="cpu")
    assert not folder.exists()
    assert len(tune(spec, url, device="cpu")) == len(SPEC.grid_cells())


def test_a_function_of_ones_own_ends_its_run_first(url: str) -> None:
    preemption, trained = Preemption(None), []

    def train(size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> float:
        trained.append(tuned)
        if len(trained) == 3:
            assert preemption.ask()
        return valley(size, tuned, seed)

    with pytest.raises(StopAsked):
        tune(SPEC, url, train=train, preemption=preemption)
    assert len(trained) == 3
    states = [t.state for t in trials_of(url)]
    assert states.count(TrialState.COMPLETE) == 3
    assert states.count(TrialState.RUNNING) == 0


def test_whoever_waits_for_others_stops_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from extrap.tuning import loop

    preemption = Preemption(None)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert not preemption.ask()  # nobody is in training

    monkeypatch.setattr(loop.time, "sleep", sleep)
    with loop.Ledger(open_storage(url), SPEC, stage="tune", fingerprint={}).claimed(
        SPEC.grid_cells()[:2]
    ):
        monkeypatch.setattr(loop, "fingerprint", lambda spec, data: {})
        with pytest.raises(StopAsked):
            tune(
                SPEC,
                url,
                train=valley,
                extend=lambda _: SPEC.grid_cells()[:2],
                preemption=preemption,
            )
    assert len(slept) == 1


def test_one_is_in_force_within_its_block_only() -> None:
    ours = Preemption(None)
    with ours.in_force():
        assert current_preemption() is ours
    assert current_preemption() is not ours
    assert current_preemption().folder == Path(".extrap/checkpoints")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_waits_for_an_evaluation_and_the_second_one_does_not(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def train() -> None:
        with current_preemption().heard():
            os.kill(os.getpid(), number)
            assert current_preemption().is_asked
            said.append(capfd.readouterr().err)
            os.kill(os.getpid(), number)
            pytest.fail("the second one was not heard")

    with stops_gracefully(1000):
        with pytest.raises(KeyboardInterrupt) as stopped:
            train()
        assert not isinstance(stopped.value, StopAsked)
        os.kill(os.getpid(), number)  # leaving takes a moment: that changes nothing
    assert said == ["stopping at the next evaluation, in 1000 s at the latest\n"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_signal_ends_at_once_what_is_no_training() -> None:
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(KeyboardInterrupt), stops_gracefully(1000):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_evaluation_that_does_not_come_is_not_waited_for() -> None:
    def train() -> None:
        with current_preemption().heard():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    with stops_gracefully(0.01), pytest.raises(KeyboardInterrupt) as stopped:
        train()
    assert not isinstance(stopped.value, StopAsked)


def test_who_is_leaving_is_not_cut_short() -> None:
    def train() -> None:
        with current_preemption().heard():
            os.kill(os.getpid(), signal.SIGTERM)

    with stops_gracefully(1000):
        with pytest.raises(StopAsked):
            train()
        os.kill(os.getpid(), signal.SIGALRM)  # the time is over while cells are freed
        os.kill(os.getpid(), signal.SIGTERM)


STUDY = """
from extrap.records import *
STUDY = StudySpec(
    name="tiny", question="?",
    workload=Workload(name="teacher", options={"n_features": 16, "n_examples": 500}),
    sizes={"width": (2, 4)}, tune={"lr": TunedRange(low=2**-4, high=2, n=6)},
    recipe=Recipe(steps=40, batch_size=8, n_evals=4), seeds=(0, 1),
)
"""
# Runs the command line, counts what is trained, and is hit by a signal in the second pack.
SCRIPT = """
import os, signal, sys
from extrap.cli import main
from extrap.tuning.progress import StudyProgress
from extrap.training import parts, preemption
from extrap.training.stacks import Stack
number, seen, trained = int(sys.argv[1]), [], 0

class Counted(Stack):
    def advance(self, start, stop):
        global trained
        trained += len(self) * (stop - start)
        return super().advance(start, stop)

def hit(self, event):
    seen.append(event)
    if event.size == {"width": 4} and event.fraction == 0.5 and number:
        os.kill(os.getpid(), number)

parts.Stack = Counted
StudyProgress.notify = hit
if number == signal.SIGKILL:
    preemption.Preemption.__init__.__kwdefaults__["every_s"] = 0.0
code = main(sys.argv[2:])
print("trained", trained)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "number"),
    [("work", signal.SIGTERM), ("run", signal.SIGUSR1), ("work", signal.SIGKILL)],
)
def test_a_command_that_is_ended_in_mid_pack_goes_on_from_there(
    verb: str, number: signal.Signals, tmp_path: Path
) -> None:
    path, script = tmp_path / "tiny.py", tmp_path / "script.py"
    path.write_text(STUDY)
    script.write_text(SCRIPT)
    url, whole_url = (f"sqlite:///{tmp_path}/{name}.db" for name in ("study", "whole"))
    folder = tmp_path / "shared"

    def start(number: int, place: str, verb: str = "work") -> subprocess.CompletedProcess[str]:
        command = ["study", verb, str(path), "--storage", place, "--quiet"]
        return subprocess.run(
            [
                sys.executable,
                str(script),
                str(int(number)),
                *command,
                "--checkpoints",
                str(folder),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=False,
        )

    ended = start(number, url, verb)
    states = [t.state for t in trials_of(url)]
    n_done = states.count(TrialState.COMPLETE)
    if number == signal.SIGKILL:
        assert ended.returncode == -signal.SIGKILL
        n_begun = states.count(TrialState.RUNNING)
    else:
        assert ended.returncode == 130, ended.stderr
        assert "stopped; the same command resumes" in ended.stderr
        n_begun = states.count(TrialState.FAIL)
        assert states.count(TrialState.RUNNING) == 0
    assert n_done >= 12
    assert n_begun > 1
    assert len(list((folder / "tiny").glob("*.pt"))) == n_begun
    second = start(0, url)
    assert second.returncode == 0, second.stderr
    whole = start(0, whole_url)
    assert whole.returncode == 0, whole.stderr
    trained, in_all = (int(r.stdout.split("trained ")[1]) for r in (second, whole))
    assert trained == in_all - n_done * 40 - n_begun * 20
    assert list((folder / "tiny").iterdir()) == []

    tables = [read_runs(place, size="width", tune="lr") for place in (url, whole_url)]
    pd.testing.assert_frame_equal(*map(table, tables), check_exact=True)
