"""`extrap init`: a study file to begin with, which runs as it is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from extrap.commands.helping import Command
from extrap.commands.printing import say

if TYPE_CHECKING:
    from extrap.records import Command as TrainingCommand

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
OURS = ("seed", "run_dir")
"""Placeholders that are neither."""
WIDTHS = (16, 32, 64, 128, 256)
"""Sizes of any other name."""
BEYOND = 4
"""The target is so many times the largest size."""
SCRIPTS = (".py", ".sh")
LONGEST = 58
"""Characters of words on one line."""

FUNCTION = '''"""Run it: extrap study run {file}. Put your training into `train`."""

import math
import random

from extrap import StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="{name}",
    question="Which lr does a larger width need, and which loss does it reach?",
    sizes={{"width": (16, 32, 64, 128, 256)}},  # several columns: every combination
    tune={{"lr": TunedRange(low=2**-9, high=2**-2, n=8)}},  # the grid grows where it is too short
    seeds=(0, 1, 2),
    targets=(Target(size={{"width": 1024}}),),  # trained after the forecast is sealed
)


def train(size, tuned, seed):
    """A toy: the loss of one run, nan if it diverged, or {{"loss": …, "curve": …}}."""
    octaves = math.log2(tuned["lr"] * size["width"] ** 0.7 / 0.4)
    noise = random.Random(f"{{size}}{{tuned}}{{seed}}").gauss(0, 0.002)
    return (1.8 + 3 / math.sqrt(size["width"])) * math.exp(0.02 * octaves**2 + noise)


TRAIN = train
'''

COMMAND = '''"""Run it: extrap study run {file}. The last `loss=1.23` printed is a run's loss."""

from extrap import Command, StudySpec, Target, TunedRange

STUDY = StudySpec(
    name="{name}",
    question="{question}",
    sizes={sizes},
    tune={tune},
    {seeds}
    targets=(Target(size={target}),),  # trained after the forecast is sealed
)
COMMAND = Command([{words}], timeout_s=86_400)
'''

SEEDS = "seeds=(0, 1, 2),"
ONE_SEED = 'seeds=(0,), target_seeds=(0,),  # for several seeds, add "--seed={seed}" to COMMAND'

SCRIPT = '''\
"""A toy in place of a training script: it prints the losses of a law with known answers."""

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


@click.command(name="init", cls=Command)
@click.argument("name", default="my_study")
@click.option(
    "--command",
    "command_line",
    metavar="WORDS",
    help="The command that trains a run, with its values in braces: "
    '"python train.py --lr {lr} --width {width}".',
)
@click.option("--toy", is_flag=True, help="Write a toy script if that of the command is missing.")
@click.option("--force", is_flag=True, help="Overwrite an existing study file.")
def init_command(name: str, *, command_line: str | None, toy: bool, force: bool) -> None:
    """Write a short study file that runs as it is.

    The file is NAME.py. Its runs are trained by a Python function, or with --command by a program
    of your own.
    """
    path = Path(name if name.endswith(".py") else f"{name}.py")
    if path.exists() and not force:
        raise click.UsageError(
            f"{path} exists; choose another name, or overwrite it with --force."
        )
    study = _study_name(path)
    if command_line is None:
        texts = {path: FUNCTION.format(file=path.name, name=study)}
    else:
        texts = _of_command(path, study, _parse(command_line), toy=toy)
    from extrap.files import write_text

    if path.exists() and not _is_study(path):
        raise click.UsageError(
            f"--force overwrites study files only, and {path} defines no study; choose another "
            "name, or move that file away."
        )
    for place, text in texts.items():
        write_text(place, text)
        say(f"wrote {place}")
    if command_line is not None:
        _say_found(_parse(command_line))
    say(f"next: extrap study run {path}")


def _is_study(path: Path) -> bool:
    """Whether a file defines a study; it is not run to find out."""
    from extrap.study.protocol import KINDS

    text = path.read_text(encoding="utf-8", errors="replace")
    return any(re.search(rf"^{kind}\b", text, re.MULTILINE) for kind in KINDS)


def _study_name(path: Path) -> str:
    from extrap.records.fields import require_name

    require_name(path.stem)
    return path.stem


