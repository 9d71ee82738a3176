"""`extrap init`: a study file to begin with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from extrap.commands.analysis import command
from extrap.commands.printing import say
from extrap.errors import nearest

TUNED = {
    "lr": (2**-9, 2**-2),
    "learning_rate": (2**-9, 2**-2),
    "batch_size": (8, 512),
    "weight_decay": (0.001, 1),
}
"""Placeholders that are tuned, and over which range; all others are sizes."""
OTHER_PLACEHOLDERS = ("seed", "run_dir")
"""Placeholders that are neither sizes nor tuned values."""
EXAMPLE_SIZES = (16, 32, 64, 128, 256)
"""Values of every size column in the file, each twice the one before."""
EXAMPLE_TARGET = 1024
"""The size that the file forecasts: four times the largest of `EXAMPLE_SIZES`."""

STUDY = '''"""Run it: extrap study run {file}."""
{imports}
STUDY = StudySpec(
    name="{name}",
    question="Which {tuned[0]} does a larger {sizes[0]} need, and which loss does it reach?",
    sizes={{{grids}}},  # several columns: every combination
    tune={{{ranges}}},  # the grid grows where it is too short
    seeds={seeds},
    targets=(Target(size={target}),),  # trained after the forecast is sealed
)
'''
FUNCTION_IMPORTS = """
import math
import random

from extrap import StudySpec, Target, TunedRange
"""
FUNCTION = '''

def train(size, tuned, seed):
    """A toy: the loss of one run, nan if it diverged, or {"loss": …, "curve": …}."""
    octaves = math.log2(tuned["lr"] * size["width"] ** 0.7 / 0.4)
    noise = random.Random(f"{size}{tuned}{seed}").gauss(0, 0.002)
    return (1.8 + 3 / math.sqrt(size["width"])) * math.exp(0.02 * octaves**2 + noise)


TRAIN = train
'''
COMMAND_IMPORTS = "\nfrom extrap import Command, StudySpec, Target, TunedRange\n"
COMMAND = """# the last `loss=1.23` printed is a run's loss
COMMAND = Command({args}, timeout_s=86_400)
"""


@command(
    "init [NAME]",
    "size",
    """
    --command line WORDS | The command that trains a run, with its values in braces:
        "python train.py --lr {lr} --width {width}".
    --force | Overwrite an existing file.
    """,
)
def init_command(name: str | None, *, line: str | None, size: Sequence[str], force: bool) -> None:
    """Write a short study file.

    The file is NAME.py, by default my_study.py. Its runs are trained by a Python function, a toy
    that runs as it is, or with --command by a program of your own.
    """
    from extrap.files import write_text
    from extrap.records import Command
    from extrap.records.fields import Name, fitted

    path = Path((name or "my_study").removesuffix(".py") + ".py")
    fitted(path.stem, Name, "name")
    if path.exists() and not force:
        raise click.UsageError(
            f"{path} exists; choose another name, or overwrite it with --force."
        )
    training_command = None if line is None else Command(shlex.split(line))
    columns = (
        []
        if training_command is None
        else [c for c in training_command.placeholders() if c not in OTHER_PLACEHOLDERS]
    )
    _require_known(columns, size)
    tuned, sizes, seeds = ["lr"], ["width"], "(0, 1, 2)"
    imports, training, note = FUNCTION_IMPORTS, FUNCTION, ""
    if training_command is not None:
        tuned = [column for column in columns if column in TUNED]
        sizes = [column for column in columns if column not in TUNED]
        if not (tuned and sizes):
            raise click.UsageError(
                "a command needs a size and a tuned value in braces, as in --lr {lr} --width "
                f"{{width}}; got {line}. Tuned values are {', '.join(TUNED)}."
            )
        note = f"sizes: {', '.join(sizes)}; tuned: {', '.join(tuned)}\n"
        if "seed" not in training_command.placeholders():
            seeds = "(0,),\n    target_seeds=(0,)"
            note += 'one seed: the command has no {seed}; for several, add "--seed={seed}"\n'
        imports = COMMAND_IMPORTS
        training = COMMAND.format(args=json.dumps(training_command.args, ensure_ascii=False))
    ranges = (
        f'"{column}": TunedRange(low={TUNED[column][0]}, high={TUNED[column][1]}, n=8)'
        for column in tuned
    )
    head = STUDY.format(
        file=path.name,
        name=path.stem,
        imports=imports,
        tuned=tuned,
        sizes=sizes,
        grids=", ".join(f'"{size}": {EXAMPLE_SIZES}' for size in sizes),
        ranges=", ".join(ranges),
        seeds=seeds,
        target=json.dumps(dict.fromkeys(sizes, EXAMPLE_TARGET)),
    )
    write_text(path, head + training)
    say(f"wrote {path}\n{note}next: extrap study run {path}")


def _require_known(columns: Sequence[str], sizes: Sequence[str]) -> None:
    """Refuse names in braces that are no tuned values, and no sizes as far as is known."""
    if missing := [size for size in sizes if size not in columns]:
        raise click.UsageError(
            f"--size names what is in the braces of --command, got {missing[0]}; write "
            f"{{{missing[0]}}} there, or leave it out."
        )
    if not columns:
        return
    from extrap.reading.names import NAMES_OF_PART

    size_names = (*sizes, *NAMES_OF_PART["size"], *NAMES_OF_PART["data"])
    for column in columns:
        if column not in (*TUNED, *size_names):
            raise click.UsageError(
                f"a name in braces is a tuned value ({', '.join(TUNED)}), a size "
                f"({size_names[0]}, …) or one of {', '.join(OTHER_PLACEHOLDERS)}, got "
                f"{{{column}}}; {nearest(column, (*TUNED, *size_names, *OTHER_PLACEHOLDERS))} To "
                f"make it a size, add --size {column}."
            )
