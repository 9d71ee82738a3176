"""The other end of `crew`: `python -m extrap.training.serving` trains what it is told to."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import IO, Any

import torch

from extrap.errors import ExtrapError
from extrap.records import Cell, Recipe, Workload
from extrap.training.loop import evaluate_along
from extrap.training.packs import Pack
from extrap.workloads import LoadedWorkload, load_workload

__all__ = ["serve"]

Say = Callable[[Mapping[str, Any]], None]


def serve(lines: IO[str], answers: IO[str]) -> None:
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

    for line in iter(lines.readline, ""):
        request = json.loads(line)
        try:
            if "load" in request:
                workload_of(request["load"])
            else:
                pack = _pack(request, workload_of(request["workload"]))
                _train(pack, request, lines, say)
        except (ExtrapError, ValueError, RuntimeError, MemoryError) as error:
            if "load" not in request:  # what cannot be read is said when it is needed
                say({"error": f"{type(error).__name__}: {error}"})


def _train(pack: Pack, request: Mapping[str, Any], lines: IO[str], say: Say) -> None:
    place, at_once = torch.device("cpu"), request["at_once"]
    with closing(evaluate_along(pack, place=place, at_once=at_once)) as evaluations:
        kept: Sequence[bool] | None = None
        while True:
            try:
                step, losses = evaluations.send(kept)
            except StopIteration as end:
                say({"results": [asdict(result) for result in end.value]})
                return
            if not request["waits"]:
                if _has_ended(lines):
                    raise SystemExit(0)
                continue
            say({"step": step, "losses": losses})
            reply = lines.readline()
            if not reply:
                raise SystemExit(0)
            kept = json.loads(reply)["kept"]


def _has_ended(lines: IO[str]) -> bool:
    """Whether the master is gone: it says nothing while it waits for results."""
    return bool(select.select([lines], [], [], 0)[0])


def _pack(request: Mapping[str, Any], workload: LoadedWorkload) -> Pack:
    return Pack(
        workload=workload,
        size=request["size"],
        recipe=Recipe(**request["recipe"]),
        cells=tuple(Cell.of(request["size"], dict(t), seed) for t, seed in request["cells"]),
    )


if __name__ == "__main__":
    # whatever prints goes to the standard error: the standard output is for answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