def _of_command(path: Path, name: str, command: TrainingCommand, *, toy: bool) -> dict[Path, str]:
    """The study file of a command, and a toy script if it is wanted."""
    script = _script(command)
    if script is not None and script.resolve() == path.resolve():
        raise click.UsageError(
            f"the study file and its script are two files, got {path} for both; choose another "
            f"name for the study: extrap init {path.stem}_study --command …."
        )
    sizes, tuned = _sizes_and_tuned(command)
    if not (tuned and sizes):
        missing = "{lr}" if not tuned else "{width}"
        raise click.UsageError(
            "a command needs a size and a tuned value in braces, as in --lr {lr} --width {width}; "
            f"got {shlex.join(command.args)}: add {missing}. Tuned values are {', '.join(TUNED)}."
        )
    grids = {column: SIZES.get(column, WIDTHS) for column in sizes}
    texts = {
        path: COMMAND.format(
            file=path.name,
            name=name,
            question=f"Which {tuned[0]} does a larger {sizes[0]} need, and which loss?",
            sizes=_quoted(grids),
            tune=f"{{{', '.join(_range(column) for column in tuned)}}}",
            seeds=SEEDS if "seed" in command.placeholders() else ONE_SEED,
            target=_quoted({column: BEYOND * grid[-1] for column, grid in grids.items()}),
            words=_listed(command.args),
        )
    }
    if script is not None and not script.exists():
        texts[script] = _toy(script, sizes, tuned) if toy else _refuse_missing(script)
    _check_program(command.args[0])
    return texts


def _sizes_and_tuned(command: TrainingCommand) -> tuple[list[str], list[str]]:
    """The placeholders that are sizes, and those that are tuned."""
    given = command.placeholders()
    values = [name for name in given if name not in OURS]
    sizes = [name for name in values if name not in TUNED]
    for name in sizes:
        if near := get_close_matches(name, set(OURS) - set(given), n=1, cutoff=0.7):
            raise click.UsageError(
                f"{{{name}}} looks like a misspelt placeholder; write {{{near[0]}}}, or give the "
                "size another name."
            )
    return sizes, [name for name in values if name in TUNED]


def _say_found(command: TrainingCommand) -> None:
    """What the placeholders were taken for."""
    sizes, tuned = _sizes_and_tuned(command)
    say(f"sizes: {', '.join(sizes)}; tuned: {', '.join(tuned)}")
    if "seed" not in command.placeholders():
        say('one seed: the command has no {seed}; for several, add "--seed={seed}"')


def _check_program(word: str) -> None:
    """Raise unless the first word of a command can be started."""
    if word == "python" or "{" in word or shutil.which(word):  # python is the one extrap runs in
        return
    if word.endswith(SCRIPTS) or Path(word).is_file():
        interpreter = "python" if word.endswith(".py") else "bash"
        raise click.UsageError(
            f"a command begins with a program, {word} is not executable; write {interpreter} "
            f"{word}, or make it executable with chmod +x {word}."
        )
    hint = "write python" if get_close_matches(word, ["python"]) else "correct it, or install it"
    raise click.UsageError(f"a command begins with a program, there is no {word}; {hint}.")


def _listed(words: Sequence[str]) -> str:
    """The words of a command between brackets, on one line if they fit."""
    text = ", ".join(_quoted(word).replace(" ", "\0") for word in words)
    if len(text) > LONGEST:
        lines = textwrap.wrap(text, 94, break_long_words=False, break_on_hyphens=False)
        text = "\n" + "".join(f"    {line}\n" for line in lines)
    return text.replace("\0", " ")


def _toy(script: Path, sizes: list[str], tuned: list[str]) -> str:
    if script.suffix != ".py":
        raise click.UsageError(f"--toy writes Python scripts, got {script}; write it yourself.")
    centres = ", ".join(f"({_quoted(c)}, {TUNED[c][2]:.3g})" for c in tuned)
    names = _quoted([*sizes, *tuned, "seed"])
    return SCRIPT.format(names=names, sizes=_quoted(sizes), centres=f"[{centres}]")


def _refuse_missing(script: Path) -> NoReturn:
    """A name that is not there is a typing error more often than a wish for a toy."""
    there = [path.name for path in script.parent.glob(f"*{script.suffix}")]
    near = get_close_matches(script.name, there, n=1)
    hint = f"write {script.parent / near[0]}" if near else "correct its name"
    raise click.UsageError(
        f"there is no script {script}; {hint}, or write a toy in its place with --toy."
    )


def _parse(line: str) -> TrainingCommand:
    from extrap.records import Command as TrainingCommand

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise click.UsageError(f"the words of a command are quoted in pairs: {error}.") from None
    return TrainingCommand(words)


def _range(column: str) -> str:
    low, high, _ = TUNED[column]
    return f"{_quoted(column)}: TunedRange(low={low}, high={high}, n=8)"


def _quoted(value: object) -> str:
    """Text, a list of texts or sizes by name, as Python writes them, in double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(k)}: {v}' for k, v in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _script(command: TrainingCommand) -> Path | None:
    """The script that a command runs: its first word that names one."""
    names = (word for word in command.args if "{" not in word)
    return next((Path(name) for name in names if name.endswith(SCRIPTS)), None)
