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

PATH = ROOT / "docs" / "reference" / "cli.md"
SHARED = 2
"""Commands from which on an option with one description is listed once, as shared."""
HEAD = """# Command line

`make docs` makes this page from `extrap COMMAND --help`. [Exit codes](../stability.md#exit-codes).
`extrap --debug COMMAND …` shows the traceback of an error.

## Sweep options

Commands that read a sweep have these options.

{sweep}

## Shared options

Several commands have these options, and name them under "also".

{others}
"""


def cli_page():
    """Markdown: options that commands share, then one section per command."""
    commands = list(_commands(cli, ()))
    pages = {name: _rows(name, command) for name, command in commands}
    uses = Counter(row for rows in pages.values() for row in rows)
    often = [row for row, n in reversed(uses.most_common()) if n >= SHARED]
    shared = {name: (name, words) for name, words in often}
    readers = [{name for name, _ in rows} for rows in pages.values() if _reads_a_sweep(rows)]
    sweep = {name for name in shared if all(name in names for names in readers)}
    head = HEAD.format(
        sweep="\n".join(_line(shared[name]) for name in sorted(sweep)),
        others="\n".join(_line(shared[name]) for name in sorted(set(shared) - sweep)),
    )
    sections = [_section(*each, pages[each[0]], set(shared.values()), sweep) for each in commands]
    return "\n\n".join(part.strip() for part in (head, *sections)) + "\n"


def _reads_a_sweep(rows):
    return any(name.startswith("--curves ") for name, _ in rows)


def _commands(group, before):
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, (*before, name))
        elif not command.hidden:
            yield (*before, name), command


def _rows(name, command):
    """Name and description of the options of a command."""
    context = click.Context(command, info_name=" ".join(("extrap", *name)))
    return [_row(each, context) for each in command.params if isinstance(each, click.Option)]


def _section(name, command, rows, shared, sweep):
    context = click.Context(command, info_name=" ".join(("extrap", *name)))
    usage = " ".join(command.collect_usage_pieces(context))
    words = inspect.cleandoc(command.help or "").replace("\b", "").replace("\f", "")
    paragraphs = [re.sub(r"\s+", " ", each).strip() for each in words.split("\n\n")]
    lines = [f"## {' '.join(name)}", f"`extrap {' '.join(name)} {usage}`", *paragraphs]
    lines.append("\n".join(_line(row) for row in rows if row not in shared))
    also = ["[sweep options](#sweep-options)"] if _reads_a_sweep(rows) else []
    left = [row[0] for row in rows if row in shared and not (also and row[0] in sweep)]
    also += [f"`{each.split()[0].rstrip(',')}`" for each in left]
    if also:
        lines.append(f"Also: {', '.join(also)}.")
    return "\n\n".join(line for line in lines if line)


def _row(option, context):
    record = option.get_help_record(context)
    assert record is not None
    name, words = (re.sub(r"\s+", " ", part) for part in record)
    return name, words


def _line(row):
    return f"- `{row[0]}`: {row[1].replace('*', chr(92) + '*')}"


if __name__ == "__main__":
    write_text(PATH, cli_page())
