"""The command line: parse, one library call, print, exit code.

Exit codes: 0 fine, 1 a run deviates, 2 bad usage or data, 3 an unexpected error, 130 Ctrl-C,
SIGTERM or SIGUSR1.
"""

from __future__ import annotations

import errno
import gc
import logging
import shlex
import sys
import traceback
from collections.abc import Sequence

import click

from extrap import __version__
from extrap.commands.allocate import allocate_command
from extrap.commands.backtest import backtest_command
from extrap.commands.cascade import cascade_command
from extrap.commands.check import check_command
from extrap.commands.compare import compare_command
from extrap.commands.coord_check import coord_check_command
from extrap.commands.cost import cost_command
from extrap.commands.critical_batch import critical_batch_command
from extrap.commands.exits import BAD_USAGE, FINE, INTERRUPTED, UNEXPECTED
from extrap.commands.exports import export_command, import_command
from extrap.commands.forecast import forecast_command
from extrap.commands.helping import Command, Group
from extrap.commands.init import init_command
from extrap.commands.knobs import knobs_command
from extrap.commands.pages import index_command, page_command
from extrap.commands.plan import plan_command
from extrap.commands.printing import PlainFormatter, say
from extrap.commands.report import report_command
from extrap.commands.select import select_command
from extrap.commands.status import status_command
from extrap.commands.stopping import accepting, preemptible, stops_gracefully
from extrap.commands.studies import run_study_file
from extrap.commands.watch import watch_command
from extrap.errors import DataError, ExtrapError, as_options
from extrap.installing import how_to_install

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


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="extrap")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(*, debug: bool) -> None:
    """Tune at small sizes, forecast the large run, and check it."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


@click.group(cls=Group)
def study() -> None:
    """Run a study, follow it, or move its runs."""


@click.command(name="run", cls=Command)
@click.argument("path")
@click.option("--storage", help="Storage URL; default sqlite:///.extrap/NAME.db.")
@click.option("--dry-run", is_flag=True, help="List what would be trained, and train nothing.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a field of the study and of its baseline (repeatable).",
)
@click.option(
    "--cells",
    type=click.Path(dir_okay=False),
    help="Also train the runs of this table: size and tuned columns and seed, as extrap plan -o "
    "writes it.",
)
@click.option("--device", help="Device: cpu, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--on",
    metavar="CLUSTER",
    help="Train on a cluster: ray, ray://HOST:10001 or dask://HOST:8786; default: this machine.",
)
@click.option(
    "--gpus-per-pack",
    type=click.FloatRange(min=0),
    default=0,
    help="GPUs that each pack takes on a cluster; default: none.",
)
@preemptible
@accepting
@click.option("--quiet", is_flag=True, help="Show no progress.")
def study_run(
    path: str,
    *,
    storage: str | None,
    dry_run: bool,
    assignments: Sequence[str],
    cells: str | None,
    device: str | None,
    on: str | None,
    gpus_per_pack: float,
    checkpoints: str | None,
    stop_within: float,
    accepts: bool,
    quiet: bool,
) -> None:
    """Run or resume a study, and write its report.

    PATH is the study file.
    """
    with stops_gracefully(stop_within, checkpoints=checkpoints):
        run_study_file(
            path,
            assignments,
            cells=cells,
            storage=storage,
            dry_run=dry_run,
            device=device,
            cluster=on,
            n_gpus=gpus_per_pack,
            accepts=accepts,
            quiet=quiet,
        )


study.add_section("Run", study_run, status_command)
study.add_section("Storage", export_command, import_command)
cli.add_section("Forecast", forecast_command, plan_command, cost_command)
cli.add_section("Check", backtest_command, check_command, watch_command)
cli.add_section("Run studies", init_command, study, coord_check_command)
cli.add_section("Reports", report_command, page_command, index_command)
cli.add_section(
    "More analyses",
    compare_command,
    allocate_command,
    critical_batch_command,
    knobs_command,
    cascade_command,
    select_command,
)


RARELY = (50_000, 20, 20)
"""Objects between two garbage collections: start-up makes modules, of which nothing is freed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr."""
    gc.set_threshold(*RARELY)
    given = list(sys.argv[1:] if arguments is None else arguments)
    with as_options():
        return _called(given)


def _called(given: list[str]) -> int:
    try:
        result = cli.main(args=given, prog_name="extrap", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), BAD_USAGE, given)
    except (KeyboardInterrupt, click.exceptions.Abort):
        return _fail("stopped; the same command resumes", INTERRUPTED, given)
    except DataError as error:
        code = _fail(_noted(error, error.args[0]), BAD_USAGE, given)
        for choice in error.choices:
            say(
                f"  {_command(given)} {choice}{f'  # {choice.words}' * bool(choice.words)}",
                err=True,
            )
        return code
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
        return _fail(f"{needed}; {how_to_install(error.name or '')}", BAD_USAGE, given)
    except Exception as error:  # the last door: nobody sees a bare traceback
        whose = "" if hasattr(error, "__notes__") else "unexpected "  # the note says it
        return _fail(f"{whose}{type(error).__name__}: {_noted(error)}", UNEXPECTED, given)
    return result if isinstance(result, int) else FINE


def _noted(error: Exception, words: str | None = None) -> str:
    """An error and what was noted of it on its way, such as the run in which it arose."""
    return "; ".join([str(error) if words is None else words, *getattr(error, "__notes__", ())])


def _command(given: Sequence[str]) -> str:
    """The command that was given, without the passwords of its addresses."""
    from extrap.errors import without_password

    return shlex.join(["extrap", *(without_password(each) for each in given)])


def _fail(message: str, code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exc()
    line = " ".join(message.split())
    say(f"extrap: {line if len(line) <= MOST_MESSAGE else f'{line[:MOST_MESSAGE]}…'}", err=True)
    return code
