"""The page of all commands, made from the commands themselves.

`make docs` writes it; `tests/test_docs.py` compares it with what the command line offers.
"""

import inspect
import re

import click

from extrap.cli import cli
from extrap.files import write_text

from .pages import ROOT

__all__ = ["PATH", "cli_page"]

PATH = ROOT / "docs" / "reference" / "cli.md"
HEAD = """# The command line

Made by `make docs` from the commands themselves: what `extrap COMMAND --help` says. Exit codes
are in [stability.md](../stability.md#exit-codes). `extrap --debug COMMAND …` shows the traceback
of an error.
"""


def cli_page():
    """Markdown: one section per command, one table per group of options."""
    sections = [HEAD]
    commands = list(_commands(cli, ()))
    sections.append(
        "\n".join(f"- [`{' '.join(name)}`](#{'-'.join(name)})" for name, _ in commands)
    )
    sections += [_section(name, command) for name, command in commands]
    return "\n\n".join(part.strip() for part in sections) + "\n"


def _commands(group, before):
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, (*before, name))
        elif not command.hidden:
            yield (*before, name), command


def _section(name, command):
    context = click.Context(command, info_name=" ".join(("extrap", *name)))
    usage = " ".join(command.collect_usage_pieces(context))
    words = inspect.cleandoc(command.help or "").replace("\b", "").replace("\f", "")
    paragraphs = [re.sub(r"\s+", " ", each).strip() for each in words.split("\n\n")]
    lines = [f"## {' '.join(name)}", f"`extrap {' '.join(name)} {usage}`", *paragraphs]
    for heading, options in command.headed_options(context).items():
        rows = [_row(each, context) for each in options if each in command.params]
        if rows:
            lines.append("\n".join([f"| {heading} | |", "|---|---|", *rows]))
    return "\n\n".join(lines)


def _row(option, context):
    record = option.get_help_record(context)
    assert record is not None
    name, words = (re.sub(r"\s+", " ", part).replace("|", "\\|") for part in record)
    return f"| `{name}` | {words} |"


if __name__ == "__main__":
    write_text(PATH, cli_page())
