"""The command line: parse, one library call, print, exit code.

Exit codes: 0 fine, 1 a run deviates, 2 bad usage or data, 3 an unexpected error, 130 Ctrl-C,
SIGTERM or SIGUSR1.
"""

from __future__ import annotations

import gc
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from extrap import registry
from extrap.commands import init, pages, study_files
from extrap.commands.analysis import EXIT_BAD_USAGE, EXIT_FINE, EXIT_INTERRUPTED, EXIT_UNEXPECTED
from extrap.commands.printing import say
from extrap.errors import Choice, DataError, ExtrapError, argument, as_options, nearest
from extrap.installing import how_to_install


class Group(click.Group):
    """A group whose help lists the commands under headings, and is printed if none is named."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "no_args_is_help": False})
        self._sections: dict[str, tuple[click.Command, ...]] = {}

    def add_section(self, heading: str, *commands: click.Command) -> None:
        """Add commands, which the help lists under a heading."""
        self._sections[heading] = commands
        for command in commands:
            self.add_command(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; without any, print the help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; a source of runs is forecast."""
        if args[0] in self.commands or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        is_source = Path(args[0]).exists() or "://" in args[0]
        if "forecast" in self.commands and is_source:
            return super().resolve_command(ctx, ["forecast", *args])
        inner = {
            name: f"{group.name} {name}"
            for group in self.commands.values()
            if isinstance(group, Group)
            for name in group.commands
        }
        hint = nearest(inner.get(args[0], args[0]), [*self.commands, *inner.values()])
        raise click.UsageError(
            f"no command and no file is called {args[0]!r}; {hint} {ctx.command_path} --help "
            "lists the commands."
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, then the options."""
        width = max(map(len, self.commands))
        for heading, commands in self._sections.items():
            rows = [(f"{c.name:<{width}}", c.get_short_help_str(1_000)) for c in commands]
            with formatter.section(heading):
                formatter.write_dl([(name, text.rstrip(".")) for name, text in rows])
        click.Command.format_options(self, ctx, formatter)


def show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the version; a start without it is a fifth faster."""
    if is_asked and not context.resilient_parsing:
        from extrap import __version__

        say(f"extrap, version {__version__}")
        context.exit()


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(*, debug: bool) -> None:
    """Tune at small sizes, forecast the large run, and check it.

    `extrap TABLE` forecasts from a table, folder or storage. Programs: docs/agents.md.
    """
    from extrap.commands.log_lines import show_log

    show_log(debug=debug)


@click.group(cls=Group)
def study() -> None:
    """Run a study, and follow it."""


study.add_section("Run", study_files.run_command, study_files.status_command)
cli.add_section("Forecast", *registry.commands("Forecast"))
cli.add_section("Check", *registry.commands("Check"))
cli.add_section("Run studies", init.init_command, study, *registry.commands("Run studies"))
cli.add_section("Reports", *registry.commands("Reports"), pages.index_command)
cli.add_section("More analyses", *registry.commands("More analyses"))

RARELY = (50_000, 20, 20)
"""Objects between two garbage collections: start-up makes modules, of which nothing is freed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr."""
    gc.set_threshold(*RARELY)
    argv = list(sys.argv[1:] if arguments is None else arguments)
    with as_options():
        return _called(argv)


def _called(argv: list[str]) -> int:
    try:
        result = cli.main(args=argv, prog_name="extrap", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.NoSuchOption as error:
        hint = nearest(error.option_name, error.possibilities or ())
        where = error.ctx.command_path if error.ctx else "extrap"
        message = f"no option is called {error.option_name}; {hint}"
        return _fail(f"{message} {where} --help lists the options.", EXIT_BAD_USAGE, argv)
    except click.ClickException as error:
        return _fail(error.format_message(), EXIT_BAD_USAGE, argv)
    except (KeyboardInterrupt, click.exceptions.Abort):
        return _fail("stopped; the same command resumes", EXIT_INTERRUPTED, argv)
    except DataError as error:
        code = _fail(_noted(error, error.args[0]), EXIT_BAD_USAGE, argv)
        for choice in error.choices:
            if all(argument(name).startswith("-") for name in choice.arguments):
                comment = f"  # {choice.meaning}" if choice.meaning else ""
                say(f"  {_command(_without_replaced(argv, choice))} {choice}{comment}", err=True)
        return code
    except (ExtrapError, ValueError) as error:
        return _fail(_noted(error), EXIT_BAD_USAGE, argv)
    except SystemExit:  # click saw the reader of our output, such as head, leave
        return EXIT_FINE
    except OSError as error:
        path = f" {error.filename}" if error.filename else ""
        reason = error.strerror or str(error)
        remedy = "check its path, your rights and the free space"
        return _fail(f"cannot read or write{path} ({reason}); {remedy}", EXIT_BAD_USAGE, argv)
    except ModuleNotFoundError as error:
        needed = f"this needs {error.name}, which is not installed"
        return _fail(f"{needed}; {how_to_install(error.name or '')}", EXIT_BAD_USAGE, argv)
    except Exception as error:  # nobody sees a bare traceback
        whose = "" if hasattr(error, "__notes__") else "unexpected "  # the note says it
        return _fail(f"{whose}{type(error).__name__}: {_noted(error)}", EXIT_UNEXPECTED, argv)
    return result if isinstance(result, int) else EXIT_FINE


def _noted(error: Exception, message: str | None = None) -> str:
    """An error and what was noted of it on its way, such as the run in which it arose."""
    return "; ".join(
        [str(error) if message is None else message, *getattr(error, "__notes__", ())]
    )


REPLACED = ("size", "tune", "loss", "seed", "params", "tokens", "compute", "batch", "steps", "at")
"""Arguments of which a choice gives the whole value; to others it adds one more."""


NEED_SIZE = ("plan", "cost", "knobs")
"""Commands that need --at."""


def _without_replaced(argv: Sequence[str], choice: Choice) -> list[str]:
    """The command that was given, without the options that a choice replaces."""
    names = [name for name in choice.arguments if choice.instead or name in REPLACED]
    flags, remaining, parts = [argument(name) for name in names], list[str](), iter(argv)
    sizes = choice.arguments.get("size", ())
    if isinstance(sizes, list | tuple) and len(sizes) > 1 and argv[0] not in NEED_SIZE:
        flags.append("--at")  # of one column, unless it names them
    for part in parts:
        flag, equals, value = part.partition("=")
        if flag not in flags:
            remaining.append(part)
            continue
        value = value if equals else next(parts, "")
        if flag == "--at" and "=" in value and "at" not in names:
            remaining += [flag, value]
        if choice.instead and value.partition("=")[0] != choice.instead:
            remaining += [flag, value]
    return remaining


def _command(argv: Sequence[str]) -> str:
    """The command that was given, without the passwords of its addresses."""
    from extrap.errors import without_password

    return shlex.join(["extrap", *map(without_password, argv)])


def _fail(message: str, code: int, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exc()
    say(f"extrap: {' '.join(message.split())}", err=True)
    return code
