"""`extrap init`: a study file to begin with, which runs as it is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from extrap.commands.printing import say

if TYPE_CHECKING:
    from extrap.records import Command

__all__ = ["init_command"]

TUNED = {
    "lr": ("2**-9", "2**-2", 2**-4.5),
    "learning_rate": ("2**-9", "2**-2", 2**-4.5),
    "rate": ("2**-9", "2**-2", 2**-4.5),
    "batch_size": ("8", "512", 128.0),
    "weight_decay": ("1e-3", "1", 0.06),
}
"""Placeholders that are tuned, over which range, and about where the toy has its optimum; all
others are sizes."""
SIZES = {"depth": (4, 6, 8, 12), "n_params": (10**5, 3 * 10**5, 10**6, 3 * 10**6)}
WIDTHS = (16, 32, 64, 128, 256)
"""Sizes of any other name."""
BEYOND = 4
"""The target is so many times the largest size."""

FUNCTION = '''"""A study with a training function of its own. Run it: extrap study run {file}

As it stands it is a toy with known answers that takes seconds: the loss is 1.8 + 3 / sqrt(width),
the best rate 0.4 / width^0.7. Put your training into `train`, then your sizes and rates.
"""

import math
import random

from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="{name}",
    question="How does the loss fall with width, and which rate does width 1024 want?",
    sizes={{"width": (16, 32, 64, 128, 256)}},  # several columns: every combination
    tune={{"lr": TunedRange(low=2**-9, high=2**-2, n=8)}},  # the grid grows where it is too short
    seeds=(0, 1, 2),
    targets=(Target(size={{"width": 1024}}),),  # trained after the forecast is sealed
)


def train(size, tuned, seed):
    """Train one run; the held-out loss, nan if it diverged, or {{"loss": …, "curve": …}}."""
    octaves = math.log2(tuned["lr"] * size["width"] ** 0.7 / 0.4)
    noise = random.Random(f"{{size}}{{tuned}}{{seed}}").gauss(0, 0.002)
    return (1.8 + 3 / math.sqrt(size["width"])) * math.exp(0.02 * octaves**2 + noise)


TRAIN = train
'''

COMMAND = '''"""A study whose runs are trained by a command. Run it: extrap study run {file}

