"""A command of one's own: what it is told, what it tells, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from extrap.errors import ExtrapError, StudyError
from extrap.records import Cell, Command, StudySpec, TunedRange
from extrap.training.preemption import Preemption, StopAsked
from extrap.tuning import tune
from extrap.tuning.commands import CommandRunner, describe, run_name
from extrap.tuning.running import LOG_BYTES

SPEC = StudySpec(
    name="mine",
    question="?",
    sizes={"width": (8,)},
    tune={"lr": TunedRange(low=0.01, high=0.04, n=2)},
    seeds=(0,),
)
NO_STOP = Preemption(folder=None)
TOLD = ("--width={width}", "--lr={lr}", "--seed={seed}")


def runner(tmp_path: Path, script: str, *more: str, **options: Any) -> CommandRunner:
    """A command that runs a script with all that a run is told."""
    path = tmp_path / "script.py"
    path.write_text(script)
    preemption = options.pop("preemption", NO_STOP)
    command = Command(["python", str(path), *TOLD, *more], **options)
    return CommandRunner(command, SPEC, preemption, folder=tmp_path / "runs")


def run(trainer: CommandRunner, lr: float = 0.01) -> dict[str, Any]:
    return trainer({"width": 8.0}, {"lr": lr}, 3)


def only_log(tmp_path: Path) -> Path:
    (log,) = (tmp_path / "runs").glob("*.log")
    return log


def test_words_are_arguments_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "import json, sys\nprint(json.dumps(sys.argv[1:]))\nprint('loss=2')"
    evil = "; touch pwned $(touch pwned) `touch pwned` {{x}} *"
    assert run(runner(tmp_path, script, evil), lr=0.0078125)["loss"] == 2
    said = only_log(tmp_path).read_text().splitlines()[1]
    expected = ["--width=8", "--lr=0.0078125", "--seed=3", evil.replace("{{x}}", "{x}")]
    assert json.loads(said) == expected
    assert not list(tmp_path.rglob("pwned"))


def test_the_last_loss_and_its_curve_are_read(tmp_path: Path) -> None:
    script = "for i in (10, 20, 30): print(f'step {i}: val_loss={3 / i}  train loss 9')"
    answer = run(runner(tmp_path, script))
    assert answer == {"loss": 0.1, "curve": [(10, 0.3), (20, 0.15), (30, 0.1)]}


def test_the_log_ends_with_the_line_that_was_read_as_the_loss(tmp_path: Path) -> None:
    script = """
