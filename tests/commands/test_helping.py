"""Help in groups, and errors that name what the reader can change: an option or an argument."""

import re
from pathlib import Path

import click
import pytest

import extrap
from extrap.cli import cli, main

COMMANDS = {
    name: command
    for group in (cli, cli.commands["study"])
    for name, command in group.commands.items()
}


def help_of(*arguments):
    context = click.Context(cli, info_name="extrap", terminal_width=80)
    command = cli
    for name in arguments:
        command = command.commands[name]
        context = click.Context(command, info_name=name, parent=context, terminal_width=80)
    return command.get_help(context)


@pytest.mark.parametrize("group", [[], ["study"]])
def test_a_group_alone_prints_its_help_and_exits_with_zero(group, capsys):
    assert main(group) == 0
    bare = capsys.readouterr()
    assert main([*group, "--help"]) == 0
    assert (bare.out, bare.err) == (capsys.readouterr().out, "")
    assert "Usage: " in bare.out


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


ROOT = Path(__file__).parents[2]
SWEEP, EMBEDDING = ROOT / "examples/sweep.csv", ROOT / "tests/contract/tables/embedding.csv"


def forecast():
    return extrap.forecast(extrap.read_runs(SWEEP, size="width", tune="lr"))


REFUSED = {
    f"plan {SWEEP} --size width --tune lr --at 64 --budget -1": (
        ("--budget",),
        ("budget",),
        lambda: extrap.plan(forecast(), at={"width": 64}, budget=-1),
    ),
    f"allocate {SWEEP} --flops 1e9 --level 95": (
        ("--level",),
        ("level",),
        lambda: extrap.allocate(SWEEP, flops=1e9, level=95),
    ),
}
"""Command → its options in the message; the arguments in the message of the call beside it."""


@pytest.mark.parametrize("line", REFUSED)
def test_an_error_names_options_in_the_shell_and_arguments_in_python(line, capsys):
    options, arguments, call = REFUSED[line]
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert set(options) <= set(re.findall(r"--[a-z-]+", said))
    with pytest.raises((ValueError, extrap.ExtrapError)) as refusal:
        call()
    assert all(argument in str(refusal.value) for argument in arguments)
    assert "--" not in str(refusal.value)
