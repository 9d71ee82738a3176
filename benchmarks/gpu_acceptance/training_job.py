"""A pack trained in a process of its own that may be stopped or killed.

    python -m benchmarks.gpu_acceptance.training_job FOLDER --device cuda \
        --width W --runs N --steps K

Prints a line of JSON at every evaluation, `{"step": …}`, and at the end `{"losses": […]}`. SIGTERM
asks it to stop; it leaves its checkpoints in FOLDER, from which the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu_acceptance.packs import losses, pack_of, small_workload
from extrap.training import train
from extrap.training.checkpoints import Checkpoints
from extrap.training.preemption import Preemption, StopAsked

STOPPED = 75
"""Exit code of a process that was asked to stop."""
N_EVALS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", required=True)
    for name in ("width", "runs", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args(arguments)
    pack = pack_of(
        small_workload("bytes-mlp"), given.width, given.runs, steps=given.steps, n_evals=N_EVALS
    )
    asked = Preemption(folder=None)
    signal.signal(signal.SIGTERM, lambda *_: asked.ask())
    checkpoints = Checkpoints(
        given.folder, "acceptance", every_s=0, is_asked=lambda: asked.is_asked
    )
    try:
        results = train(pack, device=given.device, on_eval=_say_step, checkpoints=checkpoints)
    except StopAsked:
        return STOPPED
    _say({"losses": losses(results)})
    return 0


def _say_step(step: int, _: tuple[float, ...]) -> None:
    _say({"step": step})


def _say(words: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
