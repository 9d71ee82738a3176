"""The command line: parse, one library call, print, exit code.

Exit codes: 0 fine, 1 a run deviates, 2 bad usage or data, 3 an unexpected error, 130 Ctrl-C,
SIGTERM or SIGUSR1.
"""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from extrap import __version__
from extrap.commands.allocate import allocate_command
from extrap.commands.arguments import (
    parse_assignments,
    parse_path,
    parse_size,
    parse_tuned,
    path_option,
)
from extrap.commands.cascade import cascade_command
from extrap.commands.compare import compare_command
from extrap.commands.completion import completes, completion_command
from extrap.commands.cost import cost_command
from extrap.commands.critical_batch import critical_batch_command
from extrap.commands.exits import BAD_USAGE, DEVIATES, FINE, INTERRUPTED, UNEXPECTED
from extrap.commands.exports import export_command, import_command, repair_command
from extrap.commands.init import init_command
from extrap.commands.knobs import knobs_command
from extrap.commands.pages import beside_command, index_command, page_command, write_besides
from extrap.commands.plan import plan_command
from extrap.commands.printing import PlainFormatter, print_json, say
from extrap.commands.reading import READING, reading_of
from extrap.commands.select import select_command
from extrap.commands.status import status_command
from extrap.commands.studies import accept_training, report_study_file, run_study_file
from extrap.commands.watch import watch_command
from extrap.commands.workers import (
    accepting,
    merge_command,
    preemptible,
    serve_command,
    stops_gracefully,
    work_command,
)
from extrap.errors import ExtrapError

if TYPE_CHECKING:
    from extrap.forecasting import Forecast
    from extrap.records import Runs, Verdict

__all__ = ["cli", "main"]

EXTRAS = {
    "grpc": "grpc",
    "mlflow": "mlflow",
    "polars": "polars",
    "psycopg": "postgres",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "yaml": "yaml",
}
"""The extra that holds a library; of all others it is `train`."""
MOST_MESSAGE = 2000
"""Characters of an error: what it quotes may be as long as a file."""
REMEDIES = {
    errno.ENOSPC: "free some space and run it again; what was written before is whole",
    errno.EDQUOT: "free some space and run it again; what was written before is whole",
    errno.EFBIG: "allow larger files and run it again; what was written before is whole",
    errno.EROFS: "choose a folder that may be written to",
    errno.EACCES: "choose a folder that may be written to, or get the right to it",
    errno.EPERM: "choose a folder that may be written to, or get the right to it",
}
"""What to do about a file that cannot be read or written; else its path is to be checked."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="extrap")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(*, debug: bool) -> None:
    """Tune small, forecast big, and say so when big goes wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


