"""A command of one's own: what it is told, what it tells, and how it ends."""

import json
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from extrap.errors import ExtrapError, StudyError
from extrap.records import Cell, Command
from extrap.study import tune
from extrap.training.own.commands import CommandRunner, run_name
from extrap.training.preemption import Preemption, StopAsked
from tests.study.trials import spec
from tests.waiting import wait_until

SPEC = spec("mine", sizes={"width": (8,)})
NO_STOP = Preemption(folder=None)
TOLD = ("--width={width}", "--lr={lr}", "--seed={seed}")


def runner(tmp_path, script, *more, **options):
    """A command that runs a script with all that a run is told."""
    path = tmp_path / "script.py"
    path.write_text(script)
    preemption = options.pop("preemption", NO_STOP)
    command = Command(["python", str(path), *TOLD, *more], **options)
    return CommandRunner(
        command,
        SPEC,
        is_stop_requested=lambda: preemption.is_stop_requested,
        folder=tmp_path / "runs",
    )


def run(trainer, lr=0.01):
    return trainer({"width": 8.0}, {"lr": lr}, 3)


def only_log(tmp_path):
    (log,) = (tmp_path / "runs").glob("*.log")
    return log


def test_words_are_arguments_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = "import json, sys\nprint(json.dumps(sys.argv[1:]))\nprint('loss=2')"
    evil = " ".join(["; touch pwned", "$(touch a)", "`touch b`", "{{x}} *"])
    answer = run(runner(tmp_path, script, evil), lr=0.0078125)
    words = json.loads(only_log(tmp_path).read_text().splitlines()[1])
    assert answer["loss"] == 2
    told = ["--width=8", "--lr=0.0078125", "--seed=3"]
    assert words == [*told, evil.replace("{{x}}", "{x}")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "script.py"]


def test_the_last_loss_and_its_curve_are_read_and_the_output_is_in_the_log(tmp_path):
    script = """
for i in (10, 20): print(f'step {i}: val_loss={3 / i}  train loss 9', end='\\r')
print('test loss=1 \\x1b[31mbest loss 0.1', end='')
"""
    trainer = runner(tmp_path, script)
    answers = [run(trainer) for _ in range(2)]
    assert answers == [{"loss": 0.15, "curve": [(10, 0.3), (20, 0.15)]}] * 2
    assert only_log(tmp_path).read_text().count("test loss=1 ") == 2


def test_a_nan_is_a_diverged_run(tmp_path):
    trainer = runner(tmp_path, "print('loss=2')\nprint('loss: nan')")
    url = f"sqlite:///{tmp_path}/study.db"
    assert set(tune(SPEC, url, train=trainer).to_frame()["status"]) == {"diverged"}


def test_placeholders_are_those_of_the_study_and_the_program_is_there(tmp_path):
    spec = replace(SPEC, sizes={"depth": (2,)}, path={"width": "4 * depth"})
    CommandRunner(Command(["python", "{width}", "{lr}"]), spec)
    for words, message in (
        (["python", "x"], r"add \{lr\}, \{width\}"),
        (["python", "{rate}", *TOLD], "got rate"),
        (["no-such-program", *TOLD], "'no-such-program'"),
    ):
        with pytest.raises(ValueError, match=message):
            CommandRunner(Command(words), SPEC)


def test_a_changed_script_is_another_training_wherever_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/study.db"
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "fit.py"
        script.write_text("print('loss=1')")
        assert len(tune(SPEC, url, train=Command(["python", str(script), *TOLD]))) == 2
    script.write_text("print('loss=2')")
    with pytest.raises(StudyError, match=r"data\.source\.fit\.py: "):
        tune(SPEC, url, train=Command(["python", str(script), *TOLD]))
    with pytest.raises(StudyError, match=r"data\.command: "):
        tune(SPEC, url, train=Command(["python", str(script), *TOLD, "--more"]))


RESUMES = """
import pathlib, sys
left = pathlib.Path(sys.argv[-1]) / "loss"
left.write_text(left.read_text() if left.exists() else "LOSS")
print(f"loss={left.read_text()}")
raise SystemExit(int(not pathlib.Path("gate").exists()))
"""
"""Goes on from what it left itself, as from a checkpoint, and fails until there is a gate."""


def test_what_a_run_left_is_taken_up_by_the_same_study_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script, gate = tmp_path / "fit.py", tmp_path / "gate"
    command = Command(["python", "fit.py", *TOLD, "{run_dir}"])

    def losses(storage, told):
        script.write_text(RESUMES.replace("LOSS", str(told)))
        return set(tune(SPEC, f"sqlite:///{storage}", train=command).to_frame()["loss"])

    def n_left():
        return len(list(Path(".extrap/mine/runs").rglob("loss")))

    with pytest.raises(ExtrapError, match="exit code 1"):
        losses("one.db", 1)
    gate.touch()
    assert losses("one.db", 1) == {1}
    assert n_left() == 2  # the one that failed went on where it was
    assert losses("two.db", 2) == {2}  # another script
    losses("three.db", 2)  # the same script, but what it imports may have changed
    assert n_left() == 6


def test_runs_are_named_readably_apart_and_within_their_folder():
    one, two = (Cell.of({"n/../x": 8}, {"lr": lr}, 0) for lr in (0.1234567891, 0.1234567892))
    assert run_name(one) != run_name(two)
    assert run_name(one).startswith("n_.._x=8,lr=0.123457,seed=0-")


