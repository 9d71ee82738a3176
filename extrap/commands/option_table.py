"""The options of the commands, and how values are read.

Those that say how runs are read are fields of `Request`. Others are rows of tables, written as
their help prints them, `NAMES [ARGUMENT] [METAVAR] | HELP | KINDS OF SOURCE`:

    --level FLOAT | Level of the intervals. [default: 0.95] | table
    --fix NAME=NUMBER... | Fix a parameter of the laws, e.g. E=1.6 (repeatable). | table
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import click

from extrap.reading.request import Request


class Option(click.Option):
    """An option, and the kinds of source on which it has an effect.

    Args:
        names: How it is written, and the name of its argument if that is another.
        metavar: What stands for its value in the help: choices separated by `|`, or a name, which
            `PAIRS` and `TYPES` know; `...` after it if there may be several; empty for a flag.
        text: Its help.
        sources: The kinds, separated by blanks, see `inputs.checked_source_kind`; none are all.
        default: The default, which its help shows.
        required: Whether it must be given.
    """

    def __init__(
        self,
        names: Sequence[str],
        metavar: str,
        text: str,
        sources: str = "",
        *,
        default: object = None,
        required: bool = False,
    ) -> None:
        settings: dict[str, Any] = {"is_flag": True}
        if metavar:
            metavar, several = metavar.removesuffix("..."), metavar.endswith("...")
            is_choice = "|" in metavar
            settings = {
                "type": click.Choice(metavar.split("|")) if is_choice else TYPES.get(metavar),
                "metavar": None if is_choice else metavar,
                "multiple": several,
            }
        if default:
            settings |= {"default": default, "show_default": True}
        if (read := PAIRS.get(metavar)) is not None:
            settings["callback"] = lambda _, option, texts: read(option.flag, metavar, texts)
        super().__init__(names, help=text, required=required, **settings)
        self.sources = frozenset(sources.split())

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
    "WORD=DECISION": _names,
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
    return [_row(*" ".join(row.split()).split(" | ")) for row in rows if row]


def _row(names: str, text: str, sources: str = "") -> Option:
    text, _, default = text.removesuffix("]").partition(" [default: ")
    required = text.endswith(" [required")
    text = text.removesuffix(" [required")
    parts = names.split()
    metavar = next((word for word in parts if word.isupper() or "|" in word), "")
    written = [word for word in parts if word != metavar]
    return Option(written, metavar, text, sources, default=default, required=required)


def reading_options() -> list[Option]:
    """The options that say how runs are read: the fields of `Request` that are described."""
    options = list[Option]()
    for field in fields(Request):
        if described := dict(field.metadata):
            flag = described.pop("flag") or f"--{field.name.replace('_', '-')}"
            options.append(Option([flag, field.name], **described, default=field.default))
    return options


SHARED_OPTIONS = [
    *reading_options(),
    *read_options("""
    --big-curves FILE | Loss curves of BIG's runs: a table with the columns run, step and loss.
        | big
    --level FLOAT | Level of the intervals. [default: 0.95] | table
    --band default|family | What the intervals of the loss include: default, that every law is
        approximate; family, only the choice of the law. [default: default] | table
    --fix NAME=NUMBER... | Fix a parameter of the laws, e.g. E=1.6 or lr.b=-0.5 (repeatable).
        | table
    --prior published|none | Whether intervals of losses over compute follow errors on published
        ladders. [default: published] | table
    --path NAME=FORMULA... | Formula of a size column, e.g. 'n_params = 12 * depth *
        (64 * depth)**2', so that --at depth=34 works (repeatable). | table
    --price FLOAT | Price of a GPU-hour.
    --cost FORMULA | Cost of a run, e.g. '6 * n_params * n_tokens'; default: the column flops.
    --flops-per-second FLOAT | Speed of one GPU, to turn FLOPs into hours; default: from the column
        wall_s.
    --storage URL | Storage of a study file; default sqlite:///.extrap/NAME.db. | study
    --set assignments KEY=VALUE... | Override a field of the study, e.g. recipe.steps=3000
        (repeatable).
    -o --output FILE | HTML file to write.
    --quiet | Show no progress. | study
    --json as_json | Print JSON.
    --details | Also print what the answer is based on.
"""),
]
"""Options that several commands take."""
READING_OPTIONS = "where ignore partial rename let final maximise"
"""Options that say how runs are read, whatever they are for."""
SWEEP_OPTIONS = (
    f"size tune seed {READING_OPTIONS} conditions study curves band fix prior loss_kind"
)
"""Options of every command on a sweep."""
FORECAST_OPTIONS = f"{SWEEP_OPTIONS} path level"
"""Options of the commands that make a forecast."""


def shared_options(names: str) -> list[Option]:
    """Options of the table, by the names of their arguments."""
    table = {option.name: option for option in SHARED_OPTIONS}
    return [table[name] for name in names.split()]


def parse_tuned(names: Sequence[str]) -> tuple[str, ...] | None:
    """Tuned columns; `none` is no column, and nothing at all is what the source names."""
    if "none" in names and len(names) > 1:
        raise click.UsageError(
            f"--tune none is the loss law alone, got {', '.join(names)}; leave one of them out."
        )
    return None if not names else () if tuple(names) == ("none",) else tuple(names)


MULTIPLE_PATTERN = re.compile(r"(\d+\.?\d*|\.\d+)\s*[xX×]")
"""A multiple of the largest swept size."""
NUMBER_SUFFIXES = {"k": "e3", "K": "e3", "M": "e6", "B": "e9", "T": "e12"}
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
    if largest and len(parts) == 1 and MULTIPLE_PATTERN.fullmatch(parts[0]):
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
        if number is None and largest and MULTIPLE_PATTERN.fullmatch(value):
            raise click.UsageError(
                f"--at takes a multiple of the largest {' or '.join(largest)}, got {value!r} for "
                f"{name}; write a number such as 4096 or 1.5M."
            )
        if number is None:
            raise click.UsageError(
                f"--at takes a number such as 4096 or 1.5M, or with a sweep 8x, got {value!r} for "
                f"{name}; write one of these."
            )
        size[name] = number
    return size


def _number(text: str, largest: float | None) -> float | None:
    """`4096`, `1.5M`, or `8x` of the largest; None for anything else."""
    if (times := MULTIPLE_PATTERN.fullmatch(text)) is not None:
        return None if largest is None else float(times[1]) * largest
    try:
        return float(text[:-1] + NUMBER_SUFFIXES.get(text[-1:], text[-1:]))
    except ValueError:
        return None
