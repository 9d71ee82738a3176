"""The worker side of `pool`: `python -m extrap.training.serving` trains the packs it receives."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import IO, Any

import torch

from extrap.errors import ExtrapError
from extrap.records import Cell, Recipe, Workload
from extrap.training.checkpoints import Checkpoints
from extrap.training.loop import evaluate_along
from extrap.training.packs import Pack
from extrap.training.preemption import StopAsked
from extrap.workloads import LoadedWorkload, load_workload

Say = Callable[[Mapping[str, Any]], None]
AT_ONCE = 65_536


class Lines:
    """Lines from a pipe; what was read of it is known, so that none waits unseen in a buffer.

    Args:
        number: File descriptor of the pipe.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._rest = b""

    def has_more(self) -> bool:
        """Whether a line, a part of one or the end is there."""
        return b"\n" in self._rest or bool(select.select([self._number], [], [], 0)[0])

    def read(self) -> str:
        """The next line, waited for; empty at the end."""
        while b"\n" not in self._rest:
            found = os.read(self._number, AT_ONCE)
            if not found:
                return ""
            self._rest += found
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode() + "\n"


def serve(lines: Lines, answers: IO[str]) -> None:
    """Train what is asked for, one request after the other, until the input ends."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as `train` does
    loaded: dict[str, LoadedWorkload] = {}

    def say(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    def workload_of(words: Mapping[str, Any]) -> LoadedWorkload:
        key = json.dumps(words)
        if key not in loaded:
            loaded.clear()
            loaded[key] = load_workload(Workload(**words))
        return loaded[key]

    for line in iter(lines.read, ""):
        request = json.loads(line)
        try:
            if "stop" in request:  # it came when all was done
                continue
            if "load" in request:
                workload_of(request["load"])
            else:
                pack = _pack(request, workload_of(request["workload"]))
                _train(pack, request, lines, say)
        except (ExtrapError, ValueError, RuntimeError, MemoryError) as error:
            if "load" not in request:  # what cannot be read is said when it is needed
                say({"error": f"{type(error).__name__}: {error}"})


def _train(pack: Pack, request: Mapping[str, Any], lines: Lines, say: Say) -> None:
    words = request["checkpoints"] or {"folder": None, "study": ""}
    checkpoints = Checkpoints(**words, is_asked=lambda: _is_stopped(lines))
    along = evaluate_along(
        pack, place=torch.device("cpu"), at_once=request["at_once"], checkpoints=checkpoints
    )
    with closing(along) as evaluations:
        kept: Sequence[bool] | None = None
        while True:
            try:
                step, losses = evaluations.send(kept)
            except StopIteration as end:
                say({"results": [asdict(result) for result in end.value]})
                return
            except StopAsked:
                say({"saved": True})
                return
            if request["waits"]:
                say({"step": step, "losses": losses})
                reply = _next(lines)
                if "stop" in reply:
                    checkpoints.is_asked = lambda: True
                kept = reply.get("kept")


def _is_stopped(lines: Lines) -> bool:
    """Whether the master asks to stop; it says nothing else until it receives something."""
    return lines.has_more() and "stop" in _next(lines)


def _next(lines: Lines) -> dict[str, Any]:
    """What the master says next; if it is gone, the end."""
    line = lines.read()
    if not line:
        raise SystemExit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def _pack(request: Mapping[str, Any], workload: LoadedWorkload) -> Pack:
    return Pack(
        workload=workload,
        size=request["size"],
        recipe=Recipe(**request["recipe"]),
        cells=tuple(Cell.of(request["size"], dict(t), seed) for t, seed in request["cells"]),
    )


if __name__ == "__main__":
    # a cluster may tell every process of a job to end: the master says what is to be done
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    # whatever prints goes to the standard error: the standard output is for answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Lines(sys.stdin.fileno()), answers)
