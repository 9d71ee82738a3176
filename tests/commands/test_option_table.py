"""Options are made of records and tables, and their help says what they take."""

import click
import pytest

from extrap.cli import cli
from extrap.commands.option_table import Option, read_options, shared_options

COMMANDS = {**cli.commands, **cli.commands["study"].commands}


def test_a_row_says_how_an_option_is_written_what_it_takes_and_where_it_counts():
    level, knobs, quiet = read_options("""
        -l --level FLOAT | Level of
            the intervals. [default: 0.9] | table big
        --knob named NAME... | Knob. [required]
        --quiet | Say nothing.
    """)
    assert (level.name, level.flag, level.help) == ("level", "--level", "Level of the intervals.")
    assert (level.type, level.metavar, level.multiple) == (click.FLOAT, "FLOAT", False)
    assert (float(level.default), level.sources) == (0.9, {"table", "big"})
    assert (knobs.name, knobs.metavar, knobs.multiple) == ("named", "NAME", True)
    assert (knobs.required, level.required, quiet.is_flag) == (True, False, True)
    assert (quiet.sources, knobs.sources) == (frozenset(), frozenset())


def test_options_of_a_reading_are_written_as_its_fields():
    conditions, seed, kind = shared_options("conditions seed loss_kind")
    assert (conditions.opts, conditions.multiple) == (["--condition"], True)
    assert (seed.flag, seed.default, seed.multiple) == ("--seed", "seed", False)
    assert (kind.flag, "nats" in kind.type.choices) == ("--loss-kind", True)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_which_options_are_repeatable(name):
    for option in COMMANDS[name].params:
        if isinstance(option, Option):
            assert ("(repeatable" in option.help) is option.multiple, option.flag