WRITE = "import sys\nopen(sys.argv[-1] + '/{name}', 'w').write({text!r})"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", '{"step": 1, "loss": 3}\n\n{"step": 2, "loss": 2, "n_params": 50}\n{"st'),
        ("m.json", '[{"step": 1, "loss": 3}, {"step": 2, "loss": 2, "n_params": 50}]'),
        ("m.csv", "step,loss,n_params\n1,3,\n2,2,50\n3,,\n"),
    ],
)
def test_a_result_file_is_read(tmp_path, name, text):
    script = WRITE.format(name=name, text=text)
    answer = run(runner(tmp_path, script, "{run_dir}", result=name))
    assert answer == {"loss": 2, "curve": [(1, 3), (2, 2)], "n_params": 50}
    with pytest.raises(ExtrapError, match=f"not write {name}"):  # that of an earlier attempt
        run(runner(tmp_path, "pass", "{run_dir}", result=name))


def writes(text):
    return WRITE.format(name="m.json", text=text), {"result": "m.json"}


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("print('hello')", {}, "output: hello"),
        ("", {"loss": "top1"}, r"\(top1\)"),
        ("print('train loss=1')", {}, "output: train loss=1"),
        ("import os\nos.kill(os.getpid(), 9)", {}, "SIGKILL"),
        ("import os\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(9999)", {}, "SIGKILL"),
        ("import sys\nsys.exit('CUDA out of\\x1b[31m memory')", {}, "code 1;.*CUDA out of"),
        (*writes('{"acc": 1}'), "val_loss or .* has acc"),
        (*writes("{"), "cannot be read"),
        (*writes('{"loss": "low"}'), "a loss must be a number"),
        (*writes("[" * 100_000), "cannot be read"),
    ],
)
def test_a_command_that_says_no_loss_has_failed(tmp_path, script, options, message):
    with pytest.raises(ExtrapError, match=message) as caught:
        run(runner(tmp_path, script, "{run_dir}", **options))
    assert "\x1b" not in str(caught.value)
    assert options.get("result") or str(only_log(tmp_path)) in str(caught.value)


STARTS = """
import os, pathlib, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
deaf = [sys.executable, "-c", deaf + "; print('deaf', flush=True); time.sleep(9999)"]
started = [subprocess.Popen(deaf, stdout=-1, start_new_session=own) for own in (False, True)]
for each in started: each.stdout.readline()
part = pathlib.Path(sys.argv[-1] + ".part")
part.write_text(" ".join(str(pid) for pid in (os.getpid(), *(each.pid for each in started))))
part.rename(sys.argv[-1])
"""
"""Starts two processes that ignore SIGTERM, one in a session of its own, and says their ids."""


def are_over(path):
    """Whether processes end: they are gone, or dead and wait for nobody."""

    def is_dead(pid):
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    for pid in map(int, path.read_text().split()):
        wait_until(lambda pid=pid: is_dead(pid))
    return True


@pytest.mark.parametrize(
    ("end", "named"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("print('loss=1')", ""),
        ("time.sleep(9999)", "timeout of 1 s"),
    ],
)
def test_however_a_command_ends_all_that_it_started_ends(tmp_path, monkeypatch, end, named):
    """The time of one that hangs is over when it has begun to hang."""
    said = tmp_path / "pids"
    if "timeout" in named:
        clock = SimpleNamespace(monotonic=lambda: 1e6 * said.exists())
        monkeypatch.setattr("extrap.training.own.commands.time", clock)
    limit = {"timeout_s": 1} if "timeout" in named else {}
    trainer = runner(tmp_path, STARTS + end, str(said), grace_s=0.2, **limit)
    with pytest.raises(ExtrapError, match=named) if named else nullcontext():
        run(trainer)
    assert are_over(said)


DRIVER = """
import sys
from extrap.records import Command
from extrap.study import tune
from tests.training.test_own_commands import SPEC, TOLD
tune(SPEC, sys.argv[1], train=Command(["python", sys.argv[2], *TOLD, sys.argv[3]], grace_s=0.2))
"""


def test_no_process_is_left_when_the_driver_is_killed(tmp_path):
    said, script = tmp_path / "pids", tmp_path / "script.py"
    script.write_text(f"{STARTS}time.sleep(9999)")
    words = (f"sqlite:///{tmp_path}/study.db", str(script), str(said))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words],
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    wait_until(said.exists)
    driver.kill()
    driver.wait()
    assert are_over(said)


def test_asked_to_stop_the_command_gets_sigterm_and_goes_on_in_its_folder(tmp_path):
    preemption = Preemption(folder=None)
    script = (
        "import pathlib, signal, sys\n"
        "place = pathlib.Path(sys.argv[-1])\n"
        "def leave(*_):\n    (place / 'saved').touch()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print('loss=9', flush=True)\n"
        "if (place / 'saved').exists():\n    sys.exit(print('loss=1'))\n"
        "(place / 'ready').touch()\n"
        "while True: signal.pause()"
    )

    def ask():
        wait_until(lambda: bool(list(tmp_path.rglob("ready"))))
        preemption.ask()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(StopAsked):
        run(runner(tmp_path, script, "{run_dir}", preemption=preemption))
    asking.join()
    answer = run(runner(tmp_path, script, "{run_dir}"))
    assert answer["loss"] == 1
