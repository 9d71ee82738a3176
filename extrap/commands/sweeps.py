"""A sweep on the command line: the options that every command on one takes, and what reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.arguments import (
    parse_assignments,
    parse_path,
    parse_size,
    parse_tuned,
    path_option,
)
from extrap.commands.printing import say
from extrap.commands.reading import READING, reading_of
from extrap.commands.waiting import reports_progress

if TYPE_CHECKING:
    from extrap.forecasting import Forecast
    from extrap.records import Runs, Verdict

READ_BY = {
    "where": (),
    "ignore": (),
    "partial": False,
    "rename": (),
    "let": (),
    "final": "last",
    "maximise": (),
    "loss": None,
    "seed": "seed",
    "study": None,
    "curves": None,
}
"""Options that only say how runs are read → what they are where they were not given."""


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what the columns of a table are and how a forecast is made."""
    options = [
        click.option(
            "--size",
            multiple=True,
            help="A size column, e.g. width (repeatable); default by name.",
        ),
        click.option(
            "--tune",
            multiple=True,
            help="A tuned column, e.g. lr (repeatable); default by name; none: the law of the "
            "loss alone.",
        ),
        click.option("--seed", default="seed", show_default=True, help="The seed column."),
        *READING,
        click.option(
            "--condition", multiple=True, help="Recipe column that must not vary (repeatable)."
        ),
        click.option("--study", help="Name of the study, if a storage holds several."),
        click.option(
            "--curves",
            type=click.Path(dir_okay=False),
            help="Loss curves of the sweep's runs: a table with the columns run, step and loss.",
        ),
        click.option(
            "--level", type=float, help="Level of the intervals; default 0.95, for a backtest 0.9."
        ),
        click.option(
            "--band",
            type=click.Choice(["default", "family"]),
            help="What the intervals of the loss include: default, that every law is approximate; "
            "family, only the choice of the law.",
        ),
        click.option(
            "--fix",
            multiple=True,
            metavar="NAME=VALUE",
            help="Fix a parameter of the laws, e.g. E=1.6 or lr.b=-0.5 (repeatable).",
        ),
        path_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


big_curves_option = click.option(
    "--big-curves",
    type=click.Path(dir_okay=False),
    help="Loss curves of BIG's runs: a table with the columns run, step and loss.",
)
loss_option = click.option("--loss", help="The loss column; default loss, else by name.")


def size_of(text: str, made: Forecast) -> dict[str, float]:
    """A size of `--at`: by the inputs of the forecast's path, else by its size columns."""
    columns = made.runs.sizes if made.path is None else made.path.inputs
    return parse_size(text, columns, largest=made.largest())


def forecast_of(source: str, columns: dict[str, Any], *, big: str | None = None) -> Forecast:
    """A forecast from a sealed file or from a sweep.

    Args:
        source: The file, or the sweep.
        columns: The options of `sweep_options`, and the loss.
        big: The larger runs that are read by these options too, if any are.
    """
    from extrap.records.seals import is_sealed_file

    if is_sealed_file(big) and not is_sealed_file(source):
        raise click.UsageError(
            f"the forecast comes first and then the runs, got {source} and {big}; write {big} "
            f"{source}."
        )
    if is_sealed_file(source):
        from extrap.documents import load_forecast

        _refuse_reading(source, columns, big=big)
        made = load_forecast(source)
        _check_sealed(source, made, columns)
        return made
    from extrap.forecasting import forecast

    runs = _read_sweep(source, columns)
    with reports_progress(f"fitting {len(runs):,} runs"):
        return forecast(
            runs,
            level=0.95 if columns["level"] is None else columns["level"],
            band=columns["band"] or "default",
            fix=_parse_pins(columns["fix"]),
            path=parse_path(columns["path"]),
        )


def judged(
    source: str, big: str | None, columns: dict[str, Any]
) -> tuple[Forecast, tuple[Verdict, ...], Runs | None]:
    """A forecast, its larger runs if any are given, and the verdicts on them."""
    from extrap.checking import check

    if not big and columns["big_curves"]:
        raise click.UsageError(
            f"--big-curves are those of BIG, got {columns['big_curves']} without one; leave the "
            "option out, or name the larger runs."
        )
    made = forecast_of(source, columns, big=big)
    if not big:
        return made, (), None
    runs = read_big(big, made, columns)
    return made, check(made, runs), runs


def backtested(source: str, columns: dict[str, Any]) -> tuple[Runs, str, dict[str, float]]:
    """The sweep in a table, a storage or a sealed forecast, and its forecast's band and pins."""
    if columns["path"]:
        raise click.UsageError("a backtest asks for the sizes of its runs; leave --path out.")
    from extrap.records.seals import is_sealed_file

    if not is_sealed_file(source):
        return (
            _read_sweep(source, columns),
            columns["band"] or "default",
            _parse_pins(columns["fix"]),
        )
    from extrap.documents import load_forecast
    from extrap.reporting.statements import pins_of

    _refuse_reading(source, columns)
    made = load_forecast(source)
    _check_sealed(source, made, {**columns, "level": None})  # a backtest has a level of its own
    return made.runs, made.band, pins_of(made)


def _refuse_reading(source: str, columns: dict[str, Any], *, big: str | None = None) -> None:
    """Options that say how runs are read would have no effect where none are: say so."""
    for option, default in READ_BY.items():
        is_used = big is not None and option != "curves"  # BIG's are --big-curves
        if columns[option] in (None, (), default) or is_used:
            continue
        other = "give BIG's as --big-curves" if big else "forecast anew from the sweep"
        raise click.UsageError(
            f"--{option} says how runs are read, and a sealed forecast reads none: {source} holds "
            f"those it was made from; leave the option out, or {other}."
        )


def _check_sealed(source: str, made: Forecast, columns: dict[str, Any]) -> None:
    """Options that contradict a sealed forecast would have no effect: say so."""
    from extrap.reporting.statements import pins_of

    asked_path = parse_path(columns["path"])
    asked = {
        **columns,
        "fix": _pin_words(_parse_pins(columns["fix"])),
        "path": None if asked_path is None else str(asked_path),
    }
    sealed = {
        "size": made.runs.sizes,
        "tune": made.runs.tuned or ("none",),
        "condition": made.runs.conditions,
        "level": made.level,
        "band": made.band,
        "fix": _pin_words(pins_of(made)),
        "path": "none" if made.path is None else str(made.path),
    }
    for option, value in sealed.items():
        is_part = option == "condition" and set(asked[option]) <= set(made.runs.conditions)
        if not is_part and asked[option] not in (None, (), value):
            raise click.UsageError(
                f"a sealed forecast keeps its columns and level, {source} has --{option} "
                f"{_words(value)}, got {_words(asked[option])}; leave the option out, or forecast "
                "anew."
            )


def _words(value: object) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _parse_pins(texts: Sequence[str]) -> dict[str, float]:
    return parse_assignments(texts, option="--fix", example="E=1.6 or lr.b=-0.5")


def _pin_words(pins: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(f"{name}={value:g}" for name, value in pins.items()))


def _read_sweep(source: str, columns: dict[str, Any], *, stage: str = "tune") -> Runs:
    return read_table_of_runs(
        source,
        columns,
        tune=parse_tuned(columns["tune"]),
        conditions=columns["condition"],
        study=columns["study"],
        stage=stage,
        curves=columns["curves"],
    )


def read_table_of_runs(
    source: str, columns: Mapping[str, Any], *, may_mix: bool = False, **others: Any
) -> Runs:
    """The runs of a source; what was inferred of its columns is said on the standard error.

    Args:
        source: A path, a URL, or - for the standard input.
        columns: The options `size`, `loss`, `seed` and those of reading.
        may_mix: Whether conditions may vary within the table.
        others: Further fields of the request.
    """
    from extrap.errors import without_password
    from extrap.reading.runs import Request, read_sweep

    request = Request(
        loss=columns["loss"],
        seed=columns.get("seed", "seed"),
        **reading_of(columns),
        **{"size": columns["size"], **others},
    )
    with reports_progress(f"reading {without_password(source)}"):
        given = sys.stdin if source == "-" else source
        runs, announcement = read_sweep(given, request, may_mix=may_mix)
    if announcement:
        say(announcement, err=True)
    return runs


def read_big(source: str, made: Forecast, columns: dict[str, Any]) -> Runs:
    """Runs to judge; what their columns are is known from the forecast."""
    from extrap.reading.runs import known_of

    return read_table_of_runs(
        source,
        columns,
        conditions=made.runs.conditions,
        study=columns["study"],
        stage="check",
        curves=columns["big_curves"],
        **known_of(made.runs),
    )


def refuse_columns(study_file: str, columns: dict[str, Any]) -> None:
    """Options that a study file settles would have no effect: say so."""
    given = [
        name for name, value in columns.items() if value not in (None, (), "seed", "last", False)
    ]
    if given:
        raise click.UsageError(
            f"a study file says how its runs are read and fitted, {study_file} was given "
            f"--{given[0]} too; leave the option out."
        )
