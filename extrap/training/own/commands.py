"""Trains each cell by a command of the user's own; its output goes to a log."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from extrap.errors import ExtrapError, StudyError
from extrap.files import as_written
from extrap.records import Cell, Command, StudySpec
from extrap.records.command import RUN_DIR
from extrap.training.own.outputs import LOSS_NAMES, printed_loss, read_result
from extrap.training.own.supervisor import SIGNALLED
from extrap.training.preemption import StopAsked

RUNS = Path(".extrap")
"""Where each study has a folder `NAME/runs`."""
PYTHON = "python"
"""As the program of a command: the interpreter that runs the study."""
MOST_SOURCE = 1 << 22
"""Bytes of a file that is looked at for the fingerprint of a command."""
MOST_RUN_NAME = 120
"""Characters of a run's name before its hash."""
N_SAID, MOST_SAID = 8, 600
"""Lines of what a command said, and characters of them, that go into a message."""
SUPERVISOR = Path(__file__).with_name("supervisor.py")
TICK_S = 0.1
"""Seconds between two looks whether a command is to stop."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int  # its exit code; 128 + n after signal n
    start: int  # where in its log its own output begins, bytes
    is_late: bool = False  # whether it was stopped because it took too long
    is_stopped: bool = False  # whether it was stopped because a stop was requested


class CommandRunner:
    """A command as a training function `(size, tuned, seed)`.

    Args:
        command: The command.
        spec: The study; what moves in it is what the command is told.
        is_stop_requested: Tells whether training is to stop; the command then gets SIGTERM.
        origin: A name of the storage that the runs are recorded in.
        folder: Where runs leave their logs and what they write themselves; by default
            `.extrap/NAME/runs`. The folder of a run is another one when the command or its script
            changed, or `origin` did.
    """

    def __init__(
        self,
        command: Command,
        spec: StudySpec,
        *,
        is_stop_requested: Callable[[], bool] = bool,
        origin: str = "",
        folder: Path | None = None,
    ) -> None:
        spec.require_command(command)
        program = sys.executable if command.args[0] == PYTHON else command.args[0]
        if "{" not in program and shutil.which(program) is None:
            raise ValueError(
                f"a command starts with a program, {program!r} does not exist; check its "
                f"path, relative to {Path.cwd()}."
            )
        self._command = command
        self._is_stop_requested = is_stop_requested
        self._origin = origin
        self._folder = folder or RUNS / spec.name / "runs"
        self.fingerprint: Mapping[str, Any] = describe(command)

    def __call__(
        self, size: Mapping[str, float], tuned: Mapping[str, float], seed: int
    ) -> dict[str, Any]:
        """Run the command once and read its loss."""
        command = self._command
        made_with = f"{self._origin} {json.dumps(self.fingerprint, sort_keys=True)}"
        run_dir = self._folder / run_name(Cell.of(size, tuned, seed), made_with)
        argv = command.filled({**size, **tuned, "seed": seed, RUN_DIR: str(run_dir.absolute())})
        if RUN_DIR in command.placeholders():
            run_dir.mkdir(parents=True, exist_ok=True)
        result = run_dir / command.result if command.result else None
        before, log = result and _state(result), run_dir.with_name(f"{run_dir.name}.log")
        ended = run_command(
            [sys.executable, *argv[1:]] if argv[0] == PYTHON else argv,
            log=log,
            timeout_s=command.timeout_s,
            grace_s=command.grace_s,
            is_stop_requested=self._is_stop_requested,
        )
        if ended.is_stopped:
            raise StopAsked("asked to stop")
        if ended.is_late:
            allowed = f"{command.timeout_s:g} s"
            raise _failure(f"exceeded its timeout of {allowed} and was stopped", log, ended)
        if ended.code:
            raise _failure(_code_words(ended.code), log, ended)
        if result is not None:
            if _state(result) == before:
                raise _failure(f"did not write {command.result} to {run_dir}", log, ended)
            return read_result(result, command.loss)
        with _output(log, ended) as lines:
            answer = printed_loss(lines, command.loss)
        if answer is None:
            name = command.loss or " or ".join(LOSS_NAMES)
            raise _failure(f"printed no loss ({name}), which loss='…' can name", log, ended)
        return answer


def run_name(cell: Cell, made_with: str = "") -> str:
    """The name of a run's folder: readable, safe as a file, the same at every attempt."""
    parts = [f"{name}={value:g}" for name, value in (*cell.size, *cell.tuned)]
    text = re.sub(r"[^\w=,.+-]", "_", ",".join([*parts, f"seed={cell.seed}"]))[:MOST_RUN_NAME]
    identity = f"{cell!r}{made_with}"
    return f"{text}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def describe(command: Command) -> dict[str, Any]:
    """What tells a command from another one: its words, hashes of the files among them, its loss.

    A word may be a file or end in one, as `--config=FILE` does; files of one name are numbered.
    """
    files: dict[str, str] = {}
    args = []
    for word in command.args:
        start, path = _file_in(word)
        if path is not None:
            n_same = sum(re.sub(r" \(\d+\)$", "", name) == path.name for name in files)
            key = f"{path.name} ({n_same + 1})" if n_same else path.name
            files[key] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        args.append(word if path is None else f"{start}{path.name}")  # it may lie elsewhere
    described: dict[str, Any] = {
        "trainer": "command",
        "command": shlex.join(args),
        "source": files,
    }
    described |= {"loss": command.loss} if command.loss else {}
    return described | ({"result": command.result} if command.result else {})


