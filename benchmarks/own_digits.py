"""Five studies of a real small task with a training function of one's own, each with a target.

They differ in optimizer, depth, activation, steps and batch from the sweeps on which the noise of
small models was modelled. Asked of each: is the target trained, does the sealed interval hold the
losses of its runs, and is the answer about the target? `python -m benchmarks.own_digits`
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import extrap

HERE = Path(__file__).parent
TARGET = 256
STUDY = """
from digits_training import train as train_digits
from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="{name}",
    question="Which lr for width {target}?",
    sizes={{"width": {widths}}},
    tune={{{tune}}},
    targets=(Target(size={{"width": {target}}}, fixed=False),),
)


def TRAIN(size, tuned, seed):
    return train_digits(int(size["width"]), seed=seed, **tuned, {settings})
"""


@dataclass(frozen=True, kw_only=True)
class Digits:
    """A study.

    Attributes:
        name: Its name.
        widths: Of the sweep.
        tune: The tuned ranges, as a study file has them.
        settings: What else the training is told.
    """

    name: str
    widths: tuple[int, ...]
    tune: str
    settings: str


def rates(low: str, high: str, n: int = 7) -> str:
    """A range of learning rates."""
    return f'"lr": TunedRange(low={low}, high={high}, n={n})'


STUDIES = (
    Digits(
        name="tanh",
        widths=(8, 16, 32, 64),
        tune=rates("2**-6", "2**0"),
        settings="steps=500, batch=64, is_tanh=True",
    ),
    Digits(
        name="adam",
        widths=(4, 8, 16, 32, 64),
        tune=rates("2**-9", "2**-3"),
        settings="steps=600, batch=16, is_adam=True",
    ),
    Digits(
        name="deep",
        widths=(8, 12, 16, 24, 32, 48, 64),
        tune=rates("2**-7", "2**-1"),
        settings="steps=400, batch=32, hidden=2",
    ),
    Digits(
        name="decay",
        widths=(8, 16, 32, 64),
        tune=rates("2**-6", "2**-1", 6) + ', "weight_decay": TunedRange(low=1e-6, high=1e-3, n=4)',
        settings="steps=300, batch=64",
    ),
    Digits(
        name="three",
        widths=(16, 32, 64),
        tune=rates("2**-9", "2**-3", 13),
        settings="steps=1000, batch=64, is_adam=True, is_tanh=True",
    ),
)


def run(study: Digits, folder: Path) -> dict[str, object]:
    """Run a study as a user would, and what it says of its target."""
    shutil.copy(HERE / "digits_training.py", folder)
    text = STUDY.format(**vars(study), target=TARGET)
    (folder / f"{study.name}.py").write_text(text)
    words = [sys.executable, "-m", "extrap", "study", "run", f"{study.name}.py", "--quiet"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    made = extrap.load_forecast(folder / f"reports/{study.name}.forecast.json")
    point, runs = made.at(TARGET), pd.read_csv(folder / f"reports/{study.name}.runs.csv")
    large = runs[runs["stage"] == "check"]
    low, high = point.loss_pi
    sweep = runs[runs["stage"] == "tune"]
    answer = next(line for line in done.stdout.splitlines() if "loss" in line and "width" in line)
    return {
        "study": study.name,
        "runs": len(sweep),
        "target trained": len(large) > 0,
        "lr": point.recommended.get("lr"),
        "loss": point.loss,
        "lower": low,
        "upper": high,
        "reached": " ".join(f"{loss:.4f}" for loss in large["loss"]),
        "holds": len(large) > 0 and bool(large["loss"].between(low or 0, high or 1e9).all()),
        "about the target": f"at width {TARGET}" in answer,
        "answer": answer,
    }


if __name__ == "__main__":
    rows = []
    for study in STUDIES:
        if not sys.argv[1:] or study.name in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(run(study, Path(folder)))
                sys.stdout.write(f"{rows[-1]}\n")
                sys.stdout.flush()
    table = pd.DataFrame(rows).drop(columns="answer")
    sys.stdout.write(f"{table.to_string(index=False)}\n")
