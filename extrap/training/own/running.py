"""A command while it runs: its output goes to a log, its end is brought about when need be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from extrap.errors import ExtrapError, StudyError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
TICK_S = 0.1
"""How often to look whether it is to stop."""


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: Its exit code; 128 + n after signal n.
        start: Where in its log its own output begins, bytes.
        is_late: Whether it was stopped because it took too long.
        is_stopped: Whether it was stopped because it was asked for.
    """

    code: int
    start: int
    is_late: bool = False
    is_stopped: bool = False


def run_command(
    words: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    grace_s: float,
    is_asked: Callable[[], bool],
) -> Ended:
    """Run a command to its end; whatever ends this call or this process ends the command too.

    Raises:
        StudyError: This machine has no process groups.
        ExtrapError: It cannot be started.
    """
    if os.name != "posix":
        raise StudyError("commands need process groups, which Windows lacks; give a function.")
    supervisor = [sys.executable, "-I", "-S", str(SUPERVISOR), repr(grace_s), *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        output.write(f"== {now} {' '.join(map(repr, words))}\n".encode("utf-8", "replace"))
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
            raise ExtrapError(f"{words[0]} cannot be started: {error.strerror}.") from error
    try:
        return _follow(process, start, timeout_s=timeout_s, is_asked=is_asked)
    finally:  # after Ctrl-C as well the command gets its time to end
        _close_input(process)
        process.wait()


def _follow(
    process: subprocess.Popen[bytes], start: int, *, timeout_s: float, is_asked: Callable[[], bool]
) -> Ended:
    began = time.monotonic()
    is_late = is_stopped = False
    while True:
        with suppress(subprocess.TimeoutExpired):
            return Ended(process.wait(TICK_S), start, is_late, is_stopped)
        if not (is_late or is_stopped):
            is_stopped, is_late = is_asked(), time.monotonic() - began > timeout_s
            if is_late or is_stopped:
                _close_input(process)  # its supervisor sees to the rest


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None, "it was opened with pipes"
    process.stdin.close()
