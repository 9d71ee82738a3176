"""A command of one's own: what it is told, what it tells, and how it ends."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from extrap.errors import ExtrapError, StudyError
from extrap.records import Cell, Command, StudySpec, TunedRange
from extrap.study import tune
from extrap.training.own.commands import CommandRunner, describe, run_name
from extrap.training.preemption import Preemption, StopAsked
from tests.waiting import wait_until

SPEC = StudySpec(
    name="mine",
    question="?",
    sizes={"width": (8,)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=2)},
    seeds=(0,),
    growth=0,
)
NO_STOP = Preemption(folder=None)
TOLD = ("--width={width}", "--lr={lr}", "--seed={seed}")


def runner(tmp_path, script, *more, **options):
    """A command that runs a script with all that a run is told."""
    path = tmp_path / "script.py"
    path.write_text(script)
    preemption = options.pop("preemption", NO_STOP)
    command = Command(["python", str(path), *TOLD, *more], **options)
    return CommandRunner(
        command, SPEC, is_asked=lambda: preemption.is_asked, folder=tmp_path / "runs"
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


@pytest.mark.parametrize(
    ("script", "loss", "named"),
    [
        ("print('hello')", "", "output: hello"),
        ("", "top1", r"\(top1\)"),
        ("print('train loss=1')", "", "output: train loss=1"),
        ("import os\nos.kill(os.getpid(), 9)", "", "SIGKILL"),
        ("import sys\nsys.exit('CUDA out of\\x1b[31m memory')", "", "code 1;.*CUDA out of"),
    ],
)
def test_a_command_that_prints_no_loss_has_failed(tmp_path, script, loss, named):
    with pytest.raises(ExtrapError, match=named) as caught:
        run(runner(tmp_path, script, loss=loss))
    assert "\x1b" not in str(caught.value)
    assert str(only_log(tmp_path)) in str(caught.value)


SAY = """
import pathlib, signal, subprocess, sys, time
def say(*words):
    part = pathlib.Path(sys.argv[-1] + ".part")
    part.write_text(" ".join(map(str, words)))
    part.rename(sys.argv[-1])