def _file_in(word: str) -> tuple[str, Path | None]:
    """What a word begins with, and the file that it is or ends in."""
    name, is_option, value = word.partition("=")
    for start, text in (("", word), (f"{name}=", value if is_option else "")):
        with suppress(OSError, ValueError):
            path = Path(text)
            if path.suffix and path.is_file() and path.stat().st_size <= MOST_SOURCE:
                return start, path
    return "", None


def _state(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written to."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None


@contextmanager
def _output(log: Path, ended: Ended) -> Iterator[TextIO]:
    """The output of a command in its log; a progress bar's carriage returns end lines too."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        lines.seek(ended.start)
        yield lines


def _failure(what: str, log: Path, ended: Ended) -> ExtrapError:
    with _output(log, ended) as lines:
        said = deque((line.strip() for line in lines if line.strip()), maxlen=N_SAID)
    ending = as_written(" | ".join(said))[-MOST_SAID:]
    last = f"; the last lines of its output: {ending}" if ending else " and printed nothing"
    return ExtrapError(f"the training command {what}{last}; its output is in {log}")


def _code_words(code: int) -> str:
    if code == SIGNALLED - 1:
        return "was not found"
    number = code - SIGNALLED if code > SIGNALLED else -code
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with exit code {code}"
    hint = ", probably because memory ran out" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def run_command(
    argv: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    grace_s: float,
    is_stop_requested: Callable[[], bool],
) -> Ended:
    """Run a command to its end; whatever ends this call or this process ends the command too."""
    if os.name != "posix":
        raise StudyError("commands need process groups, which Windows lacks; give a function.")
    supervisor = [sys.executable, "-I", "-S", str(SUPERVISOR), repr(grace_s), *argv]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        output.write(f"== {now} {' '.join(map(repr, argv))}\n".encode("utf-8", "replace"))
        output.flush()
        start = output.tell()
        try:
            process = subprocess.Popen(
                supervisor,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise ExtrapError(f"{argv[0]} cannot be started: {error.strerror}.") from error
    try:
        return _follow(process, start, timeout_s=timeout_s, is_stop_requested=is_stop_requested)
    finally:  # after Ctrl-C as well the command gets its time to end
        _close_input(process)
        process.wait()


def _follow(
    process: subprocess.Popen[bytes],
    start: int,
    *,
    timeout_s: float,
    is_stop_requested: Callable[[], bool],
) -> Ended:
    began = time.monotonic()
    is_late = is_stopped = False
    while True:
        with suppress(subprocess.TimeoutExpired):
            return Ended(process.wait(TICK_S), start, is_late, is_stopped)
        if not (is_late or is_stopped):
            is_stopped, is_late = is_stop_requested(), time.monotonic() - began > timeout_s
            if is_late or is_stopped:
                _close_input(process)  # its supervisor sees to the rest


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None, "it was opened with pipes"
    process.stdin.close()
