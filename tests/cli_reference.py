"""The page of all commands, made from the commands themselves.

`make docs` writes it; `tests/test_docs.py` compares it with what the command line offers.
"""

import inspect
import re
from collections import Counter

import click

from extrap.cli import cli
from extrap.files import write_text

from .pages import ROOT

__all__ = ["PATH", "cli_page"]

PATH = ROOT / "docs" / "reference" / "cli.md"
SHARED = 2
"""Commands from which on an option with one description is listed once, as shared."""
HEAD = """# Command line

`make docs` makes this page from the commands: it is what `extrap COMMAND --help` prints. Exit
codes are in [compatibility](../stability.md#exit-codes). `extrap --debug COMMAND …` shows the
traceback of an error.

## Shared options

Several commands have these options, and name them under "also".
"""


def cli_page():
    """Markdown: options that commands share, then one section per command."""
    commands = list(_commands(cli, ()))
    pages = {name: _headed_rows(name, command) for name, command in commands}
    uses = Counter(row for rows in pages.values() for part in rows.values() for row in part)
    often = [row for row, n in reversed(uses.most_common()) if n >= SHARED]
    shared = set({name: (name, words) for name, words in often}.values())
    table = "\n".join(map(_line, sorted(shared)))
    sections = [_section(name, command, pages[name], shared) for name, command in commands]
    return "\n\n".join(part.strip() for part in (HEAD, table, *sections)) + "\n"


def _commands(group, before):
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, (*before, name))
        elif not command.hidden:
            yield (*before, name), command


def _headed_rows(name, command):
    """Heading → name and description of its options."""
    context = click.Context(command, info_name=" ".join(("extrap", *name)))
    return {
        heading: [_row(each, context) for each in options if each in command.params]
        for heading, options in command.headed_options(context).items()
    }


def _section(name, command, headed, shared):
    context = click.Context(command, info_name=" ".join(("extrap", *name)))
    usage = " ".join(command.collect_usage_pieces(context))
    words = inspect.cleandoc(command.help or "").replace("\b", "").replace("\f", "")
    paragraphs = [re.sub(r"\s+", " ", each).strip() for each in words.split("\n\n")]
    lines = [f"## {' '.join(name)}", f"`extrap {' '.join(name)} {usage}`", *paragraphs]
    rows = [row for part in headed.values() for row in part]
    own = [_line(row) for row in rows if row not in shared]
    if own:
        lines.append("\n".join(own))
    if also := [f"`{row[0].split()[0].rstrip(',')}`" for row in rows if row in shared]:
        lines.append(f"Also: {', '.join(also)}.")
    return "\n\n".join(lines)


def _row(option, context):
    record = option.get_help_record(context)
    assert record is not None
    name, words = (re.sub(r"\s+", " ", part) for part in record)
    return name, words


def _line(row):
    return f"- `{row[0]}`: {row[1].replace('*', chr(92) + '*')}"


if __name__ == "__main__":
    write_text(PATH, cli_page())