"""


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
def test_a_run_that_hangs_is_ended_with_all_it_started(tmp_path, deaf, monkeypatch):
    """Its time is over when it has begun to hang; what ignores SIGTERM is killed."""
    script = (
        f"{SAY}{deaf}child = subprocess.Popen(['sleep', '9999'])\nsay(child.pid)\ntime.sleep(9999)"
    )
    said = tmp_path / "pid"
    clock = SimpleNamespace(monotonic=lambda: 1e6 * said.exists())
    monkeypatch.setattr("extrap.training.own.commands.time", clock)
    with pytest.raises(ExtrapError, match="timeout of 1 s"):
        run(runner(tmp_path, script, str(said), timeout_s=1, grace_s=0.2 if deaf else 600))
    assert is_over(int(said.read_text()))


DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(9999)"
)


@pytest.mark.parametrize(
    ("last_word", "own_group"), [("print('loss=1')", ""), ("sys.exit(3)", "process_group=0")]
)
def test_what_a_command_leaves_running_is_ended_however_it_ends(tmp_path, last_word, own_group):
    script = (
        f"{SAY}pipe = subprocess.PIPE\n"
        f"deaf = subprocess.Popen([sys.executable, '-c', {DEAF!r}], stdout=pipe, {own_group})\n"
        f"other = subprocess.Popen(['sleep', '9999'], {own_group})\n"
        f"deaf.stdout.readline()\nsay(deaf.pid, other.pid)\n{last_word}"
    )
    said = tmp_path / "pids"
    trainer = runner(tmp_path, script, str(said), grace_s=0.5)
    if "exit" in last_word:
        with pytest.raises(ExtrapError, match="exit code 3"):
            run(trainer)
    else:
        answer = run(trainer)
        assert answer["loss"] == 1
    assert [is_over(int(pid)) for pid in said.read_text().split()] == [True, True]


def test_a_command_whose_supervisor_is_killed_is_killed_too(tmp_path):
    said = tmp_path / "pid"
    script = f"{SAY}import os\nsay(os.getpid())\nos.kill(os.getppid(), 9)\ntime.sleep(9999)"
    with pytest.raises(ExtrapError, match="SIGKILL"):
        run(runner(tmp_path, script, str(said)))
    assert is_over(int(said.read_text()))


DRIVER = """
import sys
from extrap.records import Command
from extrap.study import tune
from tests.training.test_own_commands import SPEC, TOLD
command = Command(["python", *sys.argv[2:4], *TOLD], grace_s=0.2)
tune(SPEC, sys.argv[1], train=command)
"""


def test_no_process_is_left_when_the_driver_is_killed(tmp_path):
    """Not the command, a child that is deaf to SIGTERM, nor a daemon in a session of its own."""
    said, script = tmp_path / "pids", tmp_path / "script.py"
    start = "subprocess.Popen([sys.executable, '-c', deaf], stdout=-1, start_new_session={})"
    script.write_text(
        "import os, pathlib, subprocess, sys, time\n"
        f"deaf = {DEAF!r}\n"
        f"started = [{start.format(False)}, {start.format(True)}]\n"
        "for each in started: each.stdout.readline()\n"
        "pids = [os.getpid(), *(each.pid for each in started)]\n"
        "part = pathlib.Path(sys.argv[1] + '.part')\n"
        "part.write_text(' '.join(map(str, pids)))\n"
        "part.rename(sys.argv[1])\n"
        "time.sleep(9999)"
    )
    words = (f"sqlite:///{tmp_path}/study.db", str(script), str(said))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
    )
    wait_until(said.exists)
    driver.kill()
    driver.wait()
    assert [is_over(int(pid)) for pid in said.read_text().split()] == [True] * 3


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
    assert list((tmp_path / "runs").rglob("saved"))
    answer = run(runner(tmp_path, script, "{run_dir}"))
    assert answer["loss"] == 1


def test_ctrl_c_ends_the_command(tmp_path):
    said = tmp_path / "pid"
    script = f"{SAY}import os\nsay(os.getpid())\ntime.sleep(9999)"

    class Stopped:
        folder, is_heard = None, True

        @property
        def is_asked(self):
            if said.exists():
                raise KeyboardInterrupt
            return False

    with pytest.raises(KeyboardInterrupt):
        run(runner(tmp_path, script, str(said), preemption=Stopped(), grace_s=5))
    assert is_over(int(said.read_text()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", '{"step": 1, "loss": 3}\n\n{"step": 2, "loss": 2, "n_params": 50}\n{"st'),
        ("m.json", '[{"step": 1, "loss": 3}, {"step": 2, "loss": 2, "n_params": 50}]'),
        ("m.csv", "step,loss,n_params\n1,3,\n2,2,50\n3,,\n"),
    ],
)
def test_a_result_file_is_read(tmp_path, name, text):
    script = f"import pathlib, sys\nopen(sys.argv[-1] + '/{name}', 'w').write({text!r})"
    answer = run(runner(tmp_path, script, "{run_dir}", result=name))
    assert answer == {"loss": 2, "curve": [(1, 3), (2, 2)], "n_params": 50}
    with pytest.raises(
        ExtrapError, match=f"not write {name}"
    ):  # that of an earlier attempt is none
        run(runner(tmp_path, "pass", "{run_dir}", result=name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"acc": 1}', "val_loss or .* has acc"),
        ("{", "cannot be read"),
        ('{"loss": "low"}', "a loss must be a number"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_result_that_tells_no_loss_says_what_is_there(tmp_path, text, message):
    script = f"import sys\nopen(sys.argv[-1] + '/m.json', 'w').write({text!r})"
    with pytest.raises(ExtrapError, match=message):
        run(runner(tmp_path, script, "{run_dir}", result="m.json"))


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


def test_files_of_one_name_or_behind_an_equals_sign_are_part_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("a/conf.yaml", "b/conf.yaml", "c.json")
    command = Command(["python", *names[:2], f"--set={names[2]}", *TOLD])

    def described(changed=""):
        for name in names:
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text("changed" if name == changed else f"of {name}")
        return describe(command)

    begun = described()
    assert list(begun["source"]) == ["conf.yaml", "conf.yaml (2)", "c.json"]
    for name in names:
        assert described(name) != begun
    assert described() == begun
    Path("c.json").unlink()
    assert describe(command) != begun


def test_runs_are_named_readably_apart_and_within_their_folder():
    one, two = (Cell.of({"n/../x": 8}, {"lr": lr}, 0) for lr in (0.1234567891, 0.1234567892))
    assert run_name(one) != run_name(two)
    assert run_name(one).startswith("n_.._x=8,lr=0.123457,seed=0-")


def is_over(pid):
    """Whether a process ends: it is gone, or dead and waits for nobody."""

    def is_dead():
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(is_dead)
    return True