def _columns(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what the columns of a table are and how a forecast is made."""
    options = [
        click.option("--size", multiple=True, help="A size column, e.g. width (repeatable)."),
        click.option(
            "--tune",
            multiple=True,
            help="A tuned column, e.g. lr (repeatable); none: the loss law alone.",
        ),
        click.option("--seed", default="seed", show_default=True, help="The seed column."),
        *READING,
        click.option(
            "--condition", multiple=True, help="A recipe column that must not vary (repeatable)."
        ),
        click.option("--study", help="Name of the study, where a storage holds several."),
        click.option(
            "--curves",
            type=click.Path(dir_okay=False),
            help="Loss curves of the sweep's runs: a table with the columns run, step and loss.",
        ),
        click.option(
            "--level", type=float, help="Level of the intervals; default 0.95, of a backtest 0.9."
        ),
        click.option(
            "--band",
            type=click.Choice(["default", "family"]),
            help="What the loss's intervals allow for: default, that no law is quite right; "
            "family, only which law is.",
        ),
        click.option(
            "--fix",
            multiple=True,
            metavar="NAME=VALUE",
            help="Pin a parameter of the laws, e.g. E=1.6 or lr.b=-0.5 (repeatable).",
        ),
        path_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


_big_curves = click.option(
    "--big-curves",
    type=click.Path(dir_okay=False),
    help="Loss curves of BIG's runs: a table with the columns run, step and loss.",
)
_loss = click.option("--loss", help="The loss column; default loss.")


@cli.command(name="forecast")
@click.argument("sweep")
@_columns
@_loss
@click.option(
    "--at",
    multiple=True,
    help="A size to forecast: 4096, width=4096, or params=1e9,tokens=2e10 (repeatable).",
)
@click.option("--save", type=click.Path(dir_okay=False), help="Seal the forecast in this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--summary", is_flag=True, help="Print tables of coefficients and forecasts.")
def forecast_command(
    sweep: str,
    *,
    at: Sequence[str],
    save: str | None,
    as_json: bool,
    summary: bool,
    **columns: Any,
) -> None:
    """Forecast larger sizes from SWEEP.

    SWEEP is a CSV, Parquet or JSONL file, the URL of an Optuna storage or MLflow store, a folder
    of a tracker's runs, a sealed forecast (.json), or - for CSV on the standard input.
    """
    from extrap.documents import forecast_document, save_forecast
    from extrap.reporting.terminal import forecast_text

    if as_json and summary:
        raise click.UsageError("--json and --summary are two ways to print; give one of them.")
    made = _forecast(sweep, columns)
    columns_at = made.runs.sizes if made.path is None else made.path.dials
    sizes = [parse_size(text, columns_at) for text in at] or made.default_targets()
    points = [made.at(**size) for size in sizes]
    if as_json:
        print_json(forecast_document(made, points))
    elif summary:
        say(str(made.summary()))
    else:
        say(forecast_text(made, points))
    if save:
        sealed = save_forecast(made, save)
        say(f"sealed in {save}, content hash {sealed}", err=as_json)


@cli.command(name="check")
@click.argument("forecast_or_sweep")
@click.argument("big")
@_columns
@_loss
@_big_curves
@click.option(
    "--tolerance",
    default=0.005,
    show_default=True,
    help="Relative deviation that is no alarm, however significant.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    forecast_or_sweep: str, big: str, *, tolerance: float, as_json: bool, **columns: Any
) -> int:
    """Hold the larger runs of BIG against a forecast; exit 1 if a run deviates.

    FORECAST_OR_SWEEP is a sealed forecast (.json) or a sweep.
    """
    from extrap.checking import check
    from extrap.documents import verdicts_document
    from extrap.reporting.terminal import verdicts_text

    made = _forecast(forecast_or_sweep, columns)
    verdicts = check(made, _read_big(big, made, columns), tolerance=tolerance)
    document = verdicts_document(verdicts, level=made.level, forecast=made)
    if as_json:
        print_json(document)
    else:
        say(verdicts_text(verdicts, made))
    return FINE if document["ok"] else DEVIATES


@cli.command(name="backtest")
@click.argument("sweep")
@_columns
@_loss
@click.option(
    "--scheme",
    type=click.Choice(["rolling", "leave-one-out"]),
    default="rolling",
    show_default=True,
    help="Fit the smallest sizes and predict the larger ones, or all sizes but one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backtest_command(sweep: str, *, scheme: str, as_json: bool, **columns: Any) -> None:
    """Say how well forecasts from a part of SWEEP would have met the rest.

    SWEEP is what forecast takes; of a sealed forecast its runs, band and pins are used.
    """
    from extrap.backtesting import backtest, backtest_document
    from extrap.reporting.terminal import backtest_text

    level = 0.9 if columns["level"] is None else columns["level"]
    runs, band, fix = _backtested(sweep, columns)
    found = backtest(runs, level=level, scheme=scheme, band=band, fix=fix)
    if as_json:
        print_json(backtest_document(found))
    else:
        say(backtest_text(found))


@cli.command(name="report")
@click.argument("sweep")
@click.argument("big", required=False)
@_columns
@_big_curves
@click.option(
    "--loss",
    "losses",
    multiple=True,
    help="The loss column, default loss; further ones get a short section each (repeatable).",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="The HTML file; default by name."
)
@click.option("--storage", help="Storage URL of the study, for a study file.")
@click.option("--title", help="Title of the page.")
@click.option(
    "--price",
    type=click.FloatRange(min=0),
    help="Price of an hour of training, for what is wasted; needs columns wall_s and flops.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write a summary for a pull request into this file; - prints it.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False),
    help="Write the figures (SVG, PNG) and tables (CSV) into this folder too.",
)
def report_command(
    sweep: str,
    big: str | None,
    *,
    output: str | None,
    storage: str | None,
    title: str | None,
    price: float | None,
    markdown: str | None,
    figures: str | None,
    losses: Sequence[str],
    **columns: Any,
) -> None:
    """Write one HTML page on SWEEP and, if given, the larger runs of BIG.

    SWEEP may be a study file: then the page is made from its storage, or from the run table BIG
    that the study wrote to reports/NAME.runs.csv, and nothing is trained.
    """
    first, *others = dict.fromkeys(losses or columns["maximise"][:1] or (None,))
    if sweep.endswith(".py"):
        _refuse_columns(sweep, {**columns, "loss": losses})
        page = report_study_file(sweep, storage=storage, table=big, output=output)
        write_besides(page, markdown=markdown, figures=figures)
        return
    from extrap.reporting import report

    once = [source for source in (sweep, big) if source == "-" or (source or "").endswith(".json")]
    if others and once:
        raise click.UsageError(
            f"several --loss need tables that can be read again, got {once[0]}; give one --loss."
        )
    made, verdicts, runs = _judged(sweep, big, {**columns, "loss": first})
    metrics = {str(name): _judged(sweep, big, {**columns, "loss": name})[:2] for name in others}
    path = report(
        made,
        verdicts,
        path=output or "reports/report.html",
        title=title,
        metrics=metrics,
        runs=runs,
        price=price,
    )
    write_besides(path, markdown=markdown, figures=figures)


@cli.command(name="coord-check")
@click.argument("study_file")
@click.option(
    "--width", multiple=True, type=int, help="A width (repeatable); default the study's."
)
@click.option("--steps", default=5, show_default=True, help="Updates.")
@click.option("--lr", type=float, help="Learning rate; default the middle of the study's range.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field of the study, e.g. recipe.parametrization=mup (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def coord_check_command(
    study_file: str,
    *,
    width: Sequence[int],
    steps: int,
    lr: float | None,
    assignments: Sequence[str],
    as_json: bool,
) -> int:
    """Check that the outputs of every layer move equally far at every width.

    Trains the model of STUDY_FILE for a few updates at the study's widths or those given. Under a
    width rule that lets the learning rate transfer, such as muP, the changes are flat; exit code 1
    says that one is not.
    """
    from extrap import coordinate_check
    from extrap.records import override
    from extrap.study_files import load_study

    spec = override(load_study(study_file), assignments)
    found = coordinate_check(spec, widths=width or None, steps=steps, lr=lr)
    if as_json:
        print_json({**asdict(found), "is_flat": found.is_flat})
    else:
        say(str(found))
    return FINE if found.is_flat else DEVIATES


@cli.group()
def study() -> None:
    """Run studies: sweeps at small sizes, then the forecast, then larger runs."""


@study.command(name="run")
@click.argument("path")
@click.option("--storage", help="Storage URL; default sqlite:///.extrap/NAME.db.")
@click.option("--dry-run", is_flag=True, help="Say what would be trained, and train nothing.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field, of the baseline too if the study has one (repeatable).",
)
@preemptible
@accepting
@click.option("--quiet", is_flag=True, help="No progress.")
def study_run(
    path: str,
    *,
    storage: str | None,
    dry_run: bool,
    assignments: Sequence[str],
    checkpoints: str | None,
    stop_within: float,
    accepts: bool,
    quiet: bool,
) -> None:
    """Run the study file PATH, or resume it, and write its report."""
    if accepts:
        accept_training(path, assignments, storage)
    with stops_gracefully(stop_within, checkpoints=checkpoints):
        run_study_file(path, assignments, storage=storage, dry_run=dry_run, quiet=quiet)


study.add_command(work_command)
study.add_command(merge_command)
study.add_command(serve_command)
study.add_command(status_command)
study.add_command(export_command)
study.add_command(import_command)
study.add_command(repair_command)
cli.add_command(allocate_command)
cli.add_command(beside_command)
cli.add_command(cascade_command)
cli.add_command(select_command)
cli.add_command(compare_command)
cli.add_command(critical_batch_command)
cli.add_command(index_command)
cli.add_command(init_command)
cli.add_command(knobs_command)
cli.add_command(page_command)
cli.add_command(watch_command)
cli.add_command(completion_command)
completes(cli)


def _sweep(command: Callable[..., Any]) -> Callable[..., Any]:
    return _columns(_loss(command))


def _read_forecast(source: str, columns: dict[str, Any]) -> Forecast:
    return _forecast(source, columns)  # defined below


cli.add_command(cost_command(_sweep, _read_forecast))
cli.add_command(plan_command(_sweep, _read_forecast))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(args=given, prog_name="extrap", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), BAD_USAGE, given)
    except (KeyboardInterrupt, click.exceptions.Abort):
        return _fail("stopped; the same command resumes", INTERRUPTED, given)
    except (ExtrapError, ValueError) as error:
        return _fail(_noted(error), BAD_USAGE, given)
    except SystemExit:  # click saw the reader of our output, such as head, leave
        return FINE
    except OSError as error:
        place = f" {error.filename}" if error.filename else ""
        reason = error.strerror or str(error)
        remedy = REMEDIES.get(error.errno or 0, "check the path")
        return _fail(f"cannot read or write{place} ({reason}); {remedy}", BAD_USAGE, given)
    except ModuleNotFoundError as error:
        needed = f"this needs {error.name}, which is not installed"
        extra = EXTRAS.get((error.name or "").partition(".")[0], "train")
        return _fail(f"{needed}; run pip install 'extrap-hp[{extra}]'", BAD_USAGE, given)
    except Exception as error:  # the last door: nobody sees a bare traceback
        return _fail(f"unexpected {type(error).__name__}: {_noted(error)}", UNEXPECTED, given)
    return result if isinstance(result, int) else FINE


def _noted(error: Exception) -> str:
    """An error and what was noted of it on its way, such as the run in which it arose."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _fail(message: str, code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exc()
    line = " ".join(message.split())
    say(f"extrap: {line if len(line) <= MOST_MESSAGE else f'{line[:MOST_MESSAGE]}…'}", err=True)
    return code


def _forecast(source: str, columns: dict[str, Any]) -> Forecast:
    """A forecast from a sealed file or from a sweep."""
    if source.endswith(".json"):
        from extrap.documents import load_forecast

        made = load_forecast(source)
        _check_sealed(source, made, columns)
        return made
    from extrap.forecasting import forecast

    level = 0.95 if columns["level"] is None else columns["level"]
    return forecast(
        _read(source, columns),
        level=level,
        band=columns["band"] or "default",
        fix=_parse_pins(columns["fix"]),
        path=parse_path(columns["path"]),
    )


def _judged(
    source: str, big: str | None, columns: dict[str, Any]
) -> tuple[Forecast, tuple[Verdict, ...], Runs | None]:
    """A forecast, its larger runs if any are given, and the verdicts on them."""
    from extrap.checking import check

    made = _forecast(source, columns)
    if not big:
        return made, (), None
    runs = _read_big(big, made, columns)
    return made, check(made, runs), runs


def _backtested(source: str, columns: dict[str, Any]) -> tuple[Runs, str, dict[str, float]]:
    """The sweep in a table, a storage or a sealed forecast, and its forecast's band and pins."""
    if columns["path"]:
        raise click.UsageError("a backtest asks for the sizes of its runs; leave --path out.")
    if not source.endswith(".json"):
        return _read(source, columns), columns["band"] or "default", _parse_pins(columns["fix"])
    from extrap.documents import load_forecast
    from extrap.reporting.statements import pins_of

    made = load_forecast(source)
    _check_sealed(source, made, {**columns, "level": None})  # a backtest has a level of its own
    return made.runs, made.band, pins_of(made)


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
        if asked[option] not in (None, (), value):
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


def _read(source: str, columns: dict[str, Any], *, stage: str = "tune") -> Runs:
    from extrap.reading import read_runs

    return read_runs(
        sys.stdin if source == "-" else source,
        size=columns["size"],
        tune=parse_tuned(columns["tune"]),
        loss=columns["loss"],
        seed=columns["seed"],
        conditions=columns["condition"],
        study=columns["study"],
        stage=stage,
        curves=columns["curves"],
        **reading_of(columns),
    )


def _read_big(source: str, made: Forecast, columns: dict[str, Any]) -> Runs:
    """Runs to judge; what their columns are is known from the forecast."""
    known = {"size": made.runs.sizes, "tune": made.runs.tuned, "condition": made.runs.conditions}
    known["curves"] = columns["big_curves"]
    return _read(source, {**columns, **known}, stage="check")


def _refuse_columns(study_file: str, columns: dict[str, Any]) -> None:
    """Options that a study file settles would have no effect: say so."""
    given = [name for name, value in columns.items() if value not in (None, (), "seed", "last")]
    if given:
        raise click.UsageError(
            f"a study file says how its runs are read and fitted, {study_file} was given "
            f"--{given[0]} too; leave the option out."
        )
