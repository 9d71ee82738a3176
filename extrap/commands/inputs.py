"""What a source on the command line is, and the runs or the forecast in it."""

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
"""Kind of source → what a message says of it."""


def opened(source: str) -> Any:
    """A source as the analyses take it: `-` is the standard input."""
    return sys.stdin if source == "-" else source


def kind_of(source: str, big: str | None = None) -> str:
    """The kind of a source; options of the command that have no effect on it are refused.

    Args:
        source: What was given.
        big: The larger runs, if any are given.

    Returns:
        `"study"`, `"sealed"` or `"table"`.
    """
    from extrap.records.seals import is_sealed_file

    is_sealed, is_study = is_sealed_file(source), source.endswith(".py")
    if is_sealed_file(big) and not is_sealed:
        raise click.UsageError(
            f"the forecast comes first and then the runs, got {source} and {big}; write {big} "
            f"{source}."
        )
    kind = "study" if is_study else "sealed" if is_sealed else "table"
    kinds = {kind, "big"} if big and not is_study else {kind}
    context = click.get_current_context()
    for option in context.command.params:
        if not isinstance(option, Option) or not option.sources or option.sources & kinds:
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


def size_of(text: str, forecast: Forecast) -> dict[str, float]:
    """A size of `--at`: by the inputs of the forecast's path, else by its size columns."""
    columns = forecast.runs.sizes if forecast.path is None else forecast.path.inputs
    return parse_size(text, columns, largest=forecast.largest())


def forecast_of(source: str, options: dict[str, Any], *, big: str | None = None) -> Forecast:
    """The forecast in a sealed file, or from a sweep.

    Args:
        source: The file, or the sweep.
        options: Those of a sweep.
        big: The larger runs that are read by these options too, if any are.
    """
    if kind_of(source, big) == "sealed":
        from extrap.forecasting.documents import load_forecast

        return load_forecast(source)
    from extrap.forecasting import forecast
    from extrap.records import SizePath
    from extrap.records.numbers import counted

    runs = read_table(source, options, elsewhere=renamings(options) if big else ())
    keywords = {name: options[name] for name in ("level", "band", "fix", "prior")}
    with reports_progress(f"fitting {counted(len(runs), 'run')}"):
        return forecast(runs, path=SizePath.parse(options["path"]), **keywords)


def read_table(
    source: str, options: dict[str, Any], *, may_mix: bool = False, **others: Any
) -> Runs:
    """The runs of a source; what was inferred of its columns is said on the standard error.

    Args:
        source: A path, a URL, or - for the standard input.
        options: Those of the command, of which the ones that read runs count.
        may_mix: Whether conditions may vary within the table.
        others: Further fields of the request.
    """
    from extrap.errors import without_password
    from extrap.reading.reader import read_sweep
    from extrap.reading.request import Request

    names = {field.name for field in fields(Request)}
    values = {**options, "tune": parse_tuned(options.get("tune", ())), **others}
    request = Request(**{name: value for name, value in values.items() if name in names})

    with reports_progress(f"reading {without_password(source)}"):
        runs, announcement = read_sweep(opened(source), request, may_mix=may_mix)
    if announcement:
        say(announcement, err=True)
    return runs


def read_big(source: str, forecast: Forecast, options: dict[str, Any], *, sweep: str) -> Runs:
    """Runs to judge; what their columns are is known from the forecast of the sweep."""
    from extrap.reading.reader import known_of, unused_of
    from extrap.records.seals import is_sealed_file

    request_fields = known_of(forecast.runs) | {"conditions": forecast.runs.conditions}
    is_sealed = is_sealed_file(sweep)  # then all that was given is for these runs
    used = set[str]() if is_sealed else {*renamings(options)} - unused_of(forecast.runs)
    request_fields["elsewhere"] = (*used, *options["where"], *options["ignore"])
    return read_table(
        source, options, stage="check", curves=options["big_curves"], **request_fields
    )


def renamings(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The renamings `old=new` and the formulas that were given."""
    return (*(f"{old}={new}" for old, new in options["rename"].items()), *options["let"])


def target_of(text: str, runs: Runs) -> dict[str, float]:
    """The size that `--at` names, of those of the runs."""
    frame = runs.to_frame()
    return parse_size(text, runs.sizes, largest={c: float(frame[c].max()) for c in runs.sizes})


def announced(result: Any) -> Any:
    """A result, of which the standard error says which columns were taken for what."""
    from extrap.records.notes import USING, of_codes

    for note in of_codes(result.notes, USING):
        say(note, err=True)
    return result
