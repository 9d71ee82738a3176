"""The options of the commands, written as their help prints them, and how values are read.

A row of a table of options is `NAMES [ARGUMENT] [METAVAR] | HELP | KINDS OF SOURCE`:

    --where COLUMN=VALUE | Read only rows with this value (repeatable). | table big
    --level FLOAT | Level of the intervals. [default: 0.95] | table

An option without a metavar is a flag, one whose help has `(repeatable` may be given several times.
It has no effect on other kinds of source than those named, see `inputs.kind_of`; none are all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click


class Option(click.Option):
    """An option, the kinds of source on which it has an effect, and how it is written."""

    sources: frozenset[str]

    @property
    def flag(self) -> str:
        """How it is written: `--size`."""
        return max(self.opts, key=len)


def _pairs(flag: str, metavar: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise click.UsageError(f"{flag} takes {metavar}, got {text!r}.")
        yield name, value


def _values(flag: str, metavar: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """`warmup=100` each as column → values."""
    values: dict[str, list[str]] = {}
    for name, value in _pairs(flag, metavar, texts):
        values.setdefault(name, []).append(value)
    return values


def _names(flag: str, metavar: str, texts: Sequence[str]) -> dict[str, str]:
    """`learning_rate=lr` each as old name → new name."""
    return dict(_pairs(flag, metavar, texts))


def _numbers(flag: str, metavar: str, texts: Sequence[str]) -> dict[str, float]:
    """`E=1.6`, `lr.b=-0.5` each as name → value."""
    numbers: dict[str, float] = {}
    for name, text in _pairs(flag, metavar, texts):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise click.UsageError(f"{flag} {name} takes a number, got {text!r}.")
        if name in numbers:
            raise click.UsageError(f"{flag} {name} was given twice; a name has one value.")
        numbers[name] = number
    return numbers


PAIRS: dict[str, Callable[[str, str, Sequence[str]], Any]] = {
    "COLUMN=VALUE": _values,
    "OLD=NEW": _names,
    "NAME=NUMBER": _numbers,
}
"""Metavar → what makes a mapping of the texts given."""
TYPES: dict[str, Any] = {
    "FLOAT": click.FLOAT,
    "INTEGER": click.INT,
    "FILE": click.Path(dir_okay=False),
    "COUNT": click.IntRange(min=1),
    "AMOUNT": click.FloatRange(min=0),
    "SECONDS": click.FloatRange(min=0, min_open=True),
}
"""Metavar → type; any other is text."""


def read_options(table: str) -> list[Option]:
    """The options in a table; a row goes on up to the next line that begins with a dash."""
    rows = re.split(r"\n\s*(?=-)", table.strip())
    return [_option(*" ".join(row.split()).split(" | ")) for row in rows if row]


def _option(names: str, text: str, sources: str = "") -> Option:
    text, _, default = text.removesuffix("]").partition(" [default: ")
    is_required = text.endswith(" [required")
    words = names.split()
    metavar = next((word for word in words if word.isupper() or "|" in word), "")
    kind = click.Choice(metavar.split("|")) if "|" in metavar else TYPES.get(metavar)
    settings: dict[str, Any] = {"is_flag": True}
    if metavar:
        settings = {"type": kind, "multiple": "(repeatable" in text}
        settings |= {} if "|" in metavar else {"metavar": metavar}
    if default:
        settings |= {"default": default, "show_default": True}
    if (read := PAIRS.get(metavar)) is not None:
        settings["callback"] = lambda _, option, texts: read(option.flag, metavar, texts)
    option = Option(
        [word for word in words if word != metavar],
        help=text.removesuffix(" [required"),
        required=is_required,
        **settings,
    )
    option.sources = frozenset(sources.split())
    return option


OPTIONS = read_options("""
    --size TEXT | A size column, e.g. width (repeatable); default by name. | table
    --tune TEXT | A tuned column, e.g. lr (repeatable); default by name; none: the law of the loss
        alone. | table
    --loss TEXT | The loss column; default loss, else by name. | table big
    --seed TEXT | The seed column. [default: seed] | table big
    --where COLUMN=VALUE | Read only rows with this value (repeatable). | table big
    --ignore COLUMN | Take runs that differ in this column for replicates (repeatable). | table big
    --partial | Also count runs that stopped before the steps that others of their size reached.
        | table big
    --rename OLD=NEW | Rename a column before anything else is read (repeatable). | table big
    --let FORMULA | New column, e.g. "lr_mult = lr * width / 256" (repeatable, in order).
        | table big
    --final RULE | Final loss of a curve: last, best, tail (mean of the last 5 %) or tail:0.1.
        [default: last] | table big
    --maximise METRIC | Metric that is better when larger: the loss is 1 − x of a share, −x below 0
        (repeatable). | table big
    --condition conditions TEXT | Recipe column that must not vary (repeatable). | table
    --study TEXT | Name of the study, if a storage holds several. | table big
    --curves FILE | Loss curves of the sweep's runs: a table with the columns run, step and loss.
        | table
    --big-curves FILE | Loss curves of BIG's runs: a table with the columns run, step and loss.
        | big
    --level FLOAT | Level of the intervals. [default: 0.95] | table
    --band default|family | What the intervals of the loss include: default, that every law is
        approximate; family, only the choice of the law. [default: default] | table
    --fix NAME=NUMBER | Fix a parameter of the laws, e.g. E=1.6 or lr.b=-0.5 (repeatable). | table
    --prior published|none | Whether intervals of losses over compute follow errors on published
        ladders. [default: published] | table
    --loss-kind nats|bits|error|accuracy|other | What the loss is; default: by its name and values.
        | table
    --path NAME=FORMULA | Formula of a size column, e.g. 'n_params = 12 * depth * (64 * depth)**2',
        so that --at depth=34 works (repeatable). | table
    --price FLOAT | Price of a GPU-hour.
    --cost FORMULA | Cost of a run, e.g. '6 * n_params * n_tokens'; default: the column flops.
    --flops-per-second FLOAT | Speed of one GPU, to turn FLOPs into hours; default: from the column
        wall_s.
    --storage URL | Storage of a study file; default sqlite:///.extrap/NAME.db. | study
    --set assignments KEY=VALUE | Override a field of the study, e.g. recipe.steps=3000
        (repeatable).
    -o --output FILE | HTML file to write.
    --quiet | Show no progress. | study
    --json as_json | Print JSON.
    --details | Also print what the answer is based on.
