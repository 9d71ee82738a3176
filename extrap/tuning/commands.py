"""Trains each cell by a command of the user's own, one after the other."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extrap.errors import ExtrapError
from extrap.files import as_written
from extrap.records import Cell, Command, StudySpec
from extrap.records.command import RUN_DIR
from extrap.training.preemption import Preemption
from extrap.tuning.outputs import LOSSES, PrintedLoss, read_result
from extrap.tuning.running import Ended, run_command

__all__ = ["RUNS", "CommandRunner"]

RUNS = Path(".extrap")
"""Where each study has a folder `NAME/runs`."""
PYTHON = "python"
MOST_SOURCE = 1 << 22
"""Bytes of a file that is looked at for the fingerprint of a command."""
MOST_NAME = 120
MOST_SAID = 600
"""Characters of what a command said that go into a message."""
SIGNALLED = 128


class CommandRunner:
    """A command as a training function `(size, tuned, seed)`.

    Args:
        command: The command.
        spec: The study; what moves in it is what the command is told.
        preemption: How training is asked to stop: the command then gets SIGTERM.
        folder: Where runs leave their logs and what they write themselves; by default
            `.extrap/NAME/runs`.

    Raises:
        ValueError: There is no such program, or its placeholders are not those of the study.
    """

    def __init__(
        self,
        command: Command,
        spec: StudySpec,
        preemption: Preemption,
        *,
        folder: Path | None = None,
    ) -> None:
        command.check_names(sizes=spec.sizes, path=spec.path, tuned=spec.tune)
        program = sys.executable if command.args[0] == PYTHON else command.args[0]
        if "{" not in program and shutil.which(program) is None:
            raise ValueError(
                f"a command begins with a program, there is no {program!r}; check its path, which "
                f"starts in {Path.cwd()}."
            )
        self._command = command
        self._preemption = preemption
        self._folder = folder or RUNS / spec.name / "runs"
        self.fingerprint: Mapping[str, Any] = {"trainer": "command", **_described(command)}

    def __call__(
        self, size: Mapping[str, float], tuned: Mapping[str, float], seed: int
    ) -> dict[str, Any]:
        """Run the command once and read its loss.

        Raises:
            ExtrapError: It failed, took too long, or told no loss.
            StopAsked: Training was asked to stop.
        """
        command = self._command
        place = self._folder / run_name(Cell.of(size, tuned, seed))
        words = command.words({**size, **tuned, "seed": seed, RUN_DIR: str(place.absolute())})
        if RUN_DIR in command.placeholders():
            place.mkdir(parents=True, exist_ok=True)
        printed, before = PrintedLoss(command.loss), _state(place / command.result)
        log = place.with_name(f"{place.name}.log")
        ended = run_command(
            [sys.executable, *words[1:]] if words[0] == PYTHON else words,
            log=log,
            on_line=(lambda line: None) if command.result else printed.hear,
            timeout_s=command.timeout_s,
            grace_s=command.grace_s,
            is_asked=lambda: self._preemption.is_asked,
        )
        if ended.is_stopped:
            self._preemption.stop_if_asked()
        self._require_success(ended, log)
        if command.result:
            if _state(place / command.result) == before:
                raise _failure(f"wrote no {command.result} into {place}", ended, log)
            return read_result(place / command.result, command.loss)
        answer = printed.answer()
        if answer is None:
            name = command.loss or " or ".join(LOSSES)
            raise _failure(f"printed no loss ({name})", ended, log)
        return answer

    def _require_success(self, ended: Ended, log: Path) -> None:
        if ended.is_late:
            allowed = f"{self._command.timeout_s:g} s"
            raise _failure(f"took longer than its timeout of {allowed} and was ended", ended, log)
        if ended.code:
            raise _failure(_code_words(ended.code), ended, log)


def run_name(cell: Cell) -> str:
    """The name of a run's folder: readable, safe as a file, the same at every attempt."""
    parts = [f"{name}={value:g}" for name, value in (*cell.size, *cell.tuned)]
    text = re.sub(r"[^\w=,.+-]", "_", ",".join([*parts, f"seed={cell.seed}"]))[:MOST_NAME]
    return f"{text}-{hashlib.sha256(repr(cell).encode()).hexdigest()[:8]}"


def _described(command: Command) -> dict[str, Any]:
    """What tells a command from another one: its words, and the files among them."""
    files, words = {}, []
    for word in command.args:
        try:
            content = Path(word).read_bytes() if _is_source(Path(word)) else None
        except (OSError, ValueError):
            content = None
        words.append(word if content is None else Path(word).name)  # it may lie elsewhere there
        if content is not None:
            files[Path(word).name] = hashlib.sha256(content).hexdigest()[:12]
    told: dict[str, Any] = {"command": shlex.join(words), "source": files}
    told |= {"loss": command.loss} if command.loss else {}
    return told | ({"result": command.result} if command.result else {})


def _is_source(path: Path) -> bool:
    return path.suffix != "" and path.is_file() and path.stat().st_size <= MOST_SOURCE


def _state(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written to."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None


def _failure(what: str, ended: Ended, log: Path) -> ExtrapError:
    said = ended.stderr or ended.stdout
    source = "standard error" if ended.stderr else "standard output"
    told = as_written(" | ".join(said))[-MOST_SAID:]
    last = f"; the last of its {source}: {told}" if told else ", without a word"
    return ExtrapError(f"the training command {what}{last}; its output is in {log}")


def _code_words(code: int) -> str:
    if code == SIGNALLED - 1:
        return "was not found"
    number = code - SIGNALLED if code > SIGNALLED else -code
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with exit code {code}"
    hint = ", as a machine out of memory does" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
