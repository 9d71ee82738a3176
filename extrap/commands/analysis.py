"""How a command is made: usage, options, a function, and what is printed of its result.

@analysis("cascade SOURCE", "level", "--cost-large FLOAT | Cost of … [required]")
def cascade_command(source, **options):
    \"\"\"The help.\"\"\"
    from extrap.analyses.cascade import cascade

    return Printed(cascade(source, **options))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.option_table import Option, read_options, shared_options
from extrap.commands.printing import print_json, say
from extrap.errors import know_options
from extrap.fitting.one_thread import one_thread

if TYPE_CHECKING:
    from extrap.reporting.blocks import Block

EXIT_FINE, EXIT_DEVIATES, EXIT_BAD_USAGE = 0, 1, 2
EXIT_UNEXPECTED, EXIT_UNDECIDED, EXIT_INTERRUPTED = 3, 4, 130
"""Exit codes."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The result of an analysis, and what is printed of it.

    Attributes:
        result: The result.
        blocks: What is printed of it; by default `blocks_of` says.
        document: Makes what `--json` prints; by default `to_dict` of the result.
        code: The exit code.
        notes: Lines below; with `--json` on the standard error.
        json_notes: Lines that the text has; with `--json` on the standard error.
    """

    result: Any
    blocks: Iterable[Block] | None = None
    document: Callable[[], dict[str, Any]] | None = None
    code: int = EXIT_FINE
    notes: Sequence[str] = ()
    json_notes: Sequence[str] = ()

    def show(self, *, as_json: bool, details: bool) -> int:
        """Print it and return the exit code."""
        if as_json:
            print_json((self.document or self.result.to_dict)())
        else:
            from extrap.reporting.text import blocks_of, blocks_text

            blocks = blocks_of(self.result) if self.blocks is None else self.blocks
            say(blocks_text(blocks, details=details))
        for note in (*self.notes, *(self.json_notes if as_json else ())):
            say(note, err=as_json)
        return self.code


class Command(click.Command):
    """A command whose errors name options, not arguments."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; messages name its options."""
        options: dict[str, str] = {}
        for option in self.params:
            if isinstance(option, Option):
                name = option.flag.removeprefix("--").replace("-", "_")
                options |= dict.fromkeys((str(option.name), name), option.flag)
                if option.multiple:  # its argument takes several
                    options.setdefault(f"{name}s", option.flag)
        know_options(options)
        return super().invoke(ctx)


def command(
    usage: str, shared: str = "", table: str = ""
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a command of a function; its docstring is the help, what it returns the exit code.

    Args:
        usage: Its name and arguments: `report SWEEP [BIG]`, `compare SOURCES...`.
        shared: Names of options in `option_table.SHARED_OPTIONS`.
        table: Its own options, as a table.
    """
    name, *arguments = usage.split()
    params = [*map(_argument, arguments), *read_options(table), *shared_options(shared)]

    def decorate(function: Callable[..., int | None]) -> Command:
        help_text = inspect.cleandoc(function.__doc__ or "")
        return Command(name, callback=function, help=help_text, params=params)

    return decorate


def _argument(word: str) -> click.Argument:
    name = word.strip("[].").lower()
    many = -1 if word.endswith("...") else 1
    return click.Argument([name], required=not word.startswith("["), nargs=many)


def analysis(
    usage: str, shared: str = "", table: str = "", *, trains: bool = False
) -> Callable[[Callable[..., Printed]], Command]:
    """Make a command of a function that returns a `Printed`, with `--json`.

    Args:
        usage: As for `command`.
        shared: As for `command`; `details` where its blocks have `Details`, for what they hold.
        table: As for `command`.
        trains: Whether it trains, which may use all cores.
    """

    def decorate(function: Callable[..., Printed]) -> Command:
        def call(*, as_json: bool, details: bool = False, **options: Any) -> int:
            with nullcontext() if trains else one_thread:
                return function(**options).show(as_json=as_json, details=details)

        call.__doc__ = function.__doc__
        return command(usage, f"{shared} as_json", table)(call)

    return decorate