for i in (10, 20): print(f'step {i}: val_loss={3 / i}  train loss 9')
print('test loss=1 \\x1b[31mbest loss 0.1', end='')
"""
    trainer = runner(tmp_path, script)
    run(trainer)
    *said, note = only_log(tmp_path).read_text().splitlines()
    assert said[-1].startswith("test loss=1 ")  # though it had no newline
    line = "step 20: val_loss=0.15  train loss 9"
    told = f"== loss 0.15 is that of the last line with val_loss, {line!r}; points of its curve: 2"
    assert note == told
    run(trainer)
    notes = [line for line in only_log(tmp_path).read_text().splitlines() if "== loss" in line]
    assert notes == [told, told]  # one a run


def test_the_line_of_a_pattern_and_the_record_of_a_file_are_told_too(tmp_path: Path) -> None:
    pattern = runner(tmp_path, "print('top1=0.75', 'x' * 900)", loss=r"top1=([0-9.]+)")
    run(pattern)
    note = only_log(tmp_path).read_text().splitlines()[-1]
    assert note.startswith("== loss 0.75 is that of the last line with what matches the pattern")
    assert note.endswith("x…'; points of its curve: 0")
    assert len(note) < 700

    script = "import pathlib, sys\npathlib.Path(sys.argv[4], 'a.jsonl').write_text(TEXT)"
    text = '{"step": 1, "eval_loss": 3, "loss": 9}\n{"loss": 8}\n'
    record = runner(tmp_path, f"TEXT = {text!r}\n{script}", "{run_dir}", result="a.jsonl")
    assert run(record)["loss"] == 3
    logs = [log.read_text() for log in (tmp_path / "runs").glob("*.log")]
    told = "== loss 3 is eval_loss of the last record with it in a.jsonl; points of its curve: 1\n"
    assert [log.endswith(told) for log in logs].count(True) == 1


def test_a_nan_is_a_diverged_run(tmp_path: Path) -> None:
    trainer = runner(tmp_path, "print('loss=2')\nprint('loss: nan')")
    url = f"sqlite:///{tmp_path}/study.db"
    assert set(tune(SPEC, url, train=trainer).to_frame()["status"]) == {"diverged"}


def test_a_command_that_prints_no_loss_has_failed(tmp_path: Path) -> None:
    with pytest.raises(ExtrapError, match=r"printed no loss .*the last of its standard output: h"):
        run(runner(tmp_path, "print('hello')"))
    with pytest.raises(ExtrapError, match=r"printed no loss \(top1\), without a word"):
        run(runner(tmp_path, "", loss="top1"))
    with pytest.raises(ExtrapError, match=r"'train loss=1' is another loss.*so: loss='…'; the"):
        run(runner(tmp_path, "print('train loss=1')"))


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    script = "import sys\nprint('loss=1')\nsys.exit('CUDA out of\\x1b[31m memory')"
    with pytest.raises(ExtrapError) as caught:
        run(runner(tmp_path, script))
    assert "ended with exit code 1; the last of its standard error: CUDA out of" in str(
        caught.value
    )
    assert "\x1b" not in str(caught.value)
    assert str(only_log(tmp_path)) in str(caught.value)


def test_a_command_that_is_killed_says_by_what(tmp_path: Path) -> None:
    with pytest.raises(ExtrapError, match="was ended by SIGKILL, as a machine out of memory does"):
        run(runner(tmp_path, "import os\nos.kill(os.getpid(), 9)"))


def test_a_failed_cell_is_trained_at_the_next_start(tmp_path: Path) -> None:
    url, gate = f"sqlite:///{tmp_path}/study.db", tmp_path / "gate"
    script = f"import os\nassert os.path.exists({str(gate)!r}), 'closed'\nprint('loss=1')"
    trainer = runner(tmp_path, script)
    with pytest.raises(ExtrapError, match="AssertionError: closed"):
        tune(SPEC, url, train=trainer)
    gate.touch()
    assert len(tune(SPEC, url, train=trainer)) == 2


def test_a_run_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    script = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "pathlib.Path(sys.argv[-1]).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    said = tmp_path / "pid"
    with pytest.raises(ExtrapError, match="took longer than its timeout of 1 s and was ended"):
        run(runner(tmp_path, script, str(said), timeout_s=1, grace_s=5))
    assert is_over(int(said.read_text()))


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


@pytest.mark.parametrize("last_word", ["print('loss=1')", "sys.exit(3)"])
@pytest.mark.parametrize("own_group", ["", ", process_group=0"])
def test_what_a_command_leaves_running_is_ended_however_it_ends(
    tmp_path: Path, last_word: str, own_group: str
) -> None:
    script = (
        "import pathlib, subprocess, sys, time\n"
        f"words = [[sys.executable, '-c', {DEAF!r}], ['sleep', '60']]\n"
        f"left = [subprocess.Popen(w{own_group}) for w in words]\n"
        "time.sleep(0.5)\n"
        "pathlib.Path(sys.argv[-1]).write_text(' '.join(str(child.pid) for child in left))\n"
        f"{last_word}"
    )
    said = tmp_path / "pids"
    trainer = runner(tmp_path, script, str(said), grace_s=0.5)
    if "exit" in last_word:
        with pytest.raises(ExtrapError, match="exit code 3"):
            run(trainer)
    else:
        assert run(trainer)["loss"] == 1
    assert [is_over(int(pid)) for pid in said.read_text().split()] == [True, True]


def test_a_command_whose_keeper_is_killed_is_killed_too(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    script = (
        "import os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[-1]).write_text(str(os.getpid()))\n"
        "os.kill(os.getppid(), 9)\n"
        "time.sleep(60)"
    )
    with pytest.raises(ExtrapError, match="was ended by SIGKILL"):
        run(runner(tmp_path, script, str(said)))
    assert is_over(int(said.read_text()))


def test_what_does_not_hear_sigterm_is_killed(tmp_path: Path) -> None:
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    started = time.monotonic()
    with pytest.raises(ExtrapError, match="took longer"):
        run(runner(tmp_path, script, timeout_s=0.5, grace_s=0.2))
    assert time.monotonic() - started < 30


def test_asked_to_stop_the_command_gets_sigterm_and_goes_on_in_its_folder(tmp_path: Path) -> None:
    preemption = Preemption(folder=None)
    script = (
        "import pathlib, signal, sys, time\n"
        "place = pathlib.Path(sys.argv[-1])\n"
        "def leave(*_):\n    (place / 'saved').touch()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print('loss=9', flush=True)\n"
        "if (place / 'saved').exists():\n    sys.exit(print('loss=1'))\n"
        "(place / 'ready').touch()\n"
        "time.sleep(60)"
    )
    trainer = runner(tmp_path, script, "{run_dir}", preemption=preemption)

    def ask() -> None:
        while not list(tmp_path.rglob("ready")):
            time.sleep(0.02)
        preemption.ask()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(StopAsked):
        run(trainer)
    asking.join()
    assert list((tmp_path / "runs").rglob("saved"))
    assert run(runner(tmp_path, script, "{run_dir}"))["loss"] == 1


def test_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    script = "import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"

    class Stopped:
        folder, is_heard = None, True

        @property
        def is_asked(self) -> bool:
            if list((tmp_path / "runs").glob("*.log")) and self.pid():
                raise KeyboardInterrupt
            return False

        def pid(self) -> int:
            words = only_log(tmp_path).read_text().split()
            return int(words[-1]) if words[-1].isdigit() else 0

    stopped = Stopped()
    with pytest.raises(KeyboardInterrupt):
        run(runner(tmp_path, script, preemption=stopped, grace_s=5))
    assert is_over(stopped.pid())


def test_output_is_kept_within_bounds(tmp_path: Path) -> None:
    script = (
        "import sys\nline = 'x' * 99 + '\\n'\n"
        "for i in range(40): sys.stdout.write(line * 1000)\n"
        "sys.stdout.write('y' * 3_000_000 + '\\n')\nprint('loss=4')"
    )
    assert run(runner(tmp_path, script))["loss"] == 4
    kept = sum(path.stat().st_size for path in (tmp_path / "runs").iterdir())
    assert LOG_BYTES / 2 < kept <= 2 * LOG_BYTES + 2**16
    assert only_log(tmp_path).read_text().partition("y\n")[2].startswith("loss=4\n== ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", '{"step": 1, "loss": 3}\n\n{"step": 2, "loss": 2, "n_params": 50}\n{"st'),
        ("m.json", '[{"step": 1, "loss": 3}, {"step": 2, "loss": 2, "n_params": 50}]'),
        ("m.csv", "step,loss,n_params\n1,3,\n2,2,50\n3,,\n"),
    ],
)
def test_a_result_file_is_read(tmp_path: Path, name: str, text: str) -> None:
    script = f"import pathlib, sys\nopen(sys.argv[-1] + '/{name}', 'w').write({text!r})"
    answer = run(runner(tmp_path, script, "{run_dir}", result=name))
    assert answer == {"loss": 2, "curve": [(1, 3), (2, 2)], "n_params": 50}


def test_what_an_earlier_attempt_wrote_is_no_result(tmp_path: Path) -> None:
    write = "import sys\nopen(sys.argv[-1] + '/m.json', 'w').write('{\"loss\": 2}')"
    assert run(runner(tmp_path, write, "{run_dir}", result="m.json"))["loss"] == 2
    with pytest.raises(ExtrapError, match=r"wrote no m\.json into"):
        run(runner(tmp_path, "pass", "{run_dir}", result="m.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"acc": 1}', "has a record with val_loss or .* has acc; name it with loss="),
        ("{", "cannot be read"),
        ('{"loss": "low"}', "a loss is a number"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_result_that_tells_no_loss_says_what_is_there(
    tmp_path: Path, text: str, message: str
) -> None:
    script = f"import sys\nopen(sys.argv[-1] + '/m.json', 'w').write({text!r})"
    with pytest.raises(ExtrapError, match=message):
        run(runner(tmp_path, script, "{run_dir}", result="m.json"))


@pytest.mark.parametrize("result", ["", "m.json"])
def test_a_log_that_is_gone_costs_no_result(tmp_path: Path, result: str) -> None:
    script = (
        "import pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[-1])\n"
        "(folder / 'm.json').write_text('{\"loss\": 2}')\n"
        "folder.with_name(folder.name + '.log').unlink()\n"
        "print('loss=2')"
    )
    assert run(runner(tmp_path, script, "{run_dir}", result=result))["loss"] == 2
    assert not list((tmp_path / "runs").glob("*.log"))


def test_a_program_that_is_not_there_is_an_error_before_anything_is_trained() -> None:
    with pytest.raises(ValueError, match="there is no 'no-such-program-of-mine'"):
        CommandRunner(Command(["no-such-program-of-mine", *TOLD]), SPEC, NO_STOP)


def test_placeholders_are_those_of_the_study(tmp_path: Path) -> None:
    spec = replace(SPEC, sizes={"depth": (2,)}, path={"width": "4 * depth"})
    CommandRunner(Command(["python", "{width}", "{lr}"]), spec, NO_STOP)
    with pytest.raises(ValueError, match=r"this one lacks \{lr\}, \{width\}"):
        CommandRunner(Command(["python", "x"]), SPEC, NO_STOP)
    with pytest.raises(ValueError, match=r"got \{rate\}: rename it"):
        CommandRunner(Command(["python", "{rate}", *TOLD]), SPEC, NO_STOP)


def test_a_changed_script_is_another_training_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/study.db"
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "fit.py"
        script.write_text("print('loss=1')")
        assert len(tune(SPEC, url, train=Command(["python", str(script), *TOLD]))) == 2
    script.write_text("print('loss=2')")
    with pytest.raises(StudyError, match=r"data\.source\.fit\.py: .* in the storage"):
        tune(SPEC, url, train=Command(["python", str(script), *TOLD]))
    with pytest.raises(StudyError, match=r"data\.command: python fit\.py"):
        tune(SPEC, url, train=Command(["python", str(script), *TOLD, "--more"]))


RESUMES = """
import pathlib, sys
left = pathlib.Path(sys.argv[-1]) / "loss"
left.write_text(left.read_text() if left.exists() else "LOSS")
print(f"loss={left.read_text()}")
raise SystemExit(int(not pathlib.Path("gate").exists()))
"""
"""Goes on from what it left itself, as from a checkpoint, and fails until there is a gate."""


def test_what_a_run_left_is_taken_up_by_the_same_study_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script, gate = tmp_path / "fit.py", tmp_path / "gate"
    command = Command(["python", "fit.py", *TOLD, "{run_dir}"])

    def losses(storage: str, told: float) -> set[float]:
        script.write_text(RESUMES.replace("LOSS", str(told)))
        return set(tune(SPEC, f"sqlite:///{storage}", train=command).to_frame()["loss"])

    def n_left() -> int:
        return len(list(Path(".extrap/mine/runs").rglob("loss")))

    with pytest.raises(ExtrapError, match="exit code 1"):
        losses("one.db", 1)
    gate.touch()
    assert losses("one.db", 1) == {1}
    assert n_left() == 2  # the one that failed went on where it was
    assert losses("two.db", 2) == {2}  # another script
    losses("three.db", 2)  # the same script, but what it imports may have changed
    assert n_left() == 6


def test_files_of_one_name_and_files_behind_an_equals_sign_are_part_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("a/conf.yaml", "b/conf.yaml", "c.json")
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"of {name}")
    command = Command(["python", names[0], names[1], f"--set={names[2]}", *TOLD])

    def described() -> dict[str, Any]:
        return dict(CommandRunner(command, SPEC, NO_STOP).fingerprint)

    begun = described()
    assert list(begun["source"]) == ["conf.yaml", "conf.yaml (2)", "c.json"]
    for name in names:
        Path(name).write_text("changed")
        assert described() != begun
        Path(name).write_text(f"of {name}")
    assert described() == begun


def test_files_that_are_not_here_are_described_as_others_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("a/conf.yaml", "b/conf.yaml", "c.json")
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"of {name}")
    command = Command(["python", *names[:2], f"--set={names[2]}", *TOLD])
    there = describe(command)
    known = there.told["source"]
    assert describe(command, known) == there
    for gone, absent in (("c.json", ["c.json"]), ("a/conf.yaml", ["conf.yaml", "c.json"])):
        Path(gone).unlink()
        told = describe(command, known)
        assert told == (there.told, {name: known[name] for name in absent})
        assert describe(command).told != there.told
    Path("b/conf.yaml").write_text("changed")  # what is here is looked at
    assert list(describe(command, known).absent) == ["conf.yaml", "c.json"]
    assert describe(command, known).told != there.told
    assert describe(Command(["python", "x.py", *TOLD]), known) == describe(
        Command(["python", "x.py", *TOLD])
    )


def test_runs_are_named_readably_and_apart() -> None:
    one = Cell.of({"n/../x": 8}, {"lr": 0.1234567891}, 0)
    two = Cell.of({"n/../x": 8}, {"lr": 0.1234567892}, 0)
    assert run_name(one) != run_name(two)
    assert run_name(one).startswith("n_.._x=8,lr=0.123457,seed=0-")


def is_over(pid: int) -> bool:
    """Whether a process is gone, or dead and waits for nobody."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False