""")
"""Options that several commands take."""
READING = "where ignore partial rename let final maximise"
"""Options that say how runs are read, whatever they are for."""
SWEEP = f"size tune seed {READING} conditions study curves band fix prior loss_kind"
"""Options of every command on a sweep."""
FORECAST = f"{SWEEP} path level"
"""Options of the commands that make a forecast."""


def shared_options(names: str) -> list[Option]:
    """Options of the table, by the names of their arguments."""
    table = {option.name: option for option in OPTIONS}
    return [table[name] for name in names.split()]


def parse_tuned(names: Sequence[str]) -> tuple[str, ...] | None:
    """Tuned columns; `none` is no column, and nothing at all is what the source names."""
    if "none" in names and len(names) > 1:
        raise click.UsageError(
            f"--tune none is the loss law alone, got {', '.join(names)}; leave one of them out."
        )
    return None if not names else () if tuple(names) == ("none",) else tuple(names)


TIMES = re.compile(r"(\d+\.?\d*|\.\d+)\s*[xX×]")
"""A multiple of the largest swept size."""
UNITS = {"k": "e3", "K": "e3", "M": "e6", "B": "e9", "T": "e12"}
"""Suffix of a number, as the output has it → its power of ten."""


def parse_size(
    text: str, columns: Sequence[str], *, largest: Mapping[str, float] | None = None
) -> dict[str, float]:
    """`4096`, `8x`, `1.5M`, `width=4096` or `params=1e9,tokens=2x` as size column → value.

    Args:
        text: The size.
        columns: The names that a size is given by.
        largest: Size column → its largest swept value, where there is a sweep.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if largest and len(parts) == 1 and TIMES.fullmatch(parts[0]):
        parts = [f"{column}={parts[0]}" for column in largest]
    elif len(columns) == 1 and len(parts) == 1 and "=" not in parts[0]:
        parts = [f"{columns[0]}={parts[0]}"]
    size: dict[str, float] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            named = f"--at {','.join(f'{column}=…' for column in columns)}"
            if len(columns) == 1:
                named = "one without commas, as in 1024"
            raise click.UsageError(f"--at takes one size, got {text!r}; write {named}.")
        if name in size:
            raise click.UsageError(
                f"one --at is one size, {name} was given twice in {text!r}; write one --at for "
                "each size."
            )
        number = _number(value, (largest or {}).get(name))
        if number is None:
            raise click.UsageError(
                f"--at takes a number such as 4096 or 1.5M, or with a sweep 8x, got {value!r} for "
                f"{name}; write one of these."
            )
        size[name] = number
    return size


def _number(text: str, largest: float | None) -> float | None:
    """`4096`, `1.5M`, or `8x` of the largest; None for anything else."""
    if (times := TIMES.fullmatch(text)) is not None:
        return None if largest is None else float(times[1]) * largest
    try:
        return float(text[:-1] + UNITS.get(text[-1:], text[-1:]))
    except ValueError:
        return None
