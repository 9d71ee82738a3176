"""Help in groups, and errors that name what the reader can change: an option or an argument."""

import re

import click
import pytest

from extrap.cli import cli

COMMANDS = {
    name: command
    for group in (cli, cli.commands["study"])
    for name, command in group.commands.items()
}


def help_of(*arguments):
    context = click.Context(cli, info_name="extrap", terminal_width=80, **cli.context_settings)
    command = cli
    for name in arguments:
        command = command.commands[name]
        context = click.Context(command, info_name=name, parent=context, terminal_width=80)
    return command.get_help(context)


@pytest.mark.parametrize("group", [[], ["study"]])
def test_every_command_stands_under_one_heading_on_one_whole_line(group):
    text = help_of(*group)
    listed = re.findall(r"^  ([a-z][a-z-]*) +(\S.*[^.…\n])$", text, re.MULTILINE)
    commands = (cli if not group else cli.commands["study"]).commands
    assert sorted(name for name, _ in listed) == sorted(commands)
    for name, summary in listed:
        assert commands[name].help.startswith(f"{summary}.")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_in_the_help_of_its_command_once(name):
    command = COMMANDS[name]
    text = help_of(*(["study", name] if name not in cli.commands else [name]))
    listed = re.findall(
        r"^  (?:-\w, )?(--[a-z-]+)", text.partition("\nOptions:\n")[2], re.MULTILINE
    )
    options = [p.opts[-1] for p in command.params if isinstance(p, click.Option)]
    assert sorted(listed) == sorted([*options, "--help"])
