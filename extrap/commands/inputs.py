"""Sources on the command line: their kind, and the runs or the forecast read from them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from extrap.commands.option_table import Option, parse_size, parse_tuned
from extrap.commands.printing import reports_progress, say

if TYPE_CHECKING:
    from extrap.forecasting import Forecast
    from extrap.records import Runs

SOURCE_KINDS = {
    "table": "a table of runs",
    "big": "larger runs (BIG)",
    "sealed": "a sealed forecast, which keeps its runs, columns and level",
    "study": "a study file, which says how its runs are read and fitted",
}
"""Name in `Option.sources` → description for messages, whose part before a comma stands in lists.
`big` is the second source, BIG."""


def path_or_stdin(source: str) -> Any:
    """The source itself, a path or URL; the standard input for `-`."""
    return sys.stdin if source == "-" else source


def checked_source_kind(source: str, big: str | None = None) -> str:
    """The kind of a source, after a check that every option on the command line applies to it.

    Args:
        source: A path, a URL, or - for the standard input.
        big: The source of the larger runs, if there is one.

    Returns:
        `"study"`, `"sealed"` or `"table"`.

    Raises:
        UsageError: An option has no effect on these sources, or they are in the wrong order.
    """
    from extrap.records.seals import is_sealed_file

    is_sealed, is_study = is_sealed_file(source), source.endswith(".py")
    if is_sealed_file(big) and not is_sealed:
        raise click.UsageError(
            f"the forecast comes first and then the runs, got {source} and {big}; write {big} "
            f"{source}."
        )
    kind = "study" if is_study else "sealed" if is_sealed else "table"
    sources = {kind, "big"} if big and not is_study else {kind}
    context = click.get_current_context()
    for option in context.command.params:
        if not isinstance(option, Option) or not option.sources or option.sources & sources:
            continue
        if context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
            from extrap.errors import without_password

            others = " and ".join(
                SOURCE_KINDS[other].partition(",")[0] for other in sorted(option.sources)
            )
            raise click.UsageError(
                f"{option.flag} has no effect on {without_password(source)}, "
                f"{SOURCE_KINDS[kind]}; it is for {others}, so leave it out."
            )
    return kind


def refuse_options_but(allowed: str, source: str, kind: str) -> None:
    """Raise where an option on the command line has no effect on a source.

    Args:
        allowed: Names of the arguments of the options that have one, separated by blanks.
        source: The source.
        kind: What it is, for the message.

    Raises:
        UsageError: There is such an option.
    """
    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if isinstance(option, Option) and is_given and option.name not in allowed.split():
            raise click.UsageError(
                f"{option.flag} has no effect on {source}, {kind}; leave it out."
            )


def parse_forecast_size(text: str, forecast: Forecast) -> dict[str, float]:
    """Parse a size from `--at`, given in the inputs of the size path or in the size columns."""
    columns = forecast.runs.sizes if forecast.path is None else forecast.path.inputs
    return parse_size(text, columns, largest=forecast.largest())


def load_or_fit_forecast(
    source: str, options: dict[str, Any], *, big: str | None = None
) -> Forecast:
    """Load the forecast from a sealed file, or fit one to a sweep.

    Args:
        source: The sealed file, or the table of the sweep.
        options: Options of the command, by which a sweep is read and fitted.
        big: The source of the larger runs, if there is one; the same options are used to read it.
    """
    if checked_source_kind(source, big) == "sealed":
        from extrap.forecasting.documents import load_forecast

        return load_forecast(source)
    from extrap.forecasting import forecast
    from extrap.records import SizePath
    from extrap.records.numbers import counted

    # A renaming or formula may be for the larger runs alone, so here none of them has to apply.
    optional = renamings_and_formulas(options) if big else ()
    runs = read_table(source, options, optional=optional)
    keywords = {name: options[name] for name in ("level", "band", "fix", "prior")}
    with reports_progress(f"fitting {counted(len(runs), 'run')}"):
        return forecast(runs, path=SizePath.parse(options["path"]), **keywords)


def read_table(
    source: str, options: dict[str, Any], *, may_mix: bool = False, **others: Any
) -> Runs:
    """Read the runs of a table; print to the standard error how its columns were interpreted.

    Args:
        source: A path, a URL, or - for the standard input.
        options: Options of the command; those that are no fields of `Request` are ignored.
        may_mix: Whether conditions may vary within the table.
        others: Further fields of `Request`, which take precedence over the options.
    """
    from extrap.errors import without_password
    from extrap.reading.reader import read_sweep
    from extrap.reading.request import Request

    names = {field.name for field in fields(Request)}
    values = {**options, "tune": parse_tuned(options.get("tune", ())), **others}
    request = Request(**{name: value for name, value in values.items() if name in names})

    with reports_progress(f"reading {without_password(source)}"):
        runs, announcement = read_sweep(path_or_stdin(source), request, may_mix=may_mix)
    if announcement:
        say(announcement, err=True)
    return runs


def read_big(source: str, forecast: Forecast, options: dict[str, Any], *, sweep: str) -> Runs:
    """Read the larger runs, with the columns and conditions of the forecast.

    Args:
        source: The source of the larger runs.
        forecast: The forecast that they are compared with.
        options: Options of the command.
        sweep: The source of the forecast.
    """
    from extrap.reading.reader import request_fields_of, skipped_optional
    from extrap.records.seals import is_sealed_file

    request_fields = request_fields_of(forecast.runs) | {"conditions": forecast.runs.conditions}
    # The larger runs are read as the sweep was. An option that applied to the sweep need not apply
    # to them; a sealed forecast was read without options.
    used_by_sweep = set(renamings_and_formulas(options)) - skipped_optional(forecast.runs)
    optional = set[str]() if is_sealed_file(sweep) else used_by_sweep
    request_fields["optional"] = (*optional, *options["where"], *options["ignore"])
    return read_table(
        source, options, stage="check", curves=options["big_curves"], **request_fields
    )


def renamings_and_formulas(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The renamings `old=new` of `--rename` and the formulas of `--let`."""
    return (*(f"{old}={new}" for old, new in options["rename"].items()), *options["let"])


def parse_runs_size(text: str, runs: Runs) -> dict[str, float]:
    """Parse a size from `--at`, given in the size columns of the runs."""
    frame = runs.to_frame()
    return parse_size(text, runs.sizes, largest={c: float(frame[c].max()) for c in runs.sizes})


def announce_columns(result: Any) -> Any:
    """Print to the standard error which columns a result was computed from, and return it."""
    from extrap.records.notes import USING, of_codes

    for note in of_codes(result.notes, USING):
        say(note, err=True)
    return result
