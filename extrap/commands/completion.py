"""`extrap completion`, and what the arguments of other commands complete to.

A shell asks at every press of a key: nothing here imports a library of tables, and of a file only
the first line is read.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from extrap.commands.helping import Command
from extrap.commands.outputs import given_texts
from extrap.commands.printing import say

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
VARIABLE = "_EXTRAP_COMPLETE"
HEADING_BYTES = 65_536
"""Of a table, what its headings may take."""
PLAIN_NAME = re.compile(r"[\w.+/-]{1,60}")
"""A column whose name means nothing to a shell; others are typed by hand."""
SUFFIXES = {",": (".csv", ".txt"), "\t": (".tsv", ".tab")}
STUDIES = ("path", "study_file")
"""Arguments that take a study file; all others that take any text take a file."""
COLUMNS = ("size", "tune", "seed", "condition", "loss", "losses")
"""Options that name a column of the table before them."""


@click.command(name="completion", cls=Command)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion_command(shell: str) -> None:
    """Print the script for completion in a shell.

    The shell then completes commands, options, files and columns.

    \b
    bash:  extrap completion bash > ~/.local/share/bash-completion/completions/extrap
    zsh:   extrap completion zsh > ~/.zfunc/_extrap    (with ~/.zfunc in fpath)
    fish:  extrap completion fish > ~/.config/fish/completions/extrap.fish
    """  # noqa: D301 - click reads \b as "leave these lines as they are"
    root = click.get_current_context().find_root()
    made = SHELLS[shell](root.command, {}, "extrap", VARIABLE)
    # not made.source(): that of bash starts bash to learn its version
    say((made.source_template % made.source_vars()).rstrip())


def completes(group: click.Group) -> None:
    """Have the arguments of all commands of a group complete to files, study files or columns."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            completes(command)
            continue
        for parameter in command.params:
            if parameter.type is click.STRING and isinstance(parameter, click.Argument):
                parameter.type = _StudyFile() if parameter.name in STUDIES else _File()
            elif parameter.type is click.STRING and parameter.name in COLUMNS:
                parameter.type = _Column()


class _File(click.types.StringParamType):
    """Any text, which a shell completes to a file."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class _StudyFile(_File):
    """The same, with the studies of `studies/` first."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = sorted(str(path) for path in Path("studies").glob("*.py"))
        named = [CompletionItem(path) for path in found if path.startswith(incomplete)]
        return named or super().shell_complete(ctx, param, incomplete)


class _Column(click.types.StringParamType):
    """A column of the tables that were given before."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        given = given_texts([*ctx.params.values(), *ctx.args])  # args: what an open option cut off
        names = dict.fromkeys(name for value in given for name in _headings(Path(value)))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _headings(path: Path) -> list[str]:
    """Names in the first line of a table of text; none if it is no such table."""
    separator = next((s for s, ends in SUFFIXES.items() if path.suffix in ends), None)
    try:
        if separator is None or not path.is_file():
            return []
        with path.open("rb") as file:
            line = file.readline(HEADING_BYTES).decode("utf-8-sig")
    except (OSError, ValueError):
        return []
    names = [name.strip().strip('"') for name in line.split(separator)]
    return [name for name in names if PLAIN_NAME.fullmatch(name)]