The command gets the words below, no shell sees them. The last line that it prints with `loss=1.23`
or `val_loss: 1.23` is its loss; with `step 100` on the same line it is a point of the curve. It
may write {{run_dir}}/metrics.jsonl instead: Command([…], result="metrics.jsonl").
"""

from extrap import Command, StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="{name}",
    question="{question}",
    sizes={sizes},
    tune={tune},
{seeds}
    targets=(Target(size={target}),),  # trained after the forecast is sealed
)
COMMAND = Command(
    [
{words}
    ],
    timeout_s=86_400,
)
'''

SEEDS = "    seeds=(0, 1, 2),"
ONE_SEED = """\
    # the command is not told its seed; with a word such as "--seed={seed}" there can be several
    seeds=(0,),
    target_seeds=(0,),"""

SCRIPT = '''\
"""A toy in the place of a training script: prints the losses of a law with known answers."""

import argparse
import math
import random

parser = argparse.ArgumentParser()
for name in {names}:
    parser.add_argument(f"--{{name}}", type=float, default=1.0)
given, _ = parser.parse_known_args()
values = vars(given)
width = math.prod(values[name] for name in {sizes})
noise = random.Random(str(values)).gauss(0, 0.002)
loss = (1.8 + 3 / math.sqrt(width)) * math.exp(noise)
for name, centre in {centres}:
    loss *= math.exp(0.02 * math.log2(values[name] / (centre * width**-0.2)) ** 2)
for step in (100, 200, 300):
    print(f"step {{step}} loss={{loss * (1 + 0.3 * (300 / step - 1)):.6f}}")
'''


@click.command(name="init")
@click.argument("name", default="my_study")
@click.option(
    "--command",
    "command_line",
    metavar="WORDS",
    help="The command that trains a run, with its values in braces: "
    '"python train.py --lr {lr} --width {width}".',
)
@click.option("--force", is_flag=True, help="Write over a study file that is there.")
def init_command(name: str, *, command_line: str | None, force: bool) -> None:
    """Write NAME.py, a study file of ten lines that runs as it is.

    It trains with a function; with --command by a program of yours, and where the script it names
    does not exist, a toy one is written.
    """
    path = Path(name if name.endswith(".py") else f"{name}.py")
    if path.exists() and not force:
        raise click.UsageError(
            f"{path} is there already; name another, or write over it: --force."
        )
    study = _study_name(path)
    if command_line is None:
        texts = {path: FUNCTION.format(file=path.name, name=study)}
    else:
        texts = _of_command(path, study, command_line)
    from extrap.files import write_text

    if path.exists() and not _is_study(path):
        raise click.UsageError(
            f"--force writes over study files, {path} is none: it has neither STUDY nor any other "
            "kind; name the study something else, or move that file away."
        )
    for place, text in texts.items():
        write_text(place, text)
        say(f"wrote {place}")
    say(f"next: extrap study run {path}")


def _is_study(path: Path) -> bool:
    """Whether a file speaks of a study as study files do; it is not run for that."""
    from extrap.study_files import KINDS

    text = path.read_text(encoding="utf-8", errors="replace")
    return any(re.search(rf"^{kind}\b", text, re.MULTILINE) for kind in KINDS)


def _study_name(path: Path) -> str:
    from extrap.records.fields import require_name

    require_name(path.stem)
    return path.stem


def _of_command(path: Path, name: str, line: str) -> dict[Path, str]:
    """The study file of a command, and its script if there is none."""
    command = _parse(line)
    script = _script(command)
    if script is not None and script.resolve() == path.resolve():
        raise click.UsageError(
            f"a study file and the script that it runs are two files, got {path} for both; name "
            f"the study something else: extrap init {path.stem}_study --command …."
        )
    values = [v for v in command.placeholders() if v not in ("seed", "run_dir")]
    tuned = [v for v in values if v in TUNED]
    sizes = [v for v in values if v not in TUNED]
    if not (tuned and sizes):
        missing = "{lr}" if not tuned else "{width}"
        raise click.UsageError(
            "the words of a command hold a size and a tuned value in braces, as in "
            f"--lr {{lr}} --width {{width}}; got {line!r}: add {missing}. Tuned are "
            f"{', '.join(TUNED)}."
        )
    grids = {column: SIZES.get(column, WIDTHS) for column in sizes}
    texts = {
        path: COMMAND.format(
            file=path.name,
            name=name,
            question=f"Which {tuned[0]} does a larger {sizes[0]} want, and what loss?",
            sizes=_quoted(grids),
            tune=f"{{{', '.join(_range(column) for column in tuned)}}}",
            seeds=SEEDS if "seed" in command.placeholders() else ONE_SEED,
            target=_quoted({column: BEYOND * grid[-1] for column, grid in grids.items()}),
            words="\n".join(f"        {_quoted(word)}," for word in command.args),
        )
    }
    if script is not None and not script.exists():
        centres = ", ".join(f"({_quoted(c)}, {TUNED[c][2]:.3g})" for c in tuned)
        names = _quoted([*sizes, *tuned, "seed"])
        texts[script] = SCRIPT.format(names=names, sizes=_quoted(sizes), centres=f"[{centres}]")
    return texts


def _parse(line: str) -> Command:
    from extrap.records import Command

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise click.UsageError(f"the words of a command are quoted in pairs: {error}.") from None
    return Command(words)


def _range(column: str) -> str:
    low, high, _ = TUNED[column]
    return f"{_quoted(column)}: TunedRange(low={low}, high={high}, n=8)"


def _quoted(value: object) -> str:
    """Text, a list of texts or sizes by name, as Python writes them, in double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(k)}: {v}' for k, v in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _script(command: Command) -> Path | None:
    """The Python script that a command runs, if it does."""
    if command.args[0].startswith("python") and len(command.args) > 1:
        script = Path(command.args[1])
        return script if script.suffix == ".py" and "{" not in str(script) else None
    return None
