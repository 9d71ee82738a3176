"""A study whose runs are trained by a script, `train.py` beside this file.

`extrap study run examples/own/command.py` from the root of the repository.

Cost: 120 runs of the script for the sweep and four larger ones, half a minute on one core.
"""

from __future__ import annotations

from pathlib import Path

from extrap import Command, StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="own-command",
    question="What does a script say of width 1024?",
    sizes={"width": (16, 32, 64, 128, 256)},
    tune={"lr": TunedRange(low=2**-9, high=2**-2, n=8)},
    targets=(Target(size={"width": 1024}),),
)
SCRIPT = str(Path(__file__).with_name("train.py"))
COMMAND = Command(
    ["python", SCRIPT, "--width", "{width}", "--lr", "{lr}", "--seed", "{seed}"], timeout_s=60
)
